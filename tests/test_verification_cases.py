from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_layouts import Layout

from cutegen.language.dtypes import Dtype
from cutegen.language.expressions import parse
from cutegen.language.model import (
    ElementwiseSchedule,
    GemmSchedule,
    KernelSpec,
    Predicate,
    ProbeSchedule,
    Tensor,
    Verify,
    Workspace,
)
from cutegen.verification.cases import Case, compact_allowed, derive_cases, strides_for


def gemm(
    majors: str = "KKN", align: int = 16, static: dict[str, int] | None = None, divisible: dict[str, int] | None = None
) -> KernelSpec:
    tensors = (
        Tensor("A", ("M", "K"), Dtype.f32, majors[0], align),
        Tensor("B", ("N", "K"), Dtype.f32, majors[1], align),
        Tensor("C", ("M", "N"), Dtype.f32, majors[2], align, "out"),
    )
    return KernelSpec(
        "g",
        "gemm",
        tensors,
        parse("C = A @ B.T"),
        GemmSchedule(),
        static=static or {},
        divisible=divisible or {},
        verify=Verify(({"M": 256, "N": 128, "K": 64},)),
    )


TILE = {"M": 128, "N": 96, "K": 8}


def copy(dtype: Dtype = Dtype.bf16, divisible: dict[str, int] | None = None) -> KernelSpec:
    tensors = (Tensor("S", ("M", "N"), dtype, "N", 16), Tensor("D", ("M", "N"), dtype, "N", 16, "out"))
    return KernelSpec("c", "elementwise", tensors, parse("D = S"), ElementwiseSchedule(), divisible=divisible or {})


def sizes_of(cases: tuple[Case, ...], mode: str) -> set[int]:
    return {c.sizes[mode] for c in cases}


def test_a_gemm_gets_the_shapes_that_break_kernels() -> None:
    cases = derive_cases(gemm(), TILE, 3)
    for mode, tile in TILE.items():
        assert {1, tile - 1, tile, tile + 1} <= sizes_of(cases, mode)
    k = sizes_of(cases, "K")
    assert {0, 8, 16, 24, 32, 9, 17, 25, 33} <= k  # none; 1, stages-1, stages, stages+1 tiles, each with a residue too
    assert any(1 < size < 8 for size in k)
    assert any(c.sizes["M"] == 0 for c in cases) and any(c.sizes["N"] == 0 for c in cases)
    assert {"M": 256, "N": 128, "K": 64} in [dict(c.sizes) for c in cases]
    assert any(all(c.sizes[m] > 2 * TILE[m] for m in "MN") for c in cases)
    assert {c.layout for c in cases} == {"compact", "padded", "offset"}
    assert {c.data for c in cases} == {"random", "integers"}
    own = [c for c in cases if c.why.startswith("a shape of the spec")]
    assert [c.data for c in own] == ["random", "integers"]
    assert all(math.prod(c.sizes.values()) < 4_000_000 for c in cases if c not in own)


def test_a_workspace_gets_shapes_around_its_own_tile() -> None:
    threads = Layout((2, 4), (1, 2))  # with 4 x 4 elements of f32 each: K is a multiple of 4
    spec = gemm(divisible={"K": 4})
    assert isinstance(spec.schedule, GemmSchedule)
    filled = replace(
        spec, targets=("sm_80",), schedule=replace(spec.schedule, workspace={"B": Workspace("N", threads)})
    )
    own = [c for c in derive_cases(filled, TILE, 3) if c.name.startswith("workspace of B")]
    assert [(c.sizes["N"], c.sizes["K"]) for c in own] == [(7, 16), (9, 20)]  # K of 15 is rounded up
    assert not any(c.name.startswith("workspace") for c in derive_cases(spec, TILE, 3))


@pytest.mark.parametrize("stages", [None, 1, 2, 3, 5])
@pytest.mark.parametrize("majors", ["".join(m) for m in itertools.product("MK", "NK", "MN")])
def test_not_too_many_each_once_and_always_the_same(majors: str, stages: int | None) -> None:
    cases = derive_cases(gemm(majors), TILE, stages)
    assert 25 <= len(cases) <= 42
    assert cases == derive_cases(gemm(majors), TILE, stages)
    assert len({c.name for c in cases}) == len(cases) == len({c.seed for c in cases})
    assert len({(tuple(c.sizes.items()), c.layout, c.data) for c in cases}) == len(cases)


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries({m: st.sampled_from([1, 4, 8, 48, 64, 128]) for m in "MNK"}),
    st.dictionaries(st.sampled_from("MNK"), st.sampled_from([2, 4, 8, 12, 64]), max_size=3),
    st.dictionaries(st.sampled_from("MNK"), st.sampled_from([1, 7, 64]), max_size=2),
    st.sampled_from(["".join(m) for m in itertools.product("MK", "NK", "MN")]),
    st.sampled_from([4, 8, 16, 32]),
)
def test_every_case_keeps_what_the_spec_promises(
    tile: dict[str, int], divisible: dict[str, int], static: dict[str, int], majors: str, align: int
) -> None:
    divisible = {m: d for m, d in divisible.items() if static.get(m, 0) % d == 0}
    spec = gemm(majors, align, static, divisible)
    for case in derive_cases(spec, tile, 3):
        if not case.name.startswith("spec shape"):  # those are the user's
            assert all(case.sizes[m] == size for m, size in static.items())
            assert all(case.sizes[m] % d == 0 for m, d in divisible.items())
        if case.layout == "compact":
            assert compact_allowed(spec, case.sizes)
        for tensor in spec.tensors:
            strides = dict(zip(tensor.shape, strides_for(tensor, case.sizes, case.layout), strict=True))
            major = strides.pop(tensor.major or "")
            assert major == 1
            for stride in strides.values():
                assert stride * 4 % align == 0 and stride >= max(1, case.sizes[tensor.major or ""])
                gap = stride - max(1, case.sizes[tensor.major or ""])
                if case.layout == "padded":
                    assert 1 <= gap <= align // 4  # the least gap that keeps the alignment
                elif case.layout == "offset":
                    assert gap >= 1 and stride * 4 % (2 * align) == align
                else:
                    assert gap == 0 or case.sizes[tensor.major or ""] == 0


def test_compact_becomes_padded_where_rows_would_break_the_alignment() -> None:
    by_name = {c.name: c for c in derive_cases(copy(), {"M": 8, "N": 64}, None)}
    assert by_name["tile"].layout == "compact"
    assert by_name["N one more"].sizes["N"] == 65 and by_name["N one more"].layout == "padded"
    assert by_name["M one more"].layout == "compact"
    assert by_name["special values"].data == "special"


def test_divisible_sizes_are_rounded_down_and_up() -> None:
    cases = derive_cases(copy(divisible={"N": 8}), {"M": 8, "N": 64}, None)
    assert {56, 64, 72, 8} <= sizes_of(cases, "N") and all(c.sizes["N"] % 8 == 0 for c in cases)


def test_a_static_mode_is_never_empty_and_a_free_one_is() -> None:
    cases = derive_cases(gemm(static={"K": 64, "N": 96}), TILE, 3)
    assert sizes_of(cases, "K") == {64} and sizes_of(cases, "N") >= {96} and 0 in sizes_of(cases, "M")


def test_strides_follow_the_major_mode_at_any_rank() -> None:
    tensor = Tensor("T", ("B", "M", "N"), Dtype.f16, "M", 8)
    sizes = {"B": 2, "M": 5, "N": 3}
    assert strides_for(tensor, sizes, "compact") == (15, 1, 5)
    assert strides_for(tensor, sizes, "padded") == (28, 1, 8)
    assert strides_for(tensor, sizes, "offset") == (44, 1, 12)
    assert strides_for(Tensor("b", ("N",), Dtype.f16, "N", 16), sizes, "padded") == (1,)


def test_a_probe_has_its_one_size() -> None:
    tensors = (Tensor("A", ("M", "N"), Dtype.f32, "N", 4), Tensor("D", ("T", "V"), Dtype.f32, "V", 4, "out"))
    static = {"T": 4, "V": 6, "M": 4, "N": 6}
    schedule = ProbeSchedule(Layout(((2, 2), (2, 3)), ((2, 12), (1, 4))), {"M": 4, "N": 6})
    spec = KernelSpec("p", "probe", tensors, parse("D = A"), schedule, static=static)
    cases = derive_cases(spec, {"M": 4, "N": 6}, None)
    assert {tuple(sorted(c.sizes.items())) for c in cases} == {tuple(sorted(static.items()))}
    assert {c.layout for c in cases} == {"compact", "padded", "offset"}


def inner(predication: dict[str, Predicate], static: dict[str, int] | None = None) -> KernelSpec:
    divisible = {"N": 4} | ({"M": 2} if predication["M"] == "none" else {})
    schedule = ElementwiseSchedule("inner", {"M": 2, "N": 4}, 64, predication=predication)
    return replace(copy(Dtype.f32, divisible), schedule=schedule, static=static or {})


def test_an_inner_partition_is_run_on_many_blocks() -> None:
    """Its plan's tile is one thread's: a block's is 64 of them."""
    cases = derive_cases(inner({"M": "mask", "N": "none"}), {"M": 2, "N": 4}, None)
    assert {252, 256, 260} <= sizes_of(cases, "N") and {1, 2, 3} <= sizes_of(cases, "M")
    tiles = [-(-c.sizes["M"] // 2) * -(-c.sizes["N"] // 4) for c in cases]
    assert any(t > 3 * 64 for t in tiles) and any(t % 64 for t in tiles)


@pytest.mark.parametrize("static", [{}, {"M": 4}, {"N": 12}])
def test_without_a_predicate_the_number_of_tiles_is_whole_blocks(static: dict[str, int]) -> None:
    cases = derive_cases(inner({"M": "none", "N": "none"}, static), {"M": 2, "N": 4}, None)
    assert len(cases) > 5
    for case in cases:
        m, n = case.sizes["M"], case.sizes["N"]
        assert m % 2 == n % 4 == 0 and (m // 2) * (n // 4) % 64 == 0
        assert m == static.get("M", m) and n == static.get("N", n)
    if not static:
        assert any(c.sizes["N"] // 4 % 64 for c in cases)  # blocks that end in the middle of a row


def test_static_sizes_that_cannot_fill_blocks_leave_no_case() -> None:
    assert derive_cases(inner({"M": "none", "N": "none"}, {"M": 2, "N": 12}), {"M": 2, "N": 4}, None) == ()
