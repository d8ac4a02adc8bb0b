"""Real compiles: artefacts, expectations, failures of every kind, isolation. One set of workers serves most of them."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from cutegen.compiling import Compiled, Failed, Job, Outcome, ToolError, compile_all, mnemonics, with_sass
from cutegen.compiling.artefact import local_traffic, own_shared
from cutegen.language.counts import Count
from cutegen.language.model import Expect
from cutegen.sass.expectations import check
from cutegen.workers import forked

pytest.importorskip("cutlass", reason="compiling needs nvidia-cutlass-dsl")

FIXTURES = Path(__file__).parents[1] / "fixtures" / "compiling"
ROOT = Path(__file__).parents[2]


def fixture_text(name: str) -> str:
    return (FIXTURES / f"{name}.py").read_text(encoding="utf-8")


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


SCALE = fixture_text("scale")
BAD_RANK = SCALE.replace("cute.zipped_divide(mS, (4,))", "cute.zipped_divide(mS, (4, 3, 2))")
BAD_NAME = SCALE.replace("frag.load() * 2.0", "frag.load() * undefined")
IGNORES_ARCH = SCALE.replace("cute.GPUArch(arch)", 'cute.GPUArch("sm_80")')
IGNORES_OPTIONS = SCALE.replace(", *options)", ")")
# A kernel whose thread layout maps two threads to one element: the compiler divides by zero.
NOT_INJECTIVE = SCALE.replace(
    "    blocks =",
    "    cute.make_layout_tv(cute.make_layout((4, 4), stride=(1, 1)), cute.make_layout((1, 4), stride=(4, 1)))\n"
    "    blocks =",
)
CRASHES = "import os, signal\n\n\ndef compile_for(arch, options):\n    os.kill(os.getpid(), signal.{})\n"
EXITS = "import os\n\n\ndef compile_for(arch, options):\n    os._exit(3)\n"
SYSTEM_EXIT = "import sys\n\n\ndef compile_for(arch, options):\n    sys.exit('enough')\n"
READS_STDIN = "def compile_for(arch, options):\n    raise RuntimeError(repr(input()))\n"
SYNTAX = "x = 1\ndef compile_for(:\n"
# The kernel that spills; what ptxas says of it goes to a file.
ASKS_PTXAS = f"""{fixture_text("spill")}

_compile_for = compile_for


def compile_for(arch, options):
    from cutlass.base_dsl.compiler import RemarkFilter, RemarkOutput

    _compile_for(arch, (RemarkFilter("ptxas"), RemarkOutput("FILE")))
    return _compile_for(arch, options)
"""

JOBS = {
    "scale sm_80": Job(SCALE, "scale", "sm_80", sass=True),
    "spill sm_80": Job(fixture_text("spill"), "spill", "sm_80"),
    "spill sm_90a": Job(fixture_text("spill"), "spill", "sm_90a"),
    "local": Job(fixture_text("local_array"), "local_array", "sm_90a"),
    "bad rank": Job(BAD_RANK, "scale", "sm_80"),
    "bad name": Job(BAD_NAME, "scale", "sm_80"),
    "syntax": Job(SYNTAX, "scale", "sm_80"),
    "no compile": Job("TARGETS = ()\n", "scale", "sm_80"),
    "ignores arch": Job(IGNORES_ARCH, "scale", "sm_90a"),
    "ignores options": Job(IGNORES_OPTIONS, "scale", "sm_90a"),
    "unknown target": Job(SCALE, "scale", "sm_91"),
    "sys.exit": Job(SYSTEM_EXIT, "leaver", "sm_80"),
    "reads stdin": Job(READS_STDIN, "reader", "sm_80"),
    "SIGFPE": Job(CRASHES.format("SIGFPE"), "boom", "sm_80"),
    "not injective": Job(NOT_INJECTIVE, "scale", "sm_90a"),
    "os._exit": Job(EXITS, "leaver", "sm_80"),
    "scale sm_90a": Job(SCALE, "scale", "sm_90a", sass=True),
    "scale again": Job(SCALE, "scale", "sm_80", sass=True),
    "scale, no SASS": Job(SCALE, "scale", "sm_80"),
}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compile of `outcomes` had its working directory and its temporary files."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def outcomes(scratch: Path) -> dict[str, Outcome]:
    """Every job above, compiled under variables that would change the code if they reached the compiler."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "CUTE_DSL_ARCH": "sm_120a",
            "CUTE_DSL_LINEINFO": "1",
            "CUTE_DSL_KEEP": "all",
            "CUTE_DSL_DUMP_DIR": str(scratch / "dumps"),
            "CUTE_DSL_DRYRUN": "1",
            "PYTHONWARNINGS": "error",
        }.items():
            patch.setenv(name, value)
        (scratch / "tmp").mkdir()
        (scratch / "cwd").mkdir()
        patch.setattr(tempfile, "tempdir", str(scratch / "tmp"))
        patch.chdir(scratch / "cwd")
        done: list[Job] = []
        found = compile_all(list(JOBS.values()), workers=2, on_done=lambda job, outcome: done.append(job))
    assert sorted(done, key=hash) == sorted(JOBS.values(), key=hash)
    return dict(zip(JOBS, found, strict=True))


def compiled(outcomes: dict[str, Outcome], name: str) -> Compiled:
    outcome = outcomes[name]
    assert isinstance(outcome, Compiled), outcome
    return outcome


def failed(outcomes: dict[str, Outcome], name: str) -> Failed:
    outcome = outcomes[name]
    assert isinstance(outcome, Failed), outcome
    return outcome


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_each_target_gets_its_own_code(outcomes: dict[str, Outcome], target: str) -> None:
    artefact = compiled(outcomes, f"scale {target}").artefact
    assert (artefact.kernel, artefact.target, artefact.missing) == ("scale", target, ())
    assert re.search(rf"^\.target {target}\b", artefact.ptx, re.MULTILINE)
    assert artefact.cubin.startswith(b"\x7fELF")
    assert artefact.sass is not None
    counts = mnemonics(artefact.sass)
    assert (counts["LDG.E.128"], counts["STG.E.128"]) == (1, 1)
    assert sum(counts.values()) == len(re.findall(r"^\s*/\*[0-9a-f]{4}\*/", artefact.sass, re.MULTILINE)) > 10
    assert (artefact.resources.spill_stores, artefact.resources.spill_loads) == (0, 0)
    assert (artefact.resources.stack, artefact.resources.static_smem) == (0, 0)
    assert artefact.resources.registers is not None and 4 <= artefact.resources.registers <= 64


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_spills_agree_with_ptxas(outcomes: dict[str, Outcome], target: str, tmp_path: Path) -> None:
    """Counts in the SASS agree with the report of ptxas on the same kernel."""
    resources = compiled(outcomes, f"spill {target}").artefact.resources
    assert resources.registers == 64
    assert resources.stack is not None and resources.stack > 0
    remarks = tmp_path / "remarks"
    (asked,) = compile_all([Job(ASKS_PTXAS.replace("FILE", str(remarks)), "spill", target)])
    assert isinstance(asked, Compiled), asked
    match = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", remarks.read_text())
    assert match is not None
    said = int(match[1]), int(match[2])
    assert (resources.spill_stores, resources.spill_loads) == said
    assert said[0] > 0


def test_sass_is_asked_for_where_somebody_wants_it_or_spills_depend_on_it(outcomes: dict[str, Outcome]) -> None:
    whole = compiled(outcomes, "scale sm_80").artefact
    part = compiled(outcomes, "scale, no SASS").artefact
    assert whole.disassembled and whole.resources.spill_stores == whole.resources.spill_loads == 0
    assert part == replace(whole, sass=None, disassembled=False)
    assert with_sass(part) == whole == with_sass(whole)
    assert all(compiled(outcomes, name).artefact.disassembled for name in ("spill sm_80", "local"))


def test_expectations_ask_for_the_sass_that_they_read(
    outcomes: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = compiled(outcomes, "scale, no SASS").artefact
    wanted = Expect(sass={"LDG.E.128": Count("==", 1), "FFMA": Count("==", 7)}, bank_clashes=Count("==", 0))
    assert [failure.path for failure in check(wanted, part)] == [("expect", "sass", "FFMA")]

    def broken(name: str) -> NoReturn:
        raise ToolError(f"{name} is broken")

    monkeypatch.setattr("cutegen.compiling.artefact.find_tool", broken)
    failures = check(wanted, part)
    assert [failure.path[1] for failure in failures] == ["bank_clashes", "sass", "sass"]
    assert all("SASS is unknown: nvdisasm is broken" in failure.found for failure in failures)
    assert check(Expect(Count("==", 0), Count("<=", 64)), part) == []


def test_a_local_array_is_no_spill(outcomes: dict[str, Outcome]) -> None:
    artefact = compiled(outcomes, "local").artefact
    assert artefact.sass is not None
    stored, loaded = local_traffic(mnemonics(artefact.sass))
    assert stored > 0 and loaded > 0
    assert (artefact.resources.spill_stores, artefact.resources.spill_loads) == (0, 0)
    assert artefact.resources.stack is not None and artefact.resources.stack >= 16 * 4


def test_expectations_on_real_code(outcomes: dict[str, Outcome]) -> None:
    artefact = compiled(outcomes, "scale sm_80").artefact
    holds = Expect(Count("==", 0), Count("<=", 64), sass={"LDG.E.128": Count("==", 1), "STG*": Count(">", 0)})
    assert check(holds, artefact) == []
    broken = Expect(Count("==", 0), Count("<", 1), sass={"LDG.E.64": Count("==", 4)})
    assert [failure.path for failure in check(broken, artefact)] == [
        ("expect", "registers"),
        ("expect", "sass", "LDG.E.64"),
    ]
    spills = check(Expect(spills=Count("==", 0)), compiled(outcomes, "spill sm_80").artefact)
    assert [failure.path for failure in spills] == [("expect", "spills")]
    assert "bytes a thread" in spills[0].found


def test_exceptions_name_the_generated_line(outcomes: dict[str, Outcome]) -> None:
    rank = failed(outcomes, "bad rank")
    assert (rank.kind, rank.error) == ("exception", "ValueError")
    assert rank.line == line_of(BAD_RANK, "(4, 3, 2)")
    assert "(4, 3, 2)" in rank.text and "rank" in rank.message
    assert all(BAD_RANK.splitlines()[line - 1] == text for line, text in rank.trace)
    assert len(rank.trace) == 3  # compile, launch, kernel: no frame of anybody else

    name = failed(outcomes, "bad name")  # the compiler hides these frames
    assert name.line == line_of(BAD_NAME, "undefined")
    assert "undefined" in name.message and "\x1b" not in name.message

    syntax = failed(outcomes, "syntax")
    assert (syntax.error, syntax.line, syntax.text) == ("SyntaxError", 2, "def compile_for(:")
    assert all("/" not in failed(outcomes, n).message.split("\n")[0] for n in ("bad rank", "bad name", "syntax"))


def test_modules_that_break_the_contract_are_refused(outcomes: dict[str, Outcome]) -> None:
    assert "no function `compile" in failed(outcomes, "no compile").message
    assert "asked for sm_90a, the PTX is for sm_80" in failed(outcomes, "ignores arch").message
    assert "does not pass `options` on" in failed(outcomes, "ignores options").message


def test_an_unknown_target_is_explained(outcomes: dict[str, Outcome]) -> None:
    message = failed(outcomes, "unknown target").message
    assert "does not know the target sm_91" in message and "sm_90a" in message


def test_leaving_early_ends_only_the_job(outcomes: dict[str, Outcome]) -> None:
    assert failed(outcomes, "sys.exit").message == "SystemExit: enough"
    assert failed(outcomes, "reads stdin").error == "EOFError"  # and the jobs behind it were not eaten
    left = failed(outcomes, "os._exit")
    assert (left.kind, left.error) == ("crash", "") and "status 3" in left.message


def test_crashes_are_outcomes(outcomes: dict[str, Outcome]) -> None:
    boom = failed(outcomes, "SIGFPE")
    assert (boom.kind, boom.error, boom.line) == ("crash", "SIGFPE", 5)
    assert "SIGFPE" in boom.message
    real = failed(outcomes, "not injective")
    assert (real.kind, real.error) == ("crash", "SIGFPE")
    assert real.line == line_of(NOT_INJECTIVE, "make_layout_tv")
    assert "two threads share an element" in real.message


def test_artefacts_depend_on_nothing_around_them(outcomes: dict[str, Outcome]) -> None:
    """The same job after failures and crashes, under another module name and folder, and by a clean process."""
    first, again = compiled(outcomes, "scale sm_80").artefact, compiled(outcomes, "scale again").artefact
    assert first == again
    assert "_cutegen_" not in first.ptx and "job-" not in first.ptx and ".loc" not in first.ptx
    (clean,) = compile_all([JOBS["scale sm_80"]])
    assert isinstance(clean, Compiled)
    assert hashlib.sha256(clean.artefact.cubin).digest() == hashlib.sha256(first.cubin).digest()
    assert clean.artefact == first


def test_nothing_is_left_behind(outcomes: dict[str, Outcome], scratch: Path) -> None:
    assert len(outcomes) == len(JOBS)
    for key, server in [*forked._servers.items()]:
        if Path(server._folder).is_relative_to(scratch):  # others go on
            forked._servers.pop(key).kill()
    assert sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*")) == ["cwd", "tmp"]


def test_a_job_that_hangs_is_killed_and_the_rest_goes_on(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    hang = (
        "import os, pathlib, time\n\n\n"
        "def compile_for(arch, options):\n"
        f"    pathlib.Path({str(started)!r}).write_text(str(os.getpid()))\n"
        "    time.sleep(600)\n"
    )
    slow, good = compile_all([Job(hang, "hang", "sm_80"), JOBS["scale sm_80"]], workers=1, timeout=4)
    assert isinstance(slow, Failed) and isinstance(good, Compiled)
    assert (slow.kind, slow.line, slow.text.strip()) == ("timeout", 6, "time.sleep(600)")
    assert "4 s" in slow.message
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_a_missing_tool_is_said_and_never_passes(outcomes: dict[str, Outcome]) -> None:
    artefact = compiled(outcomes, "scale sm_80").artefact
    script = (
        "import sys\n"
        "from cutegen.compiling import tools\n"
        "tools.TOOL_PACKAGES = {name: 'no-such-package-' + name for name in tools.TOOL_PACKAGES}\n"
        "from cutegen.compiling.artefact import extract\n"
        "artefact = extract('scale', 'sm_80', '', sys.stdin.buffer.read(), sass=False)\n"
        "print(artefact.sass, artefact.resources, *artefact.missing, sep='\\n')\n"
        "print(tools.tool_version('nvdisasm'))\n"
    )
    environment = {"PATH": "/nonexistent", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], input=artefact.cubin, env=environment, capture_output=True)
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "None" and "registers=None" in lines[1] and "spill_stores=None" in lines[1], done.stderr
    assert "pip install no-such-package-nvdisasm" in lines[2] and "cuobjdump" in lines[3]
    assert lines[4] == "missing"

    nothing = replace(artefact.resources, registers=None, spill_stores=None, spill_loads=None)
    blind = replace(artefact, sass=None, resources=nothing, missing=("nvdisasm was not found",))
    expect = Expect(Count("==", 0), Count("<=", 255), sass={"FFMA": Count(">=", 0)})
    failures = check(expect, blind)
    assert [failure.path[1] for failure in failures] == ["spills", "registers", "sass"]
    assert all("nvdisasm was not found" in str(failure) for failure in failures)


@pytest.mark.parametrize(
    ("target", "counted", "own"), [("sm_80", 512, 512), ("sm_90a", 1536, 512), ("sm_90a", 1024, 0), ("sm_120a", 0, 0)]
)
def test_what_the_system_keeps_is_no_shared_memory_of_the_kernel(target: str, counted: int, own: int) -> None:
    """As ptxas 13.0 counts a kernel with 512 bytes of its own for these targets."""
    assert own_shared(target, counted) == own
