from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from cutegen.codegen import generate
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.elementwise.schedule import ElementwiseSchedule
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.language.reader import read_specs
from cutegen.planning import resolve
from cutegen.planning.report import Report
from cutegen.verification.case_request import Data
from cutegen.verification.cases import Case, Layout
from cutegen.verification.compare import bits_of
from cutegen.verification.data import KINDS_OF_ROWS
from cutegen.verification.scalars import scalar_values
from cutegen.verification.tensors import Guarded, compared_with, data_for, make_tensors, poisons

SIZES = {"M": 5, "N": 7}


def spec(dtype: Dtype, align: int = 16) -> KernelSpec:
    tensors = (
        Tensor("X", ("M", "N"), dtype, "N", align),
        Tensor("Y", ("N", "M"), dtype, "M", align),
        Tensor("D", ("M", "N"), dtype, "N", align, "out"),
    )
    return KernelSpec(
        kernel="k", op="elementwise", tensors=tensors, compute=parse_compute("D = X"), schedule=ElementwiseSchedule()
    )


def made(dtype: Dtype, layout: Layout = "padded", align: int = 16, run: int = 0) -> tuple[Guarded, ...]:
    return make_tensors(spec(dtype, align), Case("c", "", SIZES, layout), "cpu", run)


@pytest.mark.parametrize("dtype", list(Dtype))
@pytest.mark.parametrize("align", [8, 16, 128])
def test_base_addresses_are_as_asked(dtype: Dtype, align: int) -> None:
    for item in made(dtype, "padded", align):
        assert item.view.data_ptr() % 256 == 0 and item.view.data_ptr() == item.buffer.data_ptr() + item.offset
    for item in made(dtype, "offset", align):
        assert item.view.data_ptr() % align == 0 and item.view.data_ptr() % (2 * align) == align
        assert item.offset >= 256 and item.view.shape in ((5, 7), (7, 5))


@pytest.mark.parametrize("dtype", list(Dtype))
def test_every_byte_outside_is_watched_and_every_one_inside_may_change(dtype: Dtype) -> None:
    """One flipped byte at a time: reported exactly if it is not an element of the output."""
    out = made(dtype)[2]
    size = dtype.bytes
    elements = {
        out.offset + (i * out.view.stride(0) + j) * size + b for i in range(5) for j in range(7) for b in range(size)
    }
    end = out.offset + (4 * out.view.stride(0) + 7) * size
    for at in range(out.offset - 300, end + 300):
        out.buffer[at] ^= 0xFF
        problem = out.problem()
        assert (problem is None) == (at in elements), at
        if problem:
            where = "before its start" if at < out.offset else ("after its end" if at >= end else "gap")
            assert problem.startswith("D: ") and where in problem
        out.buffer[at] ^= 0xFF
    for at in (0, out.buffer.numel() - 1):  # the guards reach to the buffer's ends
        out.buffer[at] ^= 1
        assert out.problem()
        out.buffer[at] ^= 1


def test_a_changed_input_shows_even_where_it_compares_equal() -> None:
    x = made(Dtype.f32)[0]
    x.view[2, 3] = 0.0
    x.original.copy_(x.buffer)
    x.view[2, 3] = -0.0
    problem = x.problem()
    assert problem is not None and "an input was modified" in problem


@pytest.mark.parametrize("dtype", [d for d in Dtype if d.is_float])
def test_guards_gaps_and_poison_read_as_nan(dtype: Dtype) -> None:
    for item in made(dtype):
        assert bool(item.buffer.view(item.view.dtype)[: item.offset // dtype.bytes].isnan().all())
        gaps = item.view.as_strided((4, item.view.stride(0)), item.view.stride())[:, item.view.shape[1] :]
        assert gaps.numel() and bool(gaps.isnan().all())
    if dtype is not Dtype.f8e4m3:  # whose NaNs are all taken
        assert bool(made(dtype)[2].view.isnan().all())


@pytest.mark.parametrize("dtype", [d for d in Dtype if d.is_float and d is not Dtype.f8e4m3])
def test_an_unwritten_float_shows_even_where_nan_is_expected(dtype: Dtype) -> None:
    out = made(dtype)[2]
    out.view.fill_(math.nan)
    assert out.unwritten() is None
    out = made(dtype)[2]
    out.view[:, :3] = math.nan
    assert out.unwritten() == "D[0, 3]: was not written (20 of 35 elements)"


@pytest.mark.parametrize("dtype", [d for d in Dtype if not d.is_float or d is Dtype.f8e4m3])
def test_integers_run_with_two_poisons_that_differ_everywhere(dtype: Dtype) -> None:
    assert poisons(spec(dtype)) == 2 and poisons(spec(Dtype.f16)) == 1
    first, second = made(dtype, run=0), made(dtype, run=1)
    assert bool((first[2].view != second[2].view).all())
    assert torch.equal(bits_of(first[0].view), bits_of(second[0].view))


def test_copying_one_tensors_gap_onto_anothers_shows() -> None:
    x, _, d = made(Dtype.f32)
    row = min(d.view.stride(0), x.view.stride(0))
    wide = (4, row)
    d.view.as_strided(wide, d.view.stride()).copy_(x.view.as_strided(wide, x.view.stride()))
    problem = d.problem()
    assert problem is not None and "gap" in problem


@pytest.mark.parametrize(("align", "least"), [(1, 4), (4, 4), (8, 8)])
def test_a_tensor_that_starts_elsewhere_keeps_what_the_spec_says_of_it(align: int, least: int) -> None:
    case = Case("c", "", SIZES, "padded", aligned={"X": 16, "Y": 16}, shifted="X")
    first, second, _ = make_tensors(spec(Dtype.f32, align), case, "cpu")
    assert first.view.data_ptr() % 16 == least and second.view.data_ptr() % 16 == 0


def test_a_bool_that_is_neither_shows() -> None:
    out = made(Dtype.bool)[2]
    out.view.view(torch.uint8)[1, 2] = 2
    assert out.unwritten() == "D[1, 2]: a bool that is neither 0 nor 1"


def test_data_depend_on_the_seed_alone_and_suit_their_purpose() -> None:
    for dtype in Dtype:
        tensor = Tensor("X", ("M",), dtype, "M", 16)
        for kind in ("random", "integers", "special"):
            first, again = (data_for(tensor, (3000,), kind, 5) for _ in range(2))
            assert first.dtype == getattr(torch, dtype.torch)
            assert torch.equal(first.view(torch.uint8), again.view(torch.uint8))
            assert not torch.equal(bits_of(first), bits_of(data_for(tensor, (3000,), kind, 6)))
        whole = data_for(tensor, (3000,), "integers", 1).double()
        assert torch.equal(whole, whole.trunc()) and whole.abs().max() <= 4
        if dtype.is_float:
            special = data_for(tensor, (3000,), "special", 1)
            info, special = torch.finfo(special.dtype), special.double()
            tiny, lowest = info.smallest_normal, -info.max if dtype is Dtype.f8e4m3 else -math.inf
            assert bool(special.isnan().any()) and bool((special == lowest).any()) and bool((special == 0).any())
            assert bool(((special.abs() < tiny) & (special != 0)).any())
            normal = data_for(tensor, (3000,), "random", 1).double()
            assert bool((normal > 1).any()) and bool((normal < -1).any())


@pytest.mark.parametrize("kind", ["special", "rows"])
def test_rows_of_bools_are_sometimes_all_alike(kind: Data) -> None:
    tensor = Tensor("X", ("M", "N"), Dtype.bool, "N", 16)
    counts = data_for(tensor, (37, 64), kind, 1, (1,)).sum(1)
    assert {0, 1, 64} <= set(counts.tolist())
    assert ((counts > 16) & (counts < 48)).any()
    assert data_for(tensor, (37, 64), kind, 1).any(1).all(), "where rows are not reduced there are no such"


def test_scalars_are_representable_and_whole_where_results_are_exact() -> None:
    base = spec(Dtype.f32)
    scalars = tuple(Scalar(d.value, d) for d in Dtype)
    kernel = KernelSpec(
        kernel="k",
        op="elementwise",
        tensors=base.tensors,
        compute=base.compute,
        schedule=base.schedule,
        scalars=scalars,
    )
    for seed in range(20):
        for name, value in scalar_values(kernel, Case("c", "", SIZES, "compact", "integers", seed)).items():
            assert torch.tensor(value, dtype=getattr(torch, Dtype[name].torch)).item() == value == int(value)
        for name, value in scalar_values(kernel, Case("c", "", SIZES, seed=seed)).items():
            assert torch.tensor(value, dtype=getattr(torch, Dtype[name].torch)).item() == value


def test_one_distance_alone_is_uneven() -> None:
    three = spec_of_three()
    case = Case("c", "", {"M": 3, "N": 4, "K": 8}, "padded", aligned={"X": 16, "D": 16}, apart=("X", "M"))
    x, d = make_tensors(three, case, "cpu")
    assert [stride % 4 for stride in x.view.stride()] == [1, 0, 1] and x.view.data_ptr() % 16 == 0
    assert [stride % 4 for stride in d.view.stride()] == [0, 0, 1]
    other = make_tensors(three, replace(case, apart=("D", "N")), "cpu")
    assert [[stride % 4 for stride in one.view.stride()] for one in other] == [[0, 0, 1], [0, 3, 1]]


def spec_of_three() -> KernelSpec:
    tensors = tuple(Tensor(n, ("M", "N", "K"), Dtype.f32, "K", 4, role) for n, role in (("X", "in"), ("D", "out")))
    return replace(spec(Dtype.f32, 4), tensors=tensors, compute=parse_compute(["D = X"]))


@pytest.mark.parametrize("dtype", ["i64", "u32"])
def test_whole_numbers_that_coordinates_are_compared_with_lie_about_the_end(dtype: str) -> None:
    text = """
cutegen: 1
kernel: k
op: elementwise
tensors:
  t: {shape: [M], dtype: i64}
  u: {shape: [M], dtype: i64}
  D: {shape: [M, N], dtype: f32, role: out}
compute: D = where(coord(N) == t, 1, 0) + u
"""
    named = read_specs(text.replace("i64", dtype), "x.yaml")[0]
    assert compared_with(named, "t") == ("N",) and compared_with(named, "u") == ()
    case = Case("c", "", {"M": 44, "N": 77}, "padded", "rows")
    target, other, _ = make_tensors(resolve(named, Report(named.source)), case, "cpu")
    info = torch.iinfo(getattr(torch, Dtype[dtype].torch))
    nowhere = {max(-1, info.min), max(-100, info.min), info.min, info.max}
    assert {76, 77, 78, 84, 177, 1077, 2577, *nowhere} <= set(target.view.tolist())
    assert not {76, 77, 78} & set(other.view.tolist())
    (module,) = generate(text.replace("i64", dtype), "x.yaml").modules
    assert "read; values outside of 0 ... N - 1 match no coordinate along N." in module.text
    assert module.text.count("match no coordinate") == 1


def test_rows_of_one_kind_are_told_apart_in_every_part() -> None:
    """The largest number of a row that has one stands in another third of each of three rows."""
    values = data_for(Tensor("X", ("M", "N"), Dtype.f32, "N", 16), (3 * KINDS_OF_ROWS, 3000), "rows", 1, (1,))
    places = [int((row == math.inf).nonzero()[0]) for row in values if int((row == math.inf).sum()) == 1]
    assert sorted(place // 1000 for place in places) == [0, 1, 2]
