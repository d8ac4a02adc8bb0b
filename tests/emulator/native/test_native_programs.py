"""Whole kernels leave the same bytes and faults with the C core and without it, which a launch does not need."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator_kit import go, kernel, native_core, tensors

from cutegen.cache_folder import FOLDER_VARIABLE
from cutegen.emulator.native import building
from cutegen.emulator.native import library as library_module
from cutegen.emulator.native.__main__ import main
from cutegen.emulator.native.building import COMPILER_VARIABLE, SWITCH, NotBuiltError, built
from cutegen.emulator.native.library import core, load
from cutegen.emulator.native.segments import Segment

LOOP = """
mul.wide.u32 %rd4, %r0, 4;
add.s64 %rd5, %rd0, %rd4;
add.s64 %rd6, %rd1, %rd4;
ld.global.b32 %r2, [%rd5];
mov.b32 %r3, 0;
mov.b32 %r4, 0f3F800000;
AGAIN:
fma.rn.f32 %r4, %r4, %r2, %r4;
setp.gt.u32 %p1, %r3, %r0;
@%p1 add.f32 %r4, %r4, 0f3E000000;
@!%p1 xor.b32 %r5, %r3, %r0;
add.u32 %r3, %r3, 1;
and.b32 %r6, %r0, 7;
setp.lt.u32 %p2, %r3, %r6;
@%p2 bra AGAIN;
cvt.rn.bf16x2.f32 %r7, %r4, %r2;
setp.gt.u32 %p3, %r0, 40;
@%p3 bra OTHERS;
add.u32 %r7, %r7, 1;
shl.b32 %r7, %r7, 1;
OTHERS:
bar.sync 0;
st.global.b32 [%rd6], %r7;
"""
UNWRITTEN = "setp.lt.u32 %p1, %r0, 9;\n@%p1 add.u32 %r3, %r0, 1;\nst.global.b32 [%rd1], %r3;"


def outcome(body: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """The memory after a kernel, its faults, and the number of executed instructions."""
    monkeypatch.setenv(SWITCH, "1" if native else "0")
    given, out = np.linspace(-2, 2, 96, dtype=np.float32), np.zeros(96, np.uint32)
    report = go(kernel(body), tensors((given, "in"), (out, "out")), block=96)
    return out.tolist(), [str(fault) for fault in report.faults], report.instructions


@pytest.mark.parametrize("body", [LOOP, UNWRITTEN], ids=["loop", "unwritten"])
def test_a_kernel_leaves_the_same_in_both_forms(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native_core()
    runs = 0
    by_core = Segment.__call__

    def counted(self: Segment, lanes: Any, mask: Any) -> None:
        nonlocal runs
        runs += 1
        by_core(self, lanes, mask)

    monkeypatch.setattr(Segment, "__call__", counted)
    without = outcome(body, False, monkeypatch)
    assert not runs
    assert outcome(body, True, monkeypatch) == without
    assert runs
    assert body == UNWRITTEN or any(without[0])


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A compiler that is slow, counts its calls in a file, and writes a library that is none."""
    path = tmp_path / "compiler"
    path.write_text(
        f'#!/bin/sh\necho called >> "{tmp_path}/calls"\nsleep 0.3\n'
        'while [ "$1" != -o ]; do shift; done\necho nothing > "$2"\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def with_fake(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILER_VARIABLE, str(fake))


def test_without_a_compiler_there_is_no_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILER_VARIABLE, str(tmp_path / "none"))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    found = load(tmp_path)
    assert isinstance(found, NotBuiltError) and "no C compiler" in str(found)
    assert outcome(LOOP, True, monkeypatch) == outcome(LOOP, False, monkeypatch)
    assert not (tmp_path / "cache").exists()


def test_a_core_that_was_found_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = native_core()
    monkeypatch.setenv(SWITCH, "1")
    assert core() is found
    monkeypatch.setattr(library_module, "is_there", lambda folder: False)
    assert core() is found
    monkeypatch.setenv(SWITCH, "0")
    assert core() is None


def test_the_command_says_whether_there_is_a_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = native_core().path
    main()
    assert f"operations of the C core are used: {path}" in capsys.readouterr().out
    monkeypatch.setenv(SWITCH, "0")
    main()
    assert "turned off by CUTEGEN_NATIVE=0" in capsys.readouterr().out
    monkeypatch.setenv(COMPILER_VARIABLE, str(tmp_path / "none"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    main()
    assert "numpy runs all instructions: there is no C compiler" in capsys.readouterr().out


def test_a_compiler_that_fails_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho 'no such option' >&2\nexit 3\n")
    failing.chmod(0o755)
    monkeypatch.setenv(COMPILER_VARIABLE, str(failing))
    with pytest.raises(NotBuiltError, match="fails with code 3: no such option"):
        built(tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.so"))


@pytest.mark.usefixtures("with_fake")
def test_a_folder_that_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = load(tmp_path / "file")
    assert isinstance(found, NotBuiltError) and "cannot be written" in str(found)


@pytest.mark.usefixtures("with_fake")
def test_a_library_that_cannot_be_loaded_is_no_core(tmp_path: Path) -> None:
    found = load(tmp_path / "cache")
    assert isinstance(found, NotBuiltError) and "cannot be loaded" in str(found)


def test_processes_that_start_at_once_compile_once(tmp_path: Path, fake: Path) -> None:
    code = "import sys; from pathlib import Path; from cutegen.emulator.native.building import built\n"
    code += "print(built(Path(sys.argv[1])))"
    environment = {**os.environ, COMPILER_VARIABLE: str(fake)}
    command = [sys.executable, "-c", code, str(tmp_path / "cache")]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    paths = {process.communicate()[0] for process in started}
    assert len(paths) == 1 and Path(paths.pop().strip()).read_text() == "nothing\n"
    assert (tmp_path / "calls").read_text() == "called\n"


def test_another_source_or_command_is_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    command = building.compiler()
    if command is None:
        pytest.skip("needs a C compiler")
    keys = {building._key(*given) for given in ((command, [b"a"]), (command, [b"b"]), ([*command, "-g"], [b"a"]))}
    assert len(keys) == 3


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the library, which is not there."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    building._begin.cache_clear()
    yield tmp_path / "cache"
    building._begin.cache_clear()


def comes(path: Path) -> bool:
    """Whether a file comes within a minute."""
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)
    return path.exists()


def library(folder: Path) -> Path:
    found = building._expected(folder, os.environ.get(COMPILER_VARIABLE))
    assert found is not None
    return found


@pytest.mark.usefixtures("with_fake")
def test_nobody_waits_for_the_compiler(tmp_path: Path, cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    for name in ("hashlib", "tempfile", "numpy"):  # what lies in the current folder is nobody's module
        (tmp_path / "here" / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    monkeypatch.chdir(tmp_path / "here")
    assert core() is None and core() is None
    assert comes(library(cold)) and building.is_there(cold)
    assert (tmp_path / "calls").read_text() == "called\n" and not (tmp_path / "imported").exists()


def test_a_compiler_that_fails_is_asked_once(
    tmp_path: Path, cold: Path, fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.write_text(f'#!/bin/sh\necho called >> "{tmp_path}/calls"\nexit 1\n')
    monkeypatch.setenv(COMPILER_VARIABLE, str(fake))
    assert core() is None and comes(library(cold).with_suffix(".failed"))
    building._begin.cache_clear()  # as in another process
    assert core() is None
    with pytest.raises(NotBuiltError, match="fails with code 1"):  # who waits for it has it tried again
        built(cold)
    assert (tmp_path / "calls").read_text() == "called\ncalled\n"


def test_a_compiler_that_is_no_command_is_none(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILER_VARIABLE, "cc 'of nobody")
    building.compile_beside()
    assert core() is None and not building.is_there(cold)


@pytest.mark.usefixtures("with_fake")
def test_a_library_that_others_can_write_is_not_loaded(tmp_path: Path) -> None:
    path = built(tmp_path / "cache")
    assert building.is_there(tmp_path / "cache")
    path.parent.chmod(0o777)
    assert not building.is_there(tmp_path / "cache")
    with pytest.raises(NotBuiltError, match="others can write"):
        built(tmp_path / "cache")


def test_the_library_lies_beside_the_bytecode_where_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    own = Path(building.__file__).parent / "__pycache__"
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    assert building.core_folder() == own
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert building.core_folder() == tmp_path
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert building.core_folder() == tmp_path
