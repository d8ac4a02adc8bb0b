"""Bounds of sums and extremes along an axis: held by every order, exact where nothing can round, and not vacuous."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cutegen.dtypes import Dtype
from cutegen.reference.rounding import Bounded, overflow
from cutegen.reference.sums import extreme, product, total

NUMPY = {Dtype.f32: np.float32, Dtype.f64: np.float64}
FLOATS = st.sampled_from(sorted(NUMPY, key=str))
INF, NAN = math.inf, math.nan
LARGEST = float(np.finfo(np.float32).max)
quick = settings(deadline=None, max_examples=60)


def bounded(values: Sequence[float], dtype: Dtype, errors: Sequence[float] | float = 0.0) -> Bounded:
    """A row, along axis 1 of two."""
    kind = torch.float64 if dtype.is_float else torch.int64
    error = torch.tensor([errors] if isinstance(errors, Sequence) else [[errors]], dtype=torch.float64)
    return Bounded(torch.tensor([values], dtype=kind).reshape(1, -1), error.reshape(1, -1), dtype)


def numbers(found: Bounded) -> tuple[float, float]:
    """The sum and its error, which is one number for all sums where it is 0 for all."""
    assert found.value.shape == (1, 1) and found.error.shape in ((1, 1), ())
    return found.value.item(), found.error.item()


def inside(result: float, found: Bounded) -> bool:
    """Whether a kernel that gave this would be taken as right."""
    value, error = numbers(found)
    if error == INF:
        return True
    if math.isnan(value) or math.isinf(value):
        return result == value or (math.isnan(value) and math.isnan(result))
    return math.isfinite(result) and abs(Fraction(result) - Fraction(value)) <= Fraction(error)


def in_some_order(values: Sequence[float], kind: type, chance: random.Random) -> float:
    """The sum in one precision: any two partial sums are next, or they are added one by one, shuffled."""
    parts = [kind(x) for x in values]
    chance.shuffle(parts)
    one_by_one = chance.random() < 0.4
    with np.errstate(all="ignore"):
        while len(parts) > 1:
            i = 0 if one_by_one else chance.randrange(len(parts) - 1)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return float(parts[0])


def end(x: float, step: float) -> float:
    """x + step in float64, rounded toward x, so that it is no further from x than the step."""
    found = x + step
    return math.nextafter(found, x) if abs(Fraction(found) - Fraction(x)) > abs(Fraction(step)) else found


def single(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, width=32)


ROWS = st.one_of(
    st.lists(single(-4, 4), min_size=1, max_size=64),
    st.lists(st.one_of(single(-1, 1), single(-(2.0**40), 2.0**40)), min_size=1, max_size=40),
    st.lists(st.one_of(st.just(0.0), single(-1, 1)), min_size=1, max_size=64),
    st.lists(st.integers(-(2**22), 2**22).map(float), min_size=1, max_size=40),
    st.lists(single(-LARGEST, LARGEST), min_size=1, max_size=16),
    st.lists(st.floats(width=32), min_size=1, max_size=8),
)


@quick
@given(ROWS, FLOATS, st.integers(0, 2**32))
def test_every_order_is_within_the_bound(row: list[float], dtype: Dtype, seed: int) -> None:
    found, chance = total(bounded(row, dtype), (1,)), random.Random(seed)
    for _ in range(12):
        result = in_some_order(row, NUMPY[dtype], chance)
        assert inside(result, found), (result, numbers(found))


@quick
@example([NAN], Dtype.f32)
@given(ROWS, FLOATS)
def test_the_number_itself_is_within_the_bound(row: list[float], dtype: Dtype) -> None:
    value, error = numbers(total(bounded(row, dtype), (1,)))
    if all(map(math.isfinite, row)) and math.isfinite(value) and error < INF:
        assert abs(sum(map(Fraction, row)) - Fraction(value)) <= Fraction(error)


@quick
@example([(1.0, 1.5021063819870006e-12, 0.0)], 230)  # the sum of the two has more bits than float64
@given(st.lists(st.tuples(single(-8, 8), single(0, 1), single(-1, 1)), min_size=1, max_size=32), st.integers(0, 2**32))
def test_what_is_within_its_own_bounds_sums_to_something_within(
    row: list[tuple[float, float, float]], seed: int
) -> None:
    """Each term is somewhere in its bound, at an end of it as well where float64 has that number."""
    values, errors = [x for x, _, _ in row], [e for _, e, _ in row]
    found, chance = total(bounded(values, Dtype.f64, errors), (1,)), random.Random(seed)
    for _ in range(6):
        ends = [end(x, e * (chance.choice([-1.0, 1.0]) if chance.random() < 0.5 else f)) for x, e, f in row]
        assert inside(in_some_order(ends, np.float64, chance), found)
    assert inside(in_some_order([end(x, e) for x, e, _ in row], np.float64, chance), found)
    assert inside(in_some_order([end(x, -e) for x, e, _ in row], np.float64, chance), found)


@quick
@given(st.lists(st.integers(-(2**18), 2**18), min_size=1, max_size=64))
def test_whole_numbers_that_stay_whole_are_exact(row: list[int]) -> None:
    assert sum(map(abs, row)) <= 2**24
    assert numbers(total(bounded([float(x) for x in row], Dtype.f32), (1,))) == (float(sum(row)), 0.0)


def test_whole_numbers_are_exact_just_so_far_as_any_order_is() -> None:
    row = [2.0**24 - 2, 1.0, 1.0]
    assert numbers(total(bounded(row, Dtype.f32), (1,))) == (2.0**24, 0.0)
    row = [2.0**24, 1.0, 1.0]
    found = total(bounded(row, Dtype.f32), (1,))
    one_by_one = np.float32(row[0]) + np.float32(1) + np.float32(1)
    assert one_by_one == 2.0**24 and numbers(found)[0] == 2.0**24 + 2 and inside(float(one_by_one), found)
    assert numbers(total(bounded(row, Dtype.f64), (1,))) == (2.0**24 + 2, 0.0)


@quick
@given(single(-LARGEST, LARGEST), st.integers(0, 63), st.integers(0, 63), FLOATS)
def test_one_term_among_zeros_is_exact(x: float, before: int, after: int, dtype: Dtype) -> None:
    row = [0.0] * before + [x] + [-0.0] * after
    assert numbers(total(bounded(row, dtype), (1,))) == (x, 0.0)


def test_zeros_do_not_widen_the_bound() -> None:
    few, many = bounded([0.1, 0.7, -0.3], Dtype.f32), bounded([0.1, 0.7, -0.3] + [0.0] * 1000, Dtype.f32)
    assert numbers(total(few, (1,))) == numbers(total(many, (1,)))


def test_a_zero_that_may_be_none_counts_as_a_term() -> None:
    without = numbers(total(bounded([0.1, 0.7], Dtype.f32, [0.0, 0.0]), (1,)))[1]
    tiny = [0.0, 0.0, *[1e-30] * 60]
    assert numbers(total(bounded([0.1, 0.7] + [0.0] * 60, Dtype.f32, tiny), (1,)))[1] > 20 * without


@quick
@given(st.lists(st.tuples(single(0.5, 2), st.booleans()), min_size=2, max_size=64), st.data(), FLOATS)
def test_a_sum_that_lacks_a_term_is_outside(row: list[tuple[float, bool]], data: st.DataObject, dtype: Dtype) -> None:
    values = [-x if minus else x for x, minus in row]
    found = total(bounded(values, dtype), (1,))
    left_out = data.draw(st.integers(0, len(values) - 1))
    rest = in_some_order(values[:left_out] + values[left_out + 1 :], NUMPY[dtype], random.Random(0))
    assert numbers(found)[1] < INF and not inside(rest, found)
    twice = in_some_order([*values, values[left_out]], NUMPY[dtype], random.Random(0))
    assert not inside(twice, found)


def test_the_bound_is_near_what_an_order_reaches() -> None:
    """Of ones and a large number nearly every addition rounds the same way."""
    row = [2.0**24] + [1.0] * 63
    found = total(bounded(row, Dtype.f32), (1,))
    first = np.float32(row[0])
    for x in row[1:]:
        first = first + np.float32(x)
    off = abs(float(first) - numbers(found)[0])
    assert off == 63 <= numbers(found)[1] <= 1.1 * off


# ------------------------------------------------------------------------------------------------------ special values

SPECIAL = [
    ([INF, 1.0], INF, 0.0),
    ([-INF, 1.0, -INF], -INF, 0.0),
    ([INF, -INF, 1.0], NAN, 0.0),
    ([NAN, 1.0], NAN, 0.0),
    ([NAN, INF], NAN, 0.0),
    ([NAN, LARGEST, LARGEST], NAN, 0.0),
    ([LARGEST, LARGEST], INF, 0.0),
    ([-LARGEST, -LARGEST, -1.0], -INF, 0.0),
    ([LARGEST, LARGEST, -LARGEST], LARGEST, INF),  # the order decides
    ([INF, -LARGEST, -LARGEST], INF, INF),  # -inf first, then NaN
    ([INF, -INF, LARGEST, LARGEST], NAN, 0.0),
    ([INF, LARGEST, LARGEST], INF, 0.0),
]


@pytest.mark.parametrize(("row", "value", "error"), SPECIAL)
def test_special_values_are_known_where_every_order_agrees(row: list[float], value: float, error: float) -> None:
    found = total(bounded(row, Dtype.f32), (1,))
    results = {str(in_some_order(row, np.float32, random.Random(seed))) for seed in range(60)}
    assert (len(results) == 1) == (error == 0), "the table says what orders do"
    if error == 0 and numbers(found)[1] == 0:
        assert str(numbers(found)[0]) == str(value)
    else:  # that nothing is said is never wrong
        assert numbers(found)[1] == INF
    for result in results:
        assert inside(float(result), found)


@pytest.mark.parametrize("row", [row for row, _, error in SPECIAL[:9] if error == 0])
def test_what_is_plain_is_known(row: list[float]) -> None:
    assert numbers(total(bounded(row, Dtype.f32), (1,)))[1] == 0


def test_around_the_largest_number_nothing_is_said() -> None:
    """Half an ulp further decides between the largest number and an infinity."""
    step = LARGEST - float(np.nextafter(np.float32(LARGEST), np.float32(0)))
    for add in (0.25 * step, 0.5 * step, 0.5 * step * (1 + 2.0**-20)):
        value, error = numbers(total(bounded([LARGEST, add], Dtype.f32), (1,)))
        assert error == INF or error >= abs(LARGEST - value) or value == INF
    value, error = numbers(total(bounded([LARGEST, step], Dtype.f32, [0.0, step]), (1,)))
    assert error == INF
    assert overflow(Dtype.f32) == LARGEST + step / 2


def test_in_f64_too_an_overflow_is_known_or_nothing_is() -> None:
    largest = float(np.finfo(np.float64).max)
    assert numbers(total(bounded([largest, -largest, 1.0], Dtype.f64), (1,)))[1] == INF
    value, error = numbers(total(bounded([largest, largest], Dtype.f64), (1,)))
    assert value == INF or error == INF


def test_what_is_unknown_stays_so() -> None:
    assert numbers(total(bounded([1.0, 2.0], Dtype.f32, [0.0, INF]), (1,)))[1] == INF
    assert numbers(total(bounded([NAN, 2.0], Dtype.f32, [INF, 0.0]), (1,)))[1] == INF


def test_a_product_that_overflowed_may_be_fused_with_what_is_left() -> None:
    """An fma of it and a number of the other sign may be finite; of numbers of one sign it is not."""

    def product(*row: float) -> Bounded:
        x = bounded(row, Dtype.f32)
        return total(Bounded(x.value, x.error, x.dtype, x.value.isinf()), (1,))

    assert numbers(product(INF, -1.0))[1] == INF and numbers(product(INF, 1.0)) == (INF, 0.0)
    assert numbers(product(-INF, -1.0, 0.0)) == (-INF, 0.0) and numbers(product(-INF, 2.0))[1] == INF


def test_the_product_of_one_number_is_as_uncertain_as_that() -> None:
    """As where products go along several modes, of which the last has one element."""
    assert numbers(product(bounded([3.5], Dtype.f32, [0.25]), 1)) == (3.5, 0.25)
    assert numbers(product(bounded([0.1], Dtype.f32), 1))[1] == 0


# ------------------------------------------------------------------------------------------- whole numbers, and shapes


@quick
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20))
def test_integers_wrap_around(row: list[int]) -> None:
    with np.errstate(all="ignore"):
        wanted = int(np.array(row, np.int32).sum(dtype=np.int32))
    assert numbers(total(bounded(row, Dtype.i32), (1,))) == (wanted, 0.0)


def test_integers_that_may_differ_sum_up_their_bounds_unless_they_may_wrap() -> None:
    assert numbers(total(bounded([5, 6, 7], Dtype.i32, [1.0, 0.0, 2.0]), (1,))) == (18, 3.0)
    assert numbers(total(bounded([2**31 - 1, 0], Dtype.i32, [0.0, 1.0]), (1,)))[1] == INF


@pytest.mark.parametrize("dtype", [Dtype.f32, Dtype.f64, Dtype.i32])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_axis_is_kept_with_size_1_and_others_do_not_mix(dtype: Dtype, axis: int) -> None:
    kind = torch.float64 if dtype.is_float else torch.int64
    values = torch.arange(24).reshape(2, 3, 4).to(kind)
    x = Bounded(values, torch.zeros((), dtype=torch.float64), dtype)
    shape = [1 if i == axis else size for i, size in enumerate(values.shape)]
    found = total(x, (axis,))
    assert torch.equal(found.value, values.sum(axis, keepdim=True)) and not found.error.any()
    for function, pick in (("max", np.max), ("min", np.min)):
        picked = extreme(x, (axis,), function)
        assert list(picked.value.shape) == shape
        assert np.array_equal(picked.value.numpy(), pick(values.numpy(), axis, keepdims=True))
        assert not picked.error.any()


@pytest.mark.parametrize("dtype", [Dtype.f32, Dtype.f64, Dtype.i32, Dtype.u8, Dtype.bool])
def test_of_no_elements_there_is_what_any_other_would_replace(dtype: Dtype) -> None:
    kind = torch.float64 if dtype.is_float else torch.int64
    x = Bounded(torch.zeros(3, 0, dtype=kind), torch.zeros(1, 1, dtype=torch.float64), dtype)
    summed = total(x, (1,))
    assert summed.value.tolist() == [[0]] * 3 and summed.error.tolist() == [[0]] * 3
    low, high = (-INF, INF) if dtype.is_float else dtype.range
    for function, wanted in (("max", low), ("min", high)):
        found = extreme(x, (1,), function)
        assert found.value.tolist() == [[wanted]] * 3 and found.error.tolist() == [[0]] * 3
        assert found.dtype is dtype and found.value.dtype is kind


# ------------------------------------------------------------------------------------------------------------ extremes

FUNCTIONS = st.sampled_from(["max", "min"])
EIGHTHS = st.integers(-64, 64).map(lambda n: n / 8)  # of which nothing here rounds


@quick
@given(st.lists(st.floats(width=32), min_size=1, max_size=20), FUNCTIONS)
def test_an_extreme_of_what_is_known_is_exact(row: list[float], function: str) -> None:
    value, error = numbers(extreme(bounded(row, Dtype.f32), (1,), function))
    wanted = NAN if any(map(math.isnan, row)) else (max if function == "max" else min)(row)
    assert error == 0 and (value == wanted or math.isnan(value) and math.isnan(wanted))


@quick
@given(st.lists(st.tuples(EIGHTHS, EIGHTHS.map(abs)), min_size=1, max_size=12), FUNCTIONS, st.integers(0, 2**32))
def test_an_extreme_lies_between_those_of_the_ends(row: list[tuple[float, float]], function: str, seed: int) -> None:
    pick, chance = (max, random.Random(seed)) if function == "max" else (min, random.Random(seed))
    found = extreme(bounded([x for x, _ in row], Dtype.f64, [e for _, e in row]), (1,), function)
    for _ in range(8):
        assert inside(pick(x + e * chance.choice([-1, -0.5, 0, 1]) for x, e in row), found)
    ends = [pick(x - e for x, e in row), pick(x + e for x, e in row)]
    reach = max(abs(end - numbers(found)[0]) for end in ends)
    assert numbers(found)[1] == reach, "and no more than they reach"


def test_a_wide_bound_far_from_the_extreme_does_not_matter() -> None:
    assert numbers(extreme(bounded([9.0, 1.0], Dtype.f32, [0.0, 2.0]), (1,), "max")) == (9.0, 0.0)
    assert numbers(extreme(bounded([9.0, 1.0], Dtype.f32, [0.0, 2.0]), (1,), "min")) == (1.0, 2.0)
    assert numbers(extreme(bounded([9, 1], Dtype.i32, [0.0, 10.0]), (1,), "max")) == (9, 2.0)


@pytest.mark.parametrize("function", ["max", "min"])
def test_a_nan_wins_if_it_is_known(function: str) -> None:
    value, error = numbers(extreme(bounded([1.0, NAN, INF], Dtype.f32, [INF, 0.0, 0.0]), (1,), function))
    assert math.isnan(value) and error == 0
    assert numbers(extreme(bounded([1.0, NAN], Dtype.f32, [0.0, INF]), (1,), function))[1] == INF
    assert numbers(extreme(bounded([1.0, 2.0], Dtype.f32, [0.0, INF]), (1,), function))[1] == INF


def test_infinities_are_extremes_like_others() -> None:
    for row, most, least in (([1.0, INF], INF, 1.0), ([-INF, 2.0], 2.0, -INF), ([-INF, -INF], -INF, -INF)):
        assert numbers(extreme(bounded(row, Dtype.f32), (1,), "max")) == (most, 0.0)
        assert numbers(extreme(bounded(row, Dtype.f32), (1,), "min")) == (least, 0.0)
    assert numbers(extreme(bounded([-INF, -INF], Dtype.f32, [0.0, 0.0]), (1,), "max"))[1] == 0


@pytest.mark.parametrize("dtype", [Dtype.f32, Dtype.i32])
def test_several_axes_are_as_one(dtype: Dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    value = (torch.randn(4, 5, 6, generator=generator) * 100).to(torch.float64 if dtype.is_float else torch.int64)
    error = torch.rand(4, 5, 6, dtype=torch.float64, generator=generator).round()
    apart = Bounded(value, error, dtype)
    joined = Bounded(*(x.movedim(1, 0).reshape(5, 24) for x in (value, error)), dtype)
    for found, wanted in [
        (total(apart, (0, 2)), total(joined, (1,))),
        (extreme(apart, (0, 2), "max"), extreme(joined, (1,), "max")),
    ]:
        assert found.value.shape == (1, 5, 1)
        torch.testing.assert_close(found.value.flatten(), wanted.value.flatten(), rtol=1e-14, atol=0)
        torch.testing.assert_close(found.error.flatten(), wanted.error.flatten(), rtol=1e-12, atol=0)
