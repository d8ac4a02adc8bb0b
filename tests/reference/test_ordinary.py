"""The quick paths of the reference: what they give is what the full formulas give, bit for bit, whatever the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sweep_kit import sampled

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.rowwise.schedule import RowwiseSchedule
from cutegen.language.model import KernelSpec, Tensor
from cutegen.reference import arithmetic, casting, in_parts, ordinary, sums
from cutegen.reference.bounds import Expected, evaluate
from cutegen.reference.rounding import Bounded, half_subnormal, overflow, rounded
from cutegen.verification.compare import compare
from cutegen.verification.data import data_for

KINDS = ("ordinary", "whole", "small", "large", "mixed", "special", "infinite", "NaN", "zero")
ERRORS = ("known", "exact", "relative", "some", "large", "unknown", "any")
NARROW = (Dtype.f32, Dtype.bf16, Dtype.f16)


def values_of(kind: str, shape: tuple[int, ...], dtype: Dtype, chance: torch.Generator) -> torch.Tensor:
    normal = torch.randn(shape, generator=chance, dtype=torch.float64)
    top = overflow(dtype)
    special = torch.tensor(
        [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, top / 2, -top / 2, top * 0.999, math.sqrt(top)]
        + [half_subnormal(dtype) * 2, -half_subnormal(dtype) * 6, 3.0, -3.0],
        dtype=torch.float64,
    )
    chosen = special[torch.randint(len(special), shape, generator=chance)]
    few = torch.rand(shape, generator=chance) < 0.15
    found = {
        "ordinary": normal,
        "whole": (normal * 20).round(),
        "small": normal * half_subnormal(dtype) * 8,
        "large": normal * math.sqrt(top),
        "mixed": torch.where(few, chosen, normal),
        "special": chosen,
        "infinite": torch.full(shape, -math.inf, dtype=torch.float64),
        "NaN": torch.full(shape, math.nan, dtype=torch.float64),
        "zero": torch.zeros(shape, dtype=torch.float64),
    }[kind]
    return rounded(found, dtype)


def errors_of(kind: str, value: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    if kind == "known":
        return torch.zeros((), dtype=torch.float64)
    relative = value.abs().nan_to_num(1.0, 1.0) * 2.0**-20 + 2.0**-140
    some = torch.rand(value.shape, generator=chance)
    found = {
        "exact": torch.zeros_like(value),
        "relative": relative,
        "some": torch.where(some < 0.5, 0.0, relative),
        "large": value.abs().nan_to_num(1.0, 1.0) * 2 + 1,
        "unknown": torch.full_like(value, math.inf),
        "any": torch.where(some < 0.2, math.inf, torch.where(some < 0.4, 0.0, torch.where(some < 0.6, 3.0, relative))),
    }
    return found[kind]


def same(found: Bounded, wanted: Bounded) -> None:
    """That two are alike to the last bit, but for those of a NaN."""
    assert found.dtype is wanted.dtype and found.value.shape == wanted.value.shape
    assert torch.equal(found.value.nan_to_num(123.0), wanted.value.nan_to_num(123.0))
    for kept in (torch.isnan, torch.isinf, torch.signbit):
        numbers = ~wanted.value.isnan() if kept is torch.signbit else torch.ones_like(wanted.value, dtype=torch.bool)
        assert torch.equal(kept(found.value)[numbers], kept(wanted.value)[numbers])
    shape = wanted.value.shape
    assert torch.equal(found.error.expand(shape), wanted.error.expand(shape))
    none = torch.zeros_like(wanted.value)
    overflowed, due = (none if x.overflowed is None else x.overflowed.expand(shape) for x in (found, wanted))
    assert torch.equal(overflowed, due)


operands = st.tuples(st.sampled_from(KINDS), st.sampled_from(ERRORS))
OPERATIONS: dict[str, tuple[Callable[..., Bounded], Callable[..., Bounded]]] = {
    "add": (arithmetic.add, arithmetic.add_fully),
    "subtract": (
        lambda a, b, dtype: arithmetic.add(a, b, dtype, -1),
        lambda a, b, dtype: arithmetic.add_fully(a, b, dtype, -1),
    ),
    "multiply": (arithmetic.multiply, arithmetic.multiply_fully),
    "divide": (arithmetic.divide, arithmetic.divide_fully),
}


@pytest.mark.parametrize("name", OPERATIONS)
@settings(deadline=None, max_examples=120)
@given(
    left=operands,
    right=operands,
    dtype=st.sampled_from(NARROW),
    narrow=st.sampled_from([(6, 40), (6, 1), (1, 40), (1, 1), ()]),
    seed=st.integers(0, 2**20),
)
def test_an_operation_of_two_sides_gives_what_its_full_formula_does(
    name: str, left: tuple[str, str], right: tuple[str, str], dtype: Dtype, narrow: tuple[int, int], seed: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    a, b = values_of(left[0], (6, 40), dtype, chance), values_of(right[0], narrow, dtype, chance)
    sides = [Bounded(a, errors_of(left[1], a, chance), dtype), Bounded(b, errors_of(right[1], b, chance), dtype)]
    sides = sides[::-1] if seed % 2 else sides
    quickly, fully = OPERATIONS[name]
    before = [replace(x, value=x.value.clone(), error=x.error.clone()) for x in sides]
    same(quickly(*sides, dtype), fully(*sides, dtype))
    for side, was in zip(sides, before, strict=True):
        same(side, was)  # nothing is written to what may be used again


@settings(deadline=None, max_examples=120)
@given(kind=operands, wide=st.sampled_from(NARROW), dtype=st.sampled_from(NARROW), seed=st.integers(0, 2**20))
def test_a_conversion_gives_what_its_full_formula_does(
    kind: tuple[str, str], wide: Dtype, dtype: Dtype, seed: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    value = values_of(kind[0], (6, 40), wide, chance)
    x = Bounded(value, errors_of(kind[1], value, chance), wide)
    if dtype is not wide and dtype is not Dtype.f32:
        before = replace(x, value=x.value.clone(), error=x.error.clone())
        same(casting.cast(x, dtype), casting.cast_fully(x, dtype))
        same(x, before)


@settings(deadline=None, max_examples=120)
@given(
    kinds=st.lists(operands, min_size=1, max_size=4),
    dtype=st.sampled_from(NARROW),
    axis=st.sampled_from([(1,), (0,), (0, 2), (1, 2), (2,), (0, 1, 2)]),
    most=st.sampled_from([None, 3]),
    seed=st.integers(0, 2**20),
)
@example(kinds=[("whole", "known"), ("ordinary", "known")], dtype=Dtype.f32, axis=(1, 2), most=None, seed=0)
@example(kinds=[("ordinary", "known")] * 2 + [("mixed", "known")], dtype=Dtype.f32, axis=(0, 2), most=None, seed=1238)
def test_a_sum_gives_what_its_full_formula_does(
    kinds: list[tuple[str, str]], dtype: Dtype, axis: tuple[int, ...], most: int | None, seed: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    rows = [values_of(kind, (1, 5, 9), dtype, chance) for kind, _ in kinds]
    value = torch.cat(rows)
    known = all(error == "known" for _, error in kinds)
    errors = [errors_of(error, row, chance).expand_as(row) for (_, error), row in zip(kinds, rows, strict=True)]
    x = Bounded(value, torch.zeros((), dtype=torch.float64) if known else torch.cat(errors), dtype)
    found, wanted = sums.total(x, axis, most), sums.total_fully(x, axis, most)
    assert torch.equal(found.error.isinf(), wanted.error.isinf()) and torch.equal(found.error == 0, wanted.error == 0)
    tiny = float(half_subnormal(Dtype.f64))
    torch.testing.assert_close(found.error, wanted.error, rtol=1e-13, atol=tiny, equal_nan=True)
    # Rows are added up in another order: what cancels leaves what rounding leaves of its largest terms
    terms = value.abs().nan_to_num(0.0, 0.0, 0.0).sum(axis, keepdim=True).expand_as(wanted.value)
    near = (found.value - wanted.value).abs() <= 1e-13 * terms + tiny
    alike = (found.value == wanted.value) | (found.value.isnan() & wanted.value.isnan())
    assert (near | alike).all()


def test_ordinary_numbers_are_not_computed_fully() -> None:
    chance = torch.Generator().manual_seed(5)
    a, b = (values_of("ordinary", (4, 9), Dtype.f32, chance) for _ in range(2))

    def fully(*operands: Bounded) -> Bounded:
        raise AssertionError(f"{operands} are no ordinary numbers")

    for error in ("known", "relative"):
        x, y = (Bounded(v, errors_of(error, v, chance), Dtype.f32) for v in (a, b))
        ordinary.total(y, (1,), None, fully)
        y.value[1, 2] = math.nan
        if error != "known":
            y.error[1, 2] = 0
        ordinary.add(x, y, Dtype.f32, 1, fully)
        ordinary.multiply(x, y, Dtype.f32, fully)
        ordinary.divide(y, x, Dtype.f32, fully)
        ordinary.cast(y, Dtype.bf16, fully)
        y.value[1, 2] = 1.0


@pytest.mark.parametrize(("kind", "name"), sampled(product(KINDS, OPERATIONS), 5))  # all kinds, and all names
def test_one_number_that_tells_nothing_decides_all_results_at_once(name: str, kind: str) -> None:
    quickly, fully = OPERATIONS[name]
    chance = torch.Generator().manual_seed(7)
    x = values_of(kind, (4, 9), Dtype.f32, chance)
    for error in ERRORS:
        a = Bounded(x, errors_of(error, x, chance), Dtype.f32)
        for number, known in ((math.nan, 0.0), (3.0, math.inf), (0.0, math.inf), (math.nan, math.inf)):
            one = Bounded(*(torch.full((1, 1), n, dtype=torch.float64) for n in (number, known)), Dtype.f32)
            for sides in ((a, one), (one, a)):
                found = quickly(*sides, Dtype.f32)
                same(found, fully(*sides, Dtype.f32))
                if not known:
                    assert found.known and found.value.stride() == (0, 0)
                    same(casting.cast(found, Dtype.bf16), casting.cast_fully(found, Dtype.bf16))
                    same(sums.total(found, (1,)), sums.total_fully(found, (1,)))


def test_a_sum_with_a_number_that_tells_nothing_is_not_computed_fully() -> None:
    def fully(*operands: object) -> Bounded:
        raise AssertionError(f"{operands} are summed fully")

    value = values_of("ordinary", (3, 9), Dtype.f32, torch.Generator().manual_seed(3))
    x = Bounded(value, torch.zeros_like(value), Dtype.f32)
    x.value[0, 2], x.error[1, 3] = math.nan, math.inf
    found = ordinary.total(x, (1,), None, fully)
    same(found, sums.total_fully(x, (1,)))
    assert found.error.flatten().tolist()[:2] == [0.0, math.inf]


# ------------------------------------------------------------------------------------------------------ in parts

COMPUTED = (
    "Y = X * rsqrt(mean(X * X, N) + 0.001) * W",
    "Y = exp(X - max(X, N)) / sum(exp(X - max(X, N)), N)",
    "Y = where(X > W, X * W, cast(coord(M), f32) - X)",
    "Y = X * W",
    "Y = X",
)


def of_rows(text: str) -> KernelSpec:
    x, y = (Tensor(name, ("M", "N"), Dtype.bf16, "N", 2, role) for name, role in (("X", "in"), ("Y", "out")))
    w = Tensor("W", ("N",), Dtype.bf16, "N", 2)
    tensors = (x, w, y) if "W" in text else (x, y)
    compute, schedule = parse_compute(text), RowwiseSchedule()
    return KernelSpec(kernel="k", op="rowwise", tensors=tensors, compute=compute, schedule=schedule)


@pytest.mark.parametrize(  # every third one is of each text, and of each kind
    ("kind", "text"), sampled(product(["random", "integers", "special", "rows", "magnitudes"], COMPUTED))
)
def test_parts_give_what_the_whole_gives(text: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = of_rows(text)
    given = {t.name: data_for(t, (37, 50)[-len(t.shape) :], kind, 3, (1,)[: len(t.shape) - 1]) for t in spec.inputs}
    monkeypatch.setattr(in_parts, "ELEMENTS", 1 << 30)
    whole = evaluate(spec, given, {})["Y"]
    for elements in (1, 130, 600):
        monkeypatch.setattr(in_parts, "ELEMENTS", elements)
        assert len(in_parts.parts(spec, {"M": 37, "N": 50})[1]) > 1
        alike(evaluate(spec, given, {})["Y"], whole)


def alike(found: Expected, wanted: Expected) -> None:
    """That what is expected is the same, and that results are judged alike, those beside a bound too."""
    assert found.signed == wanted.signed and (found.moved is None) == (wanted.moved is None)
    assert found.moved is None or torch.equal(found.moved.view(torch.int16), wanted.moved.view(torch.int16))  # type: ignore[union-attr]
    assert torch.equal(found.bound.isfinite(), wanted.bound.isfinite())
    torch.testing.assert_close(found.value, wanted.value, rtol=1e-13, atol=1e-300, equal_nan=True)
    torch.testing.assert_close(found.bound, wanted.bound, rtol=1e-9, atol=1e-300)
    nearest = wanted.value.to(torch.bfloat16)
    for steps in (0, 1, -1, 3):
        result = (nearest.view(torch.int16) + steps).view(torch.bfloat16)
        verdicts = [compare(result, *one) for one in (found, wanted)]
        assert [v.ok for v in verdicts] == [verdicts[0].ok] * 2
        assert verdicts[0].failed == verdicts[1].failed and verdicts[0].unbounded == verdicts[1].unbounded


def test_a_mode_is_cut_only_where_its_coordinates_are_computed_apart() -> None:
    sizes = {"M": 1 << 12, "N": 1 << 12}
    assert in_parts.parts(of_rows("Y = X * mean(X, N)"), sizes)[0] == "M"
    mode, cut = in_parts.parts(of_rows("Y = X * mean(mean(X, N), M)"), sizes)
    assert not cut
    mode, cut = in_parts.parts(of_rows("Y = X * max(X, M)"), sizes)
    assert mode == "N" and [i for part in cut for i in part] == list(range(1 << 12))
    assert not in_parts.parts(of_rows("Y = X * mean(X, N)"), {"M": 1, "N": 1 << 20})[1]


def test_on_a_gpu_parts_are_as_large_as_keep_it_busy() -> None:
    spec, sizes = of_rows("Y = X * mean(X, N)"), {"M": 1 << 14, "N": 1 << 12}
    (_, here), (_, there) = in_parts.parts(spec, sizes), in_parts.parts(spec, sizes, on_gpu=True)
    assert (len(here), len(there)) == ((1 << 26) // in_parts.ELEMENTS, (1 << 26) // in_parts.GPU_ELEMENTS)
    assert [i for part in there for i in part] == list(range(1 << 14))
