"""CG275: stages of a pipeline that a fixed k never fills."""

from __future__ import annotations

import re

import pytest

from cutegen.codegen import generate
from cutegen.language.diagnostics import Diagnostic

GEMM = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M}
  B: {shape: [N, K], dtype: f32, major: N}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
"""


def pipeline(k: int | None, depth: int, stages: int | None) -> str:
    text = GEMM + (f"static: {{K: {k}}}\n" if k else "") + f"schedule:\n  tiler: {{K: {depth}}}\n"
    return text + (f"  pipeline: {{stages: {stages}}}\n" if stages else "")


def advice(text: str) -> list[Diagnostic]:
    return [d for d in generate(text, "x.yaml", performance=True).warnings if d.code == "CG275"]


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("stages", [2, 3, 4, 7])
def test_there_is_a_tile_for_every_stage_or_advice(depth: int, stages: int) -> None:
    """Tiles are counted off k, and the stages tried out from the least."""
    for k in (1, 2, depth - 1, depth, depth + 1, 2 * depth, 2 * depth + 1, 3 * depth, 4 * depth, 6 * depth + 1, 4096):
        tiles = len(range(0, k, depth))
        found = advice(pipeline(k, depth, stages))
        # All tiles but one stage's worth are copied ahead
        enough = next(count for count in range(2, 100) if count - 1 >= tiles or count == stages)
        assert bool(found) == (enough < stages), (k, depth, stages)
        if found:
            (one,) = found
            assert one.severity == "warning" and one.help == f"write `stages: {enough}`"
            assert f"K has {tiles} tile" in one.message and f"= {tiles}, and {stages} - 1" in one.notes[0]
            better = pipeline(k, depth, enough)
            assert not advice(better)
            smem = [generate(t, "x.yaml").modules[0].plan.smem_bytes for t in (pipeline(k, depth, stages), better)]
            assert [int(x) for x in re.findall(r"\d+", one.notes[1])] == smem and smem[1] < smem[0]


def test_a_size_that_is_not_fixed_fills_any_number() -> None:
    assert not advice(pipeline(None, 8, 7))


def test_the_place_is_where_it_is_mended() -> None:
    (written,) = advice(pipeline(8, 8, 4))
    text = pipeline(8, 8, 4).splitlines()
    assert text[written.span.line - 1][written.span.column - 1 :].startswith("4}")


def test_what_is_inferred_needs_no_advice() -> None:
    assert not advice(pipeline(8, 8, None))
