"""CG221: every tile that is suggested works, and what it keeps is kept."""

from __future__ import annotations

import itertools
import re

import pytest

from cutegen.codegen import generate
from cutegen.language.diagnostics import SpecError, has_errors
from cutegen.language.reader import read_specs
from cutegen.lint import check
from cutegen.planning import resolve
from cutegen.planning.report import Report

GEMM = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {{shape: [M, K], dtype: {dtype}, major: {a}}}
  B: {{shape: [N, K], dtype: {dtype}, major: {b}}}
  C: {{shape: [M, N], dtype: f32, role: out}}
compute: C = A @ B.T
schedule:
  tiler: {{M: {m}, N: {n}, K: {k}}}
  mma: {{thread_layout: "({x},{y},1)"}}
"""
TILES = ((80, 128, 8), (128, 72, 8), (64, 16, 8), (72, 72, 7), (16, 96, 9), (160, 128, 3), (128, 64, 16), (48, 80, 12))


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
@pytest.mark.parametrize("threads", [(16, 16), (8, 8), (32, 8), (12, 8), (5, 7)])
def test_every_tile_that_is_suggested_works(threads: tuple[int, int], dtype: str) -> None:
    said = 0
    for (m, n, k), (a, b) in itertools.product(TILES, ("MN", "KK")):  # A is copied for itself, and B
        text = GEMM.format(dtype=dtype, a=a, b=b, m=m, n=n, k=k, x=threads[0], y=threads[1])
        spec = read_specs(text, "x.yaml")[0]
        report = Report(spec.source)
        check(resolve(spec, report), report)
        for found in report.diagnostics:
            if found.code != "CG221":
                continue
            said += 1
            suggested = re.findall(r"`([^`]*)`", found.help or "")
            assert suggested, text
            for change in suggested:
                better = text
                if layout := re.fullmatch(r'thread_layout: "(.*)"', change):
                    assert m % threads[0] or n % threads[1]
                    better = re.sub(r'(thread_layout: )"[^"]*"', rf'\g<1>"{layout[1]}"', text)
                for mode, extent in re.findall(r"(\w): (\d+)", change):
                    better, count = re.subn(rf"(tiler: .*\b{mode}: )\d+", rf"\g<1>{extent}", better)
                    assert count == 1
                assert better != text
                spec = read_specs(better, "x.yaml")[0]
                again = Report(spec.source)
                check(resolve(spec, again), again)
                assert not has_errors(again.diagnostics), (text, change, again.diagnostics)
    assert said or threads == (8, 8)


@pytest.mark.parametrize(
    ("tile", "threads", "place", "because"),
    [
        ((128, 128, 8), (16, 15), "thread_layout: «", "15 threads along N do not divide 128"),
        ((128, 128, 8), (15, 16), "thread_layout: «", "15 threads along M do not divide 128"),
        ((128, 128, 7), (16, 16), "K: «", ""),
        ((80, 128, 8), (16, 16), "M: «", ""),
        ((128, 72, 8), (16, 16), "N: «", "16 threads along N do not divide 72"),
    ],
)
def test_what_is_to_blame_is_pointed_at(
    tile: tuple[int, int, int], threads: tuple[int, int], place: str, because: str
) -> None:
    (m, n, k), (x, y) = tile, threads
    text = GEMM.format(dtype="f32", a="M", b="N", m=m, n=n, k=k, x=x, y=y)
    spec = read_specs(text, "x.yaml")[0]
    report = Report(spec.source)
    check(resolve(spec, report), report)
    found = [d for d in report.diagnostics if d.code == "CG221"][-1]
    lines = text.splitlines()
    lines[found.span.line - 1] = f"{lines[found.span.line - 1][: found.span.column - 1]}«"
    assert lines[found.span.line - 1].endswith(place) and found.help
    assert any(because in note for note in found.notes[1:]) if because else len(found.notes) == 1


def refused(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        generate(text, "x.yaml")
    assert {d.code for d in caught.value.diagnostics} == {"CG221"}
    return caught.value.diagnostics[0].help or ""


def test_a_depth_that_keeps_the_output_tile_comes_first() -> None:
    base = {"dtype": "f32", "a": "M", "b": "N", "x": 16, "y": 16}
    assert refused(GEMM.format(**base, m=80, n=128, k=8)) == "write `K: 16` or `M: 64` in the tiler"
    assert refused(GEMM.format(**base, m=128, n=16, k=8)) == "write `K: 16` or `N: 32` in the tiler"


@pytest.mark.parametrize(("given", "near"), [(3, 8), (6, 8), (9, 8), (11, 8), (12, 16), (20, 24)])
def test_a_depth_is_near_by_its_ratio(given: int, near: int) -> None:
    """Of those that 64 threads can copy: 5 is as far from 10 as 20 is."""
    text = GEMM.format(dtype="f32", a="M", b="N", x=8, y=8, m=24, n=128, k=given)
    assert f"`K: {near}`" in refused(text)


def test_the_place_is_an_extent_that_was_written() -> None:
    text = GEMM.format(dtype="f32", a="M", b="N", m=128, n=128, k=3, x=16, y=16).replace("M: 128, N: 128, K", "K")
    with pytest.raises(SpecError) as caught:
        generate(text, "x.yaml")
    line = text.splitlines()[caught.value.diagnostics[0].span.line - 1]
    assert line[caught.value.diagnostics[0].span.column - 1 :] == "3}"


def test_what_is_not_sound_is_not_said_to_be_uncopyable() -> None:
    """Nothing was tried then."""
    text = GEMM.format(dtype="f32", a="M", b="N", m=80, n=128, k=1, x=16, y=16)
    with pytest.raises(SpecError) as caught:
        generate(text, "x.yaml")
    assert [d.code for d in caught.value.diagnostics] == ["CG245"]
