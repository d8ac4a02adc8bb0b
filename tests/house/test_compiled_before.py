"""The tests compile a module once on a machine, and again when anything that the result depends on has changed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compiled_before_kit import CompiledBefore

from cutegen.codegen import generate
from cutegen.compiling import loading

pytest.importorskip("cutlass")

from cutegen.emulator.host import builds

SPEC = """\
cutegen: 1
kernel: sums
op: elementwise
tensors:
  A: {shape: [M, N], dtype: f32}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A + 1
targets: [sm_80, sm_90a]
"""
GIVEN = builds._compile_to_ptx
COMPILE = getattr(GIVEN, "compile", GIVEN)
"""The compiler itself, also where the tests' fixture has replaced it."""


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompiledBefore:
    monkeypatch.setattr(loading._UncachedLoader, "exec_module", loading._UncachedLoader.exec_module)
    before = CompiledBefore(tmp_path / "cache")
    before.watch()
    return before


@pytest.fixture(scope="module")
def text() -> str:
    return generate(SPEC, "specs/sums.yaml").modules[0].text


def module_in(folder: Path, text: str) -> ModuleType:
    folder.mkdir(exist_ok=True)
    (folder / "sums.py").write_text(text, encoding="utf-8")
    return loading.load(folder / "sums.py", "sums")


@pytest.mark.parametrize("lines", [False, True])
def test_a_module_is_compiled_once_wherever_its_file_is(
    before: CompiledBefore, text: str, tmp_path: Path, lines: bool
) -> None:
    first, second = module_in(tmp_path / "here", text), module_in(tmp_path / "there", text)
    ptx, host = before.compiled(COMPILE, first, "sm_80", lines)
    again, read = before.compiled(not_again, second, "sm_80", lines)
    assert again == ptx.replace(str(first.__file__), str(second.__file__))
    assert (str(second.__file__) in again) == lines
    made = [builds.make_build("sm_80", ptx, host), builds.make_build("sm_80", again, read)]
    assert made[0].host._entry == made[1].host._entry


def not_again(*_: Any) -> Any:
    raise AssertionError("it was compiled before")


class Compiled(Exception):
    """Raised in the place of compiling."""


def compiles(*_: Any) -> Any:
    raise Compiled


def test_what_differs_in_anything_is_compiled(
    before: CompiledBefore, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_in(tmp_path / "here", text)
    before.compiled(COMPILE, module, "sm_80", False)
    before.compiled(not_again, module, "sm_80", False)

    for target, lines in (("sm_90a", False), ("sm_80", True)):
        with pytest.raises(Compiled):
            before.compiled(compiles, module, target, lines)

    other = module_in(tmp_path / "other", text.replace("+ 1", "+ 2"))
    with pytest.raises(Compiled):
        before.compiled(compiles, other, "sm_80", False)

    monkeypatch.setenv("CUTE_DSL_ENABLE_ASSERTIONS", "1")
    with pytest.raises(Compiled):
        before.compiled(compiles, module, "sm_80", False)
    monkeypatch.undo()


def test_what_is_not_as_its_file_is_compiled_each_time(before: CompiledBefore, text: str, tmp_path: Path) -> None:
    module = module_in(tmp_path / "here", text)
    before.compiled(COMPILE, module, "sm_80", False)

    changed = module_in(tmp_path / "changed", text)
    changed.sums_kernel = changed.launch
    rewritten = module_in(tmp_path / "rewritten", text)
    Path(str(rewritten.__file__)).write_text(text + "\n", encoding="utf-8")
    for one in (changed, rewritten, ModuleType("unknown")):
        with pytest.raises(Compiled):
            before.compiled(compiles, one, "sm_80", False)
    imports = module_in(tmp_path / "imports", "import pytest\n" + text)
    for _ in range(2):
        before.compiled(COMPILE, imports, "sm_80", False)
        with pytest.raises(Compiled):
            before.compiled(compiles, imports, "sm_80", False)
