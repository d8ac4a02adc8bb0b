"""Bank conflicts and sectors of any access, against counting bytes by hand; and what a conflict is told to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from analysis_kit import WARP, bank_passes, image, sectors_of, ways_of
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tensor_layouts import Layout
from tensor_layouts.analysis import segment_analysis

from cutegen import layouts
from cutegen.analysis import Access, accesses, conflicts, sectors
from cutegen.analysis.memory import lanes_of_pass
from cutegen.codegen import generate
from cutegen.dtypes import Dtype
from cutegen.layouts import parse_layout

DTYPES = st.sampled_from([Dtype.f64, Dtype.f32, Dtype.f16, Dtype.u8])
quick = settings(max_examples=150, deadline=None, derandomize=True)


@st.composite
def modes(draw: st.DrawFn, most: int, steps: st.SearchStrategy[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of up to three modes, with no more than `most` coordinates."""
    shape: list[int] = []
    for _ in range(draw(st.integers(1, 3))):
        left = most // int(np.prod(shape, dtype=int))
        shape.append(draw(st.sampled_from([n for n in (1, 2, 3, 4, 5, 8, 16, 32, 64) if n <= left])))
    return tuple(shape), tuple(draw(steps) for _ in shape)


@st.composite
def access(draw: st.DrawFn, space: str) -> Access:
    """Any threads, each with aligned vectors of neighbours; strides that repeat, stand still and leave gaps."""
    dtype = draw(DTYPES)
    vector = draw(st.sampled_from([v for v in (1, 2, 4, 8, 16) if v * dtype.bytes <= 16]))
    steps = st.one_of(st.integers(0, 40), st.sampled_from([32, 33, 64, 128, 132, 1024]), st.sampled_from([0, 1])).map(
        lambda n: n * vector
    )
    threads, of_threads = draw(modes(draw(st.sampled_from([8, 32, 48, 96])), steps))
    rest, of_rest = draw(modes(8, steps))
    values = ((vector, *rest), (1, *of_rest))
    layout = Layout((threads, values[0]), (of_threads, values[1]))
    kind = "read" if space == "global" else "write"
    return Access("X", "X", dtype, space, kind, vector, layout, ("schedule",))  # type: ignore[arg-type]


def addresses(access: Access) -> np.ndarray:
    """In bytes, of each thread's instructions: shape (threads, instructions)."""
    (threads, values), (of_threads, of_values) = access.layout.shape, access.layout.stride
    elements = image(threads, of_threads)[:, None] + image(values, of_values)[None, :]
    return elements[:, :: access.vector] * access.dtype.bytes


def first_of(access: Access, warp: int) -> dict[int, int]:
    at = addresses(access)[WARP * warp : WARP * (warp + 1), 0]
    return dict(enumerate(at.tolist()))


@quick
@given(access("shared"))
def test_conflicts_by_hand(access: Access) -> None:
    found, threads = conflicts(access), len(addresses(access))
    costs = [ways_of(first_of(access, warp), access.bytes) for warp in range(-(-threads // WARP))]
    event(f"{found.ways}-way of {len(costs)} warps")
    totals = [sum(ways) for ways in costs]
    assert found.passes == max(totals)
    assert found.warp == totals.index(max(totals)), "the first of the worst warps"
    assert (found.ways, found.least) == (max(costs[found.warp]), len(costs[found.warp]))
    assert found.free == (found.ways == 1) == (found.passes == found.least)


@quick
@given(access("shared"))
def test_what_is_told_of_a_conflict_is_true(access: Access) -> None:
    """Each lane named is one of the warp, in one pass with the others, and wants the word named, in that bank."""
    found, lanes = conflicts(access), lanes_of_pass(access)
    assert len(found.words) == len(found.lanes) == found.ways == len(set(found.words))
    assert {word % 32 for word in found.words} == {found.bank}
    assert {lane // WARP for lane in found.lanes} == {found.warp}
    assert len({lane // lanes for lane in found.lanes}) == 1, "of one pass"
    at = addresses(access)[:, 0]
    for lane, word in zip(found.lanes, found.words, strict=True):
        assert at[lane] // 4 <= word <= (at[lane] + access.bytes - 1) // 4
    (number,) = {lane % WARP // lanes for lane in found.lanes}
    passes = bank_passes(first_of(access, found.warp), access.bytes)
    assert set(found.words) == set(passes[number][found.bank]), "all that the bank is asked for"


@quick
@given(access("shared"))
def test_all_instructions_conflict_alike_where_they_are_whole_words_apart(access: Access) -> None:
    at = addresses(access)
    assume(not ((at[0] - at[0, 0]) % 4).any())
    for i in range(at.shape[1]):
        totals = [
            sum(ways_of(dict(enumerate(at[w * WARP : (w + 1) * WARP, i].tolist())), access.bytes))
            for w in range(-(-len(at) // WARP))
        ]
        assert max(totals) == conflicts(access).passes


@quick
@given(access("global"))
def test_sectors_by_hand(access: Access) -> None:
    found, at, width = sectors(access), addresses(access), access.bytes

    def bytes_of(starts: np.ndarray) -> set[int]:
        return {byte for a in starts.reshape(-1).tolist() for byte in range(a, a + width)}

    def least(bytes: set[int]) -> int:
        return -(-len(bytes) // 32)

    warps = [at[start : start + WARP] for start in range(0, len(at), WARP)]
    costs = [(sectors_of(warp[:, 0].tolist(), width), bytes_of(warp[:, 0])) for warp in warps]
    ratios = [touched / least(asked) for touched, asked in costs]
    event(f"warp {found.warp} of {len(warps)}")
    assert found.warp == ratios.index(max(ratios)), "the first of the worst warps"
    touched, one = costs[found.warp]
    whole = bytes_of(warps[found.warp])
    assert (found.sectors, found.bytes, found.least) == (touched, len(one), least(one))
    assert found.over_tile == len({byte // 32 for byte in whole}) and found.least_over_tile == least(whole)
    assert found.sectors >= found.least and found.over_tile >= found.least_over_tile
    assert found.ratio == found.sectors / found.least == max(ratios) >= 1


@quick
@given(access("global"))
def test_sectors_of_the_first_warp_are_those_of_tensor_layouts(access: Access) -> None:
    found = sectors(replace(access, block=WARP))
    one, whole = (
        segment_analysis(layout, element_bytes=access.dtype.bytes, warp_size=WARP, segment_bytes=32)
        for layout in (access.first, access.layout)
    )
    assert (found.warp, found.sectors, found.bytes) == (0, one["segments"], one["unique_bytes"])
    assert (found.over_tile, found.least_over_tile) == (whole["segments"], -(-whole["unique_bytes"] // 32))


def test_a_warp_that_starts_amid_a_sector_needs_one_more() -> None:
    """40 lanes a row: the second warp has the end of one row and the start of the next."""
    access = Access("X", "X", Dtype.bf16, "global", "read", 1, Layout(((40, 4), 1), ((1, 1024), 1)), ())
    found = sectors(access)
    assert (found.warp, found.sectors, found.least) == (1, 3, 2)
    first = sectors(replace(access, block=WARP))
    assert (first.warp, first.sectors, first.least) == (0, 2, 2), "threads that do not run cost nothing"


def shared(dtype: Dtype, vector: int, shape: Any, stride: Any) -> Access:
    layout = Layout((shape, vector), (stride, 1))
    return Access("X", "X", dtype, "shared", "read", vector, layout, ())


@pytest.mark.parametrize(
    ("access", "ways", "passes"),
    [
        (shared(Dtype.f32, 1, 32, 1), 1, 1),  # neighbours
        (shared(Dtype.f32, 1, 32, 2), 2, 2),  # every other word: the guide's two-way conflict
        (shared(Dtype.f32, 1, 32, 3), 1, 1),
        (shared(Dtype.f32, 1, 32, 32), 32, 32),  # a column of a 32 x 32 tile
        (shared(Dtype.f32, 1, 32, 33), 1, 1),  # the same with a padded row
        (shared(Dtype.f32, 1, 32, 0), 1, 1),  # one word for all
        (shared(Dtype.f16, 1, 32, 1), 1, 1),  # two lanes a word
        (shared(Dtype.f32, 2, 32, 2), 1, 2),  # 8 bytes a lane: two halves
        (shared(Dtype.f32, 4, 32, 4), 1, 4),  # 16 bytes a lane: four quarters
        (shared(Dtype.f32, 4, 32, 8), 2, 8),
        (shared(Dtype.f32, 4, (12, 2), (4, 128)), 2, 4),  # the second of three quarters only
        (shared(Dtype.f64, 1, 32, 1), 1, 2),
        (shared(Dtype.f64, 1, 32, 16), 16, 32),
    ],
)
def test_well_known_patterns(access: Access, ways: int, passes: int) -> None:
    found = conflicts(access)
    assert (found.ways, found.passes) == (ways, passes)


def test_only_shared_memory_has_banks_and_only_global_memory_has_sectors() -> None:
    one = shared(Dtype.f32, 1, 32, 1)
    with pytest.raises(ValueError, match="only global memory has sectors"):
        sectors(one)
    with pytest.raises(ValueError, match="only shared memory has banks"):
        conflicts(replace(one, space="global"))


# Lanes and warps, runs along m and n, tile; wavefronts of a warp's reads for one k, as Nsight Compute counted them on
# an H200 (l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld of 2048 cubed, over the block's warps and 2048 steps)
COUNTED = [
    ("((8,2),(4,4),1):((1,32),(8,64),0)", (4, 4), (128, 128), 12),
    ("((2,4,2),(2,2,4),1):((1,4,32),(2,16,64),0)", (4, 4), (128, 128), 8),
    ("((2,2,4),(2,4,2),1):((2,16,32),(1,4,128),0)", (4, 4), (128, 128), 8),
    ("((8,2),(4,2),1):((1,32),(8,64),0)", (4, 4), (128, 128), 16),
    ("((2,4,2),(2,2,2),1):((1,4,32),(2,16,64),0)", (4, 4), (128, 128), 12),
    ("((8,2),(4,4),1):((1,32),(8,64),0)", (4, 4), (256, 128), 20),
    ("((2,4,2),(2,2,4),1):((1,4,32),(2,16,64),0)", (4, 4), (256, 128), 12),
    ("((2,8),(16),1):((16,32),(1),0)", (4, 2), (256, 128), 16),
    ("((4,4),(8),1):((8,32),(1),0)", (4, 2), (128, 128), 20),
    ("((2,2,4),(2,4),1):((2,16,32),(1,4),0)", (4, 2), (128, 128), 12),
]


@pytest.mark.parametrize(("lanes", "runs", "tile", "counted"), COUNTED)
def test_wavefronts_are_those_that_a_gpu_counted(
    lanes: str, runs: tuple[int, int], tile: tuple[int, int], counted: int
) -> None:
    m, n, _ = layouts.mode_sizes(parse_layout(lanes))
    text = f"""
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {{shape: [M, K], dtype: f32, major: M}}
  B: {{shape: [N, K], dtype: f32, major: N}}
  C: {{shape: [M, N], dtype: f32, align: 4, role: out}}
compute: C = A @ B.T
schedule:
  tiler: {{M: {tile[0]}, N: {tile[1]}, K: 8}}
  mma:
    thread_layout: "{lanes}"
    permutation:
      M: "({m},{runs[0]}):({runs[0]},1)"
      N: "({n},{runs[1]}):({runs[1]},1)"
"""
    plan = generate(text, "mm.yaml").modules[0].plan
    reads = [access for access in accesses(plan) if access.space == "shared" and access.kind == "read"]
    assert sum(access.instructions * conflicts(access).wavefronts for access in reads) == counted


@quick
@given(access("shared"))
def test_wavefronts_are_no_more_than_passes(access: Access) -> None:
    for kind in ("read", "write"):
        found = conflicts(replace(access, kind=kind))  # type: ignore[arg-type]
        assert -(-found.least // 2) <= found.wavefronts <= found.passes
        assert kind == "read" or found.wavefronts == found.passes
