"""Advice on speed: what it says is true, what it suggests takes it away, and it never stands in the way of a lint."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import HealthCheck, given, settings

from cutegen.codegen import generate
from cutegen.language import Diagnostic, read_specs
from cutegen.language.diagnostics import has_errors
from cutegen.lint import PERFORMANCE_RULES, check
from cutegen.lint.advice import WORTH, advise_on, standing
from cutegen.lint.page import read
from cutegen.lint.trial import try_out
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report
from tests.planning_specs import elementwise, gemm

ADVICE = {rule.code for rule in PERFORMANCE_RULES}
COPY = """\
cutegen: 1
kernel: twice
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32, align: 16}
  D: {shape: [M, N], dtype: f32, align: 16, role: out}
compute: D = 2 * S
"""
GEMM = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M, align: 16}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: N, align: 16, role: out}
compute: C = A @ B.T
"""


def advice(text: str) -> list[Diagnostic]:
    return [d for d in generate(text, "x.yaml", performance=True).warnings if d.code in ADVICE]


@pytest.mark.parametrize("majors", ["MNM", "MNN", "MKM", "MKN", "KNM", "KNN", "KKM", "KKN"])
def test_what_is_inferred_needs_no_advice(majors: str) -> None:
    for operands, output in (
        ("f32", "f32"),
        ("f16", "f16"),
        ("bf16", "f32"),
        ("f32", "f16"),
        ("f64", "f64"),
        ("f64", "f32"),
    ):
        text = GEMM
        for tensor, major in zip("ABC", majors, strict=True):
            dtype = output if tensor == "C" else operands
            text = re.sub(rf"({tensor}: .*) dtype: f32, major: .,", rf"\1 dtype: {dtype}, major: {major},", text)
        assert not advice(text), text


def test_an_inferred_copy_needs_no_advice() -> None:
    assert not advice(COPY)


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
        ("CG277", "take M: 64, N: 64 in the tiler", "static:", "schedule: {tiler: {M: 64, N: 64}}\nstatic:"),
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


@pytest.mark.parametrize(
    ("tiler", "bits", "place", "help"),
    [
        # Threads have 1 or 6 elements of a row, which is no whole number of accesses of 4.
        ("{M: 32, N: 32}", "", "thread_layout: ", "write `N: 128` in the tiler and `copy: {bits: 128}`"),
        ("{M: 32, N: 192}", "", "thread_layout: ", "write `N: 256` in the tiler and `copy: {bits: 128}`"),
        ("{M: 32, N: 256}", "  copy: {bits: 64}\n", "bits: ", "write `bits: 128`"),
    ],
)
def test_threads_of_an_inner_outer_partition_may_deal_out_wider_accesses(
    tiler: str, bits: str, place: str, help: str
) -> None:
    text = f"{COPY}schedule:\n  partition: inner_outer\n  tiler: {tiler}\n  thread_layout: (8,32):(32,1)\n{bits}"
    (found,) = advice(text)
    assert (found.code, found.help) == ("CG272", help)
    assert found.span is not None and text.split("\n")[found.span.line - 1].strip().startswith(("copy:", place))


def test_a_warp_is_named_with_its_threads_and_words() -> None:
    text = GEMM.replace("major: M", "major: K") + "schedule: {smem: {A: {pad: 0}}}\n"
    (found,) = advice(text)
    # Threads 0 to 7 stand along k, so that they want the first elements of eight rows of 128 words.
    assert found.notes[0] == "warp 0: threads 0, 1, 2, 3, ... want words 0, 128, 256, 384, ..., all of bank 0"
    assert "8-way" in found.message and "8 passes" in found.notes[1]


def test_tensors_of_one_kind_are_told_together() -> None:
    (found,) = advice(COPY + "schedule: {partition: inner, tiler: {M: 1, N: 8}}\n")
    assert found.message == "S and D are accessed in 32 sectors a request, and 16 would do"


def test_threads_that_walk_across_the_contiguous_mode_are_told_of_the_raster() -> None:
    schedule = "schedule: {partition: inner, tiler: {M: 1, N: 4}, scheduler: {raster: M}}\n"
    (found,) = advice(COPY + schedule)
    assert found.code == "CG271" and found.help == "write `raster: N`"
    assert not advice(COPY + schedule.replace("raster: M", "raster: N"))


def test_a_transpose_is_walked_in_tiles_that_suit_both() -> None:
    """S is contiguous along M and D along N: rows of a warp suit D alone, and what is inferred suits both."""
    transposed = COPY.replace("dtype: f32, align: 16}\n  D", "dtype: f32, major: M, align: 16}\n  D")
    assert not advice(transposed)
    (found,) = advice(transposed + "schedule: {thread_layout: '(8,32):(32,1)'}\n")
    assert found.code == "CG271" and found.help == (
        "write `thread_layout: (16,16):(16,1)` and `value_layout: (4,4):(4,1)`"
    )
    assert not advice(transposed + "schedule:\n  thread_layout: (16,16):(16,1)\n  value_layout: (4,4):(4,1)\n")


def test_the_walk_of_threads_beyond_the_last_tile_needs_its_predicate() -> None:
    schedule = "schedule: {partition: inner, tiler: {M: 1, N: 4}, predication: {M: mask}}\n"
    assert not advice(COPY + schedule)


def test_a_width_that_bits_asks_for_is_told_at_bits() -> None:
    text = COPY + "schedule:\n  value_layout: (4,4):(4,1)\n  copy: {bits: 64}\n"
    (found,) = [d for d in advice(text) if d.code == "CG272"]
    line = text.splitlines()[found.span.line - 1]
    assert (
        found.code == "CG272" and line[found.span.column - 1 :].startswith("64") and found.help == "write `bits: 128`"
    )


def test_narrow_accesses_are_not_told_where_a_thread_has_no_more() -> None:
    """256 threads deal 64 x 8 elements out two by two: no width of 16 bytes is possible, and nothing is suggested."""
    assert not advice(GEMM + "schedule: {tiler: {M: 64, N: 256, K: 8}}\n")


def test_padding_that_would_split_reads_is_not_suggested() -> None:
    """2-byte operands along k are written with 2-way conflicts; the padding without them has 4-byte reads for 16."""
    text = GEMM.replace("dtype: f32, major: N, align: 16}\n  C", "dtype: f16, major: K, align: 16}\n  C")
    assert not advice(text.replace("A: {shape: [M, K], dtype: f32", "A: {shape: [M, K], dtype: f16"))


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
        advise_on(resolved, plan, given)
        for said in given.diagnostics:
            assert said.help and said.notes and said.severity == "warning"
            better = []
            for rule, finding in now.found:
                for words, other in finding.others if (rule.code, finding.message) == (said.code, said.message) else ():
                    changed, errors = try_out(other)
                    if not has_errors(errors) and words(changed) == said.help:
                        better.append(standing(changed, make_plan(changed)).excess)
            assert better and min(better) < now.excess


@pytest.mark.parametrize("static", ["{M: 512, N: 512}", "{M: 2, N: 2}", "{M: 96, N: 4000}"])
@pytest.mark.parametrize("dtypes", [("f32", "f32", "f16"), ("f16", "f16", "f16"), ("f64", "f64", "f32")])
def test_following_the_advice_ends(static: str, dtypes: tuple[str, str, str]) -> None:
    """On kernels for which single rules, each by itself, would lead in circles."""
    text = GEMM
    for dtype in dtypes:
        text = text.replace("dtype: f32,", f"dtype: {dtype} ,", 1)
    (spec,) = read_specs(f"{text}static: {static}\n", "x.yaml")
    for _ in range(20):
        resolved = resolve(spec, Report(spec.source))
        now = standing(resolved, make_plan(resolved))
        cheapest = min(
            (
                (standing(done, make_plan(done)).excess, other)
                for _, finding in now.found
                for _, other in finding.others
                for done, errors in [try_out(other)]
                if not has_errors(errors)
            ),
            key=lambda found: found[0],
            default=(math.inf, spec),
        )
        if cheapest[0] >= now.excess - WORTH:
            return
        spec = cheapest[1]
    raise AssertionError("20 changes, and no end")
