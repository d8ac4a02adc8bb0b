"""Advice on speed: what it says is true, what it suggests takes it away, and it never stands in the way of a lint."""

from __future__ import annotations

from pathlib import Path

import pytest
from building_kit import project
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from lint_kit import advice
from planning_specs import elementwise, gemm

from cutegen import registry
from cutegen.cli import cli
from cutegen.codegen import generate
from cutegen.language.diagnostics import has_errors
from cutegen.language.reader import read_specs
from cutegen.lint import all_performance_rules, check
from cutegen.lint.advice import advise_on, standing
from cutegen.lint.page import read
from cutegen.lint.trial import try_out
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report
from cutegen.project.selection import select
from cutegen.project.sources import gather
from cutegen.project.starter import starter_text

IDLE = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M}
  B: {shape: [N, K], dtype: f32, major: N}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
static: {K: 16}
schedule:
  tiler: {K: 8}
  pipeline: {stages: 4}
"""


@pytest.mark.parametrize(
    ("code", "help", "old", "new"),
    [
        ("CG270", "write `pad: 4` for A", "pad: 0", "pad: 4"),
        ("CG271", "write `N: 4` in the tiler", "N: 16", "N: 4"),
        (
            "CG272",
            "write `copy: {bits: 128}`",
            "tiler: {M: 32, N: 256}",
            "tiler: {M: 32, N: 256}\n  copy: {bits: 128}",
        ),
        ("CG273", "write `M: 128` in the tiler", "M: 256", "M: 128"),
        ("CG274", "write `stages: 3`", "stages: 6", "stages: 3"),
        ("CG275", "write `stages: 2`", "stages: 3", "stages: 2"),
        ("CG276", "write `N: none`, or leave it out", "N: mask", "N: none"),
        ("CG277", "take M: 64, N: 128 in the tiler", "M: 128, N: 128", "M: 64, N: 64"),
        ("CG278", "take M: 128, N: 128 in the tiler", "M: 32, N: 32", "M: 128, N: 128"),
        ("CG279", "write `pad: 0` for A", "pad: 4", "pad: 0"),
    ],
)
def test_help_of_its_page_takes_it_away(code: str, help: str, old: str, new: str) -> None:
    bad = read(code).bad
    assert bad is not None and old in bad
    (found,) = [d for d in advice(bad) if d.code == code]
    assert found.help == help and found.severity == "warning"
    assert not [d for d in advice(bad.replace(old, new)) if d.code == code]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=elementwise() | gemm())
def test_every_change_that_is_suggested_costs_less(text: str) -> None:
    """Each candidate whose words are given lowers the one number that orders all kernels: advice cannot lead in a
    circle."""
    for spec in read_specs(text, "x.yaml"):
        report = Report(spec.source)
        resolved = resolve(spec, report)
        if not report.failed:
            check(resolved, report)
        if report.failed:
            return
        plan = make_plan(resolved)
        now = standing(resolved, plan)
        given = Report(resolved.source)
        advise_on(resolved, 0, plan, given)
        for said in given.diagnostics:
            assert said.help and said.notes and said.severity == "warning"
            better = []
            for rule, finding in now.found:
                for words, other in finding.others if (rule.code, finding.message) == (said.code, said.message) else ():
                    changed, errors = try_out(other)
                    if not has_errors(errors) and words(changed) == said.help:
                        better.append(standing(changed, make_plan(changed)).excess)
            assert better and min(better) < now.excess


NORM = """
cutegen: 1
kernel: add_layernorm
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  R: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: bf16}
  S: {shape: [M, N], dtype: bf16, role: out}
  Y: {shape: [M, N], dtype: bf16, role: out}
  rstd: {shape: [M], dtype: f32, role: out}
scalars: {eps: f32}
compute:
  - S = X + R
  - d = S - mean(S, N)
  - rstd = rsqrt(mean(d * d, N) + eps)
  - Y = d * rstd * W
"""


@pytest.mark.parametrize("op", [op.name for op in registry.ops() if op.starter])
def test_the_starter_of_an_op_lints_clean(op: str) -> None:
    assert not [d for d in advice(starter_text("fresh", op)) if d.severity != "note"]


def test_what_was_inferred_gives_no_warning() -> None:
    """Advice to write one field would take the place of all cases that were inferred."""
    (spec,) = read_specs(NORM, "x.yaml")
    assert len(resolve(spec, Report(spec.source)).schedule.cases) > 3
    assert not [d for d in advice(NORM) if d.severity != "note"]


def test_a_warning_names_the_case_that_it_is_about() -> None:
    """Of two cases with idle stages of the three, of which the last one is inferred whole."""
    idle = "tiler: {M: 64, N: 64, K: 8}\n    pipeline: {stages: 4}"
    cases = f"schedule:\n  - for: {{M: '<= 64'}}\n    {idle}\n  - for: {{M: '<= 128'}}\n    {idle}\n  - {{}}\n"
    found = [d for d in advice(IDLE.partition("schedule:")[0] + cases) if d.severity == "warning"]
    assert [d.code for d in found] == ["CG275", "CG275"]
    assert [d.notes[-1] for d in found] == ["in case 1 (M <= 64)", "in case 2 (M <= 128)"]


def test_only_lint_gives_advice_on_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    specs = project(tmp_path)
    (specs / "mm.yaml").write_text(IDLE)
    assert not generate(IDLE, "x.yaml").warnings
    assert not gather(select([specs])).diagnostics
    assert [d.code for d in gather(select([specs]), performance=True).diagnostics] == ["CG275"]
    build = CliRunner().invoke(cli, ["build", "specs", "--no-compile", "--no-verify"])
    assert build.exit_code == 0 and "CG275" not in build.output
    lint = CliRunner().invoke(cli, ["lint", "specs"])
    assert lint.exit_code == 0 and "warning[CG275]: 4 stages, and K has 2 tiles to fill them" in lint.stdout


def test_advice_waits_until_errors_are_mended() -> None:
    """A plan is made of kernels that are right only."""
    text = IDLE.replace("pipeline", "copies: {A: {bits: 128}}\n  smem: {A: {pad: 1}}\n  pipeline")
    spec = read_specs(text, "x.yaml")[0]
    report = Report(spec.source)
    check(resolve(spec, report), report, performance=True)
    assert [d.code for d in report.diagnostics] == ["CG251"]


def test_advice_is_always_a_warning() -> None:
    for rule in all_performance_rules():
        assert (rule.kind, rule.severity) == ("performance", "warning")
