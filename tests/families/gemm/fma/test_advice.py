"""Advice on the speed of multistage gemms: what it says is true, and what it suggests takes it away."""

from __future__ import annotations

import math
import re

import pytest
from lint_kit import advice

from cutegen.language.diagnostics import has_errors
from cutegen.language.reader import read_specs
from cutegen.lint.advice import WORTH, standing
from cutegen.lint.trial import try_out
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report

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


MAJORS = ("MNM", "MNN", "MKM", "MKN", "KNM", "KNN", "KKM", "KKN")
TYPES = (("f32", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f32", "f16"), ("f64", "f64"), ("f64", "f32"))


@pytest.mark.parametrize(  # every fifth one is of each type and of each order
    ("majors", "operands", "output"), [(majors, *types) for majors in MAJORS for types in TYPES]
)
def test_what_is_inferred_needs_no_advice(majors: str, operands: str, output: str) -> None:
    text = GEMM
    for tensor, major in zip("ABC", majors, strict=True):
        dtype = output if tensor == "C" else operands
        text = re.sub(rf"({tensor}: .*) dtype: f32, major: .,", rf"\1 dtype: {dtype}, major: {major},", text)
    assert not advice(text), text


def test_a_warp_is_named_with_its_threads_and_words() -> None:
    text = GEMM.replace("major: M", "major: K") + "schedule: {smem: {A: {pad: 0}}}\n"
    (found,) = advice(text)
    # Threads 0 to 7 stand along k, so that they want the first elements of eight rows of 128 words.
    assert found.notes[0] == "warp 0: threads 0, 1, 2, 3, ... want words 0, 128, 256, 384, ..., all of bank 0"
    assert "8-way" in found.message and "8 passes" in found.notes[1]


def test_narrow_accesses_are_not_told_where_a_thread_has_no_more() -> None:
    """256 threads deal 64 x 8 elements out two by two: no width of 16 bytes is possible, and nothing is suggested."""
    assert not advice(GEMM + "schedule: {tiler: {M: 64, N: 256, K: 8}}\n")


def test_padding_that_would_split_reads_is_not_suggested() -> None:
    """2-byte operands along k are written with 2-way conflicts; the padding without them has 4-byte reads for 16."""
    text = GEMM.replace("dtype: f32, major: N, align: 16}\n  C", "dtype: f16, major: K, align: 16}\n  C")
    assert not advice(text.replace("A: {shape: [M, K], dtype: f32", "A: {shape: [M, K], dtype: f16"))


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
