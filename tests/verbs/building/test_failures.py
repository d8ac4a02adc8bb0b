"""From a failed compile back to the spec: the generated line, its key, and the key's place. Real compiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from building_kit import project, spec_text, units_of
from click.testing import CliRunner
from compiling_kit import Compiler

from cutegen.cli import cli
from cutegen.codegen import generate
from cutegen.compiling import Compiled, Failed, Job, Outcome, compile_all
from cutegen.families.probe import rules as probe_rules
from cutegen.language.diagnostics import Diagnostic, render_text
from cutegen.project.sources import Unit
from cutegen.verbs.building.failures import compile_failures

pytest.importorskip("cutlass", reason="compiling needs nvidia-cutlass-dsl")

ROOT = Path(__file__).parents[3]
GEMM = """\
cutegen: 1
kernel: tiny
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M, align: 16}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: M, align: 16, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 128, N: 128, K: 8}
targets: [sm_80, sm_90a]
"""
COPY = (ROOT / "specs/copy_tv.yaml").read_text(encoding="utf-8").replace("expect:\n", "").partition("  sass:")[0]
ADD = spec_text("add")
# What is done to a module, by name: a spec, text of its module, and what stands there instead, on as many lines
MUTATIONS: dict[str, tuple[str, str, str]] = {
    # The compiler divides by zero: two threads share an element
    "crash": (COPY, "cute.make_layout((32, 8), stride=(8, 1))", "cute.make_layout((32, 8), stride=(1, 1))"),
    "hang": (COPY, "    tile = ((None, None), (", "    tile = ((None, None), (__import__('time').sleep(99), "),
    # Both of these the compiler finds after the module's lines have run
    "misaligned": (COPY, "assumed_align=align", "assumed_align=2"),
    "padded": (GEMM, "(BLK_N, BLK_K, STAGES))", "(BLK_N, BLK_K, STAGES), stride=(1, BLK_N + 1, 2048))"),
    "in ptxas": (f"{ADD}divisible: {{N: 4}}\n", "block=[THREADS, 1, 1]", "block=[0, 1, 1]"),
    "nothing written": (ADD, "num_bits_per_copy=width * 32", "num_bits_per_copy=48"),
    "inferred": (GEMM, "cpasync.CopyG2SOp()", "cpasync.NoSuchOp()"),
    "unknown target": (ADD, 'cute.GPUArch(arch)', 'cute.GPUArch("sm_91")'),
}  # fmt: skip


def unit_of(folder: Path, text: str) -> Unit:
    folder.mkdir()
    specs = project(folder)
    (specs / "it.yaml").write_text(text)
    (unit,) = units_of(specs)
    return unit


class Found(dict[str, tuple[Unit, Failed, Diagnostic]]):
    """The diagnostics of each mutated module, which is compiled for its first target when a test needs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __missing__(self, name: str) -> tuple[Unit, Failed, Diagnostic]:
        text, old, new = MUTATIONS[name]
        unit = unit_of(self._folder / name.replace(" ", "_"), text)
        assert old in unit.module.text
        unit = replace(unit, module=replace(unit.module, text=unit.module.text.replace(old, new, 1)))
        job = Job(unit.module.text, unit.kernel, "sm_80")
        (outcome,) = compile_all([job], timeout=5) if name == "hang" else compile_all([job])
        assert isinstance(outcome, Failed)
        (diagnostic,) = compile_failures(unit, {"sm_80": outcome})
        assert diagnostic.code == "CG402" and f"{unit.kernel} does not compile for sm_80: " in diagnostic.message
        assert "\n" not in diagnostic.message
        self[name] = unit, outcome, diagnostic
        return self[name]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return Found(tmp_path_factory.mktemp("projects"))


def under_the_caret(unit: Unit, diagnostic: Diagnostic) -> str:
    line = unit.source.file.read_text(encoding="utf-8").split("\n")[diagnostic.span.line - 1]
    return line[diagnostic.span.column - 1 :][: diagnostic.span.length]


@pytest.mark.parametrize(
    ("name", "kind", "words", "line", "key", "caret"),
    [
        ("crash", "crash", "SIGFPE", "_, tv_layout = cute.make_layout_tv(", "schedule.partition", "thread_value"),
        ("hang", "timeout", "within 5 s", "tile = ((None, None), (__import__", "schedule.partition", "thread_value"),
        ("misaligned", "exception", "ptr alignment (16 bits)", "cute.copy(copy_S, ", "schedule.copy", "copy"),
        ("padded", "exception", "dst ptr alignment", "cute.copy(tiled_copy, source", "schedule.copies", "schedule"),
        (
            "inferred",
            "exception",
            "NoSuchOp",
            "atom_A = cute.make_copy_atom(",
            "schedule.copies.A",
            "schedule",
        ),
        ("in ptxas", "exception", "non-zero value expected for reqntid", "@cute.kernel", "kernel", "add"),
        ("nothing written", "exception", "but got 48", "copy_A = cute.make_copy_atom(", "schedule.copy", "add"),
        ("unknown target", "exception", "sm_91", 'compiler = cute.compile[(cute.GPUArch("sm_91")', "targets", "sm_80"),
    ],
)
def test_a_failure_is_said_at_the_key_of_its_line(
    found: Found, name: str, kind: str, words: str, line: str, key: str, caret: str
) -> None:
    unit, failed, diagnostic = found[name]
    assert (failed.kind, words in failed.message) == (kind, True), failed.message
    assert failed.line is not None and failed.text.strip().startswith(line)
    assert unit.module.text.split("\n")[failed.line - 1] == failed.text
    assert all(unit.module.text.split("\n")[number - 1] == text for number, text in failed.trace)
    assert failed.trace[-1] == (failed.line, failed.text)
    first, second, *_ = diagnostic.notes
    assert first.endswith(f"{unit.kernel}.py:{failed.line}: {failed.text.strip()}")
    assert second.startswith(f"the line is from `{key}`: ")
    assert under_the_caret(unit, diagnostic) == caret


def test_what_was_inferred_is_said_with_its_reasons(found: Found) -> None:
    unit, _, diagnostic = found["inferred"]
    notes = diagnostic.notes
    assert "`schedule.copies.A` was left out, and inferred" in notes
    assert "atom: asynchronous" in notes and any(note.startswith("bits: ") for note in notes)
    assert not any("of B" in note or "copies.C" in note for note in notes)
    assert diagnostic.help is not None and f"--kernel {unit.kernel}` writes out what was inferred" in diagnostic.help
    written = found["misaligned"][2]
    assert not any("left out" in note for note in written.notes)
    assert written.help is not None and "--no-compile" in written.help


def test_a_crash_says_nothing_of_the_workers_own_stack(found: Found) -> None:
    _, failed, diagnostic = found["crash"]
    assert failed.log == "Fatal Python error: Floating point exception"
    assert not any("Extension modules" in note or "site-packages" in note for note in diagnostic.notes)
    assert [note.split(": ")[1] for note in diagnostic.notes if note.startswith("called from")] == [
        "return compiler(launch, *arguments, stream)"
    ]


def test_the_command_line_points_at_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe whose layout runs across the rows of a tensor with a dynamic row stride, as if no rule had seen it."""
    specs = project(tmp_path)
    (specs / "p.yaml").write_text(
        "cutegen: 1\nkernel: p\nop: probe\n"
        "tensors:\n  A: {shape: [M, N], dtype: f16, major: N}\n  D: {shape: [T, V], dtype: f16, role: out}\n"
        'compute: D = A\nschedule: {tv_layout: "(32,6):(6,1)", tiler: {M: 32, N: 6}}\ntargets: [sm_80, sm_90a]\n'
    )
    monkeypatch.setattr(probe_rules, "RULES", tuple(rule for rule in probe_rules.RULES if rule.code != "CG257"))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["build", "specs", "--no-cache", "--no-verify"])
    said = done.stderr
    assert done.exit_code == 1 and "nothing was written" in said and not (tmp_path / "generated").exists()
    assert "specs/p.yaml:8:23: error[CG402]: p does not compile for sm_80, sm_90a: MLIRError: " in said
    assert said.count("CG402]") == 1, "both targets fail in the same way"
    quoted, caret = said[said.index("8 | schedule:") :].split("\n")[:2]
    assert quoted[caret.index("^") :].startswith('"(32,6):(6,1)"') and caret.count("^") == len('"(32,6):(6,1)"')
    assert "generated/p.py:" in said and "= the line is from `schedule.tv_layout`: thread-value layout" in said


def test_targets_that_fail_differently_are_said_apart(tmp_path: Path) -> None:
    unit = unit_of(tmp_path / "p", GEMM)
    other = Failed("crash", "died", 5)
    one = Failed("exception", "no", 5)
    outcomes: dict[str, Outcome] = {"sm_80": one, "sm_90a": other}
    messages = [d.message for d in compile_failures(unit, outcomes)]
    assert messages == ["tiny does not compile for sm_80: no", "tiny does not compile for sm_90a: died"]
    (both,) = compile_failures(unit, {"sm_80": one, "sm_90a": one})
    assert both.message == "tiny does not compile for sm_80, sm_90a: no"


def test_without_a_line_the_target_is_named(tmp_path: Path) -> None:
    unit = unit_of(tmp_path / "p", GEMM)
    (found,) = compile_failures(unit, {"sm_90a": Failed("crash", "died")})
    assert under_the_caret(unit, found) == "sm_90a" and found.notes == ()
    unit = unit_of(tmp_path / "q", GEMM.replace("targets: [sm_80, sm_90a]\n", ""))
    (found,) = compile_failures(unit, {"sm_90a": Failed("crash", "died")})
    assert under_the_caret(unit, found) == "tiny"
    assert render_text(found, GEMM).split("\n")[1] == "2 | kernel: tiny"


def test_numbers_and_scalars_alone_compile(compiler: Compiler) -> None:
    """Parts of an expression without a tensor in them are numbers of Python's, or of the DSL's, or were spread out."""
    expressions = (
        "A - (1 - 3) * B + alpha",
        "where(alpha > minimum(alpha, 2), A, B)",
        "A + cast(2 - 3 > 0, f32) * exp(1 - 2) * B * alpha",
        "where(1 < 2, A, B) + relu(maximum(alpha, 1)) + relu(alpha)",
    )
    specs = [ADD.replace("compute: C = A + B", f"scalars: {{alpha: f32}}\ncompute: C = {e}") for e in expressions]
    texts = [generate(spec, "specs/add.yaml").modules[0].text for spec in specs]
    for expression, outcome in zip(expressions, compiler([Job(t, "add", "sm_80") for t in texts]), strict=True):
        assert isinstance(outcome, Compiled), f"{expression}: {outcome}"


def test_a_second_try_compiles_nothing_else_anew() -> None:
    """The worker that was asked for lines gives the next job the same code as one that was not."""
    text, old, new = MUTATIONS["misaligned"]
    good = generate(text, "specs/copy_tv.yaml").modules[0].text
    jobs = [Job(good.replace(old, new, 1), "copy_tv", "sm_80"), Job(good, "copy_tv", "sm_80")]
    failed, after = compile_all(jobs, workers=1)
    (alone,) = compile_all(jobs[1:], workers=1)
    assert isinstance(failed, Failed) and isinstance(after, Compiled) and isinstance(alone, Compiled)
    assert after.artefact == alone.artefact and ".loc" not in after.artefact.ptx
