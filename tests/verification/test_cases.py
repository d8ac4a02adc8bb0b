from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specs_kit import ROOT
from verification_fakes import plan_of

from cutegen.codegen import generate
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.elementwise.schedule import ElementwiseSchedule
from cutegen.families.gemm.staged.schedule import GemmSchedule
from cutegen.language.model import KernelSpec, Tensor, Verify
from cutegen.verification.cases import Case, compact_allowed, derive_cases, strides_for
from cutegen.verification.forms import runners_of_forms


def gemm(
    majors: str = "KKN", align: int = 16, static: dict[str, int] | None = None, divisible: dict[str, int] | None = None
) -> KernelSpec:
    tensors = (
        Tensor("A", ("M", "K"), Dtype.f32, majors[0], align),
        Tensor("B", ("N", "K"), Dtype.f32, majors[1], align),
        Tensor("C", ("M", "N"), Dtype.f32, majors[2], align, "out"),
    )
    return KernelSpec(
        kernel="g",
        op="gemm",
        tensors=tensors,
        compute=parse_compute("C = A @ B.T"),
        schedule=GemmSchedule(),
        static=static or {},
        divisible=divisible or {},
        verify=Verify(({"M": 256, "N": 128, "K": 64},)),
    )


TILE = {"M": 128, "N": 96, "K": 8}


def copy(dtype: Dtype = Dtype.bf16, divisible: dict[str, int] | None = None) -> KernelSpec:
    tensors = (Tensor("S", ("M", "N"), dtype, "N", 16), Tensor("D", ("M", "N"), dtype, "N", 16, "out"))
    return KernelSpec(
        kernel="c",
        op="elementwise",
        tensors=tensors,
        compute=parse_compute("D = S"),
        schedule=ElementwiseSchedule(),
        divisible=divisible or {},
    )


def sizes_of(cases: tuple[Case, ...], mode: str) -> set[int]:
    return {c.sizes[mode] for c in cases}


def test_a_gemm_gets_the_shapes_that_break_kernels() -> None:
    cases = derive_cases(plan_of(gemm(), TILE, 3))
    for mode, tile in TILE.items():
        assert {1, tile - 1, tile, tile + 1} <= sizes_of(cases, mode)
    k = sizes_of(cases, "K")
    assert {0, 8, 16, 24, 32, 9, 17, 25, 33} <= k  # none; 1, stages-1, stages, stages+1 tiles, each with a residue too
    assert any(1 < size < 8 for size in k)
    assert any(c.sizes["M"] == 0 for c in cases) and any(c.sizes["N"] == 0 for c in cases)
    assert {"M": 256, "N": 128, "K": 64} in [dict(c.sizes) for c in cases]
    assert any(all(c.sizes[m] > 2 * TILE[m] for m in "MN") for c in cases)
    assert {c.layout for c in cases} == {"compact", "padded", "offset"}
    assert {c.data for c in cases} == {"random", "integers", "special"}
    own = [c for c in cases if c.why.startswith("a shape of the spec")]
    assert [c.data for c in own] == ["random", "integers"]
    assert all(math.prod(c.sizes.values()) < 10_000_000 for c in cases if c not in own)


@pytest.mark.parametrize("stages", [None, 1, 2, 3, 5])
@pytest.mark.parametrize("majors", ["".join(m) for m in itertools.product("MK", "NK", "MN")])
def test_not_too_many_each_once_and_always_the_same(majors: str, stages: int | None) -> None:
    cases = derive_cases(plan_of(gemm(majors), TILE, stages))
    assert 25 <= len(cases) <= 48
    assert cases == derive_cases(plan_of(gemm(majors), TILE, stages))
    assert len({c.name for c in cases}) == len(cases) == len({c.seed for c in cases})
    assert len({(tuple(c.sizes.items()), c.layout, c.data, tuple(c.scalars)) for c in cases}) == len(cases)


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
    for case in derive_cases(plan_of(spec, tile, 3)):
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
    by_name = {c.name: c for c in derive_cases(plan_of(copy(), {"M": 8, "N": 64}))}
    assert by_name["tile"].layout == "compact"
    assert by_name["N one more"].sizes["N"] == 65 and by_name["N one more"].layout == "padded"
    assert by_name["M one more"].layout == "compact"
    assert by_name["special values"].data == "special"


def test_divisible_sizes_are_rounded_down_and_up() -> None:
    cases = derive_cases(plan_of(copy(divisible={"N": 8}), {"M": 8, "N": 64}))
    assert {56, 64, 72, 8} <= sizes_of(cases, "N") and all(c.sizes["N"] % 8 == 0 for c in cases)


def test_a_static_mode_is_never_empty_and_a_free_one_is() -> None:
    cases = derive_cases(plan_of(gemm(static={"K": 64, "N": 96}), TILE, 3))
    assert sizes_of(cases, "K") == {64} and sizes_of(cases, "N") >= {96} and 0 in sizes_of(cases, "M")


def test_strides_follow_the_major_mode_at_any_rank() -> None:
    tensor = Tensor("T", ("B", "M", "N"), Dtype.f16, "M", 8)
    sizes = {"B": 2, "M": 5, "N": 3}
    assert strides_for(tensor, sizes, "compact") == (15, 1, 5)
    assert strides_for(tensor, sizes, "padded") == (28, 1, 8)
    assert strides_for(tensor, sizes, "offset") == (44, 1, 12)
    assert strides_for(Tensor("b", ("N",), Dtype.f16, "N", 16), sizes, "padded") == (1,)


def test_of_a_kernel_for_the_shortest_rows_there_are_cases_too() -> None:
    text = """
cutegen: 1
kernel: short
op: rowwise
tensors:
  G: {shape: [M, N], dtype: f32}
  Z: {shape: [M], dtype: f32, role: out}
compute: Z = sum(G, N)
schedule:
  - {for: {N: "<= 2"}}
  - {}
"""
    (module,) = generate(text, "specs/x.yaml").modules
    assert {case.sizes["N"] for case in derive_cases(module.plan)} >= {1, 2}


ANY_N = """
cutegen: 1
kernel: norm
op: rowwise
targets: [sm_80, sm_90a]
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
scalars: {eps: f32}
compute: Y = X * rsqrt(mean(X * X, N) + eps)
"""


@pytest.mark.parametrize("targets", ["[sm_90a]", "[sm_80, sm_90a]"])
def test_scalars_are_tried_in_the_last_kernel_of_each_target(targets: str) -> None:
    """That is the general one: of short rows, and of all that fits no other kernel."""
    (module,) = generate(ANY_N.replace("[sm_80, sm_90a]", targets), "specs/x.yaml").modules
    kernels, cases = module.plan.kernels, derive_cases(module.plan)
    assert len(kernels) > 4
    for number, kernel in enumerate(kernels):
        own = [case for case in cases if case.name.endswith(f", {kernel.case}") and "eps" in case.scalars]
        last = any(all(t not in other.spec.targets for other in kernels[number + 1 :]) for t in kernel.spec.targets)
        assert bool(own) == last
        values = [case.scalars["eps"] for case in own]
        assert not last or ({0, 1, -2.5, math.inf} <= set(values) and any(map(math.isnan, values)))
        assert {case.data for case in own} == ({"special", "rows"} if last else set())


def test_each_kernel_of_any_row_has_the_ends_and_rows_of_all_kinds() -> None:
    (module,) = generate(ANY_N, "specs/x.yaml").modules
    cases, tested = derive_cases(module.plan), runners_of_forms(module.plan)
    for place, kernel in enumerate(module.plan.kernels):
        own = [case for case in cases if case.name.endswith(f", {kernel.case}")]
        low, high = kernel.spec.sizes_of("N")
        sizes, step = {case.sizes["N"] for case in own}, kernel.spec.divisible.get("N", 1)
        assert min(sizes) == low + -low % step
        assert high >= 2**31 - 1 or high - high % step in sizes
        tile, narrow = kernel.ways[0].tile["N"], kernel.ways[-1].tile["N"]  # of accesses of one element, if there are
        assert any(size % tile == 0 for size in sizes) and any(size % narrow == narrow - step for size in sizes)
        assert any(size % narrow == step for size in sizes) or high <= tile
        of_form = {"special", "magnitudes"} if place in tested else set()
        assert {case.data for case in own} == {"random", "integers", "rows"} | of_form
        assert {case.layout for case in own} >= {"compact", "offset"} | ({"padded"} if place in tested else set())
        assert any(case.sizes["M"] > 1 for case in own) and any(case.sizes["M"] == 0 for case in own)


def test_what_does_not_fit_a_kernel_but_for_one_thing_is_within_its_lengths() -> None:
    (module,) = generate(ANY_N, "specs/x.yaml").modules
    cases = derive_cases(module.plan)
    whole = set()
    for kernel in module.plan.kernels[:-1]:
        own = [case for case in cases if " alone " in case.name and case.name.endswith(f", {kernel.case}")]
        low, high = kernel.spec.sizes_of("N")
        assert own and all(low <= case.sizes["N"] <= high for case in own)
        assert any(case.sizes["N"] % 8 == 4 for case in own)  # which fits all but the last bit
        at_half = {name for case in own for name, bytes_ in case.aligned.items() if bytes_ == 8}
        assert at_half == {"X", "Y"}
        if any("rows elsewhere" in case.name for case in own):
            assert not whole & set(kernel.spec.targets)
            whole |= set(kernel.spec.targets)
            assert any(case.shifted for case in own)
    assert whole


@pytest.mark.parametrize("name", ["add_cases", "gemm_few_rows", "softmax"])
def test_each_case_of_a_kernel_runs_it(name: str) -> None:
    """Calls of its sizes get that kernel on some target: of a kernel for many rows no case has few."""
    path = ROOT / "specs" / f"{name}.yaml"
    plan = generate(path.read_text(encoding="utf-8"), str(path)).modules[0].plan
    kernels, seen = {kernel.case: kernel for kernel in plan.kernels}, set()
    for case in derive_cases(plan):
        if case.of[1] >= 0 and not case.empty:
            kernel = kernels[case.of[0]]
            seen.add(kernel.case)
            assert any(plan.taken(case.sizes, target) is kernel for target in kernel.spec.targets), case
    assert len(seen) == len(kernels) > 1
