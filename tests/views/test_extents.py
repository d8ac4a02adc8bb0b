"""Sizes that are computed of modes: polynomials, whose questions hold for all sizes."""

from __future__ import annotations

import random

import pytest

from cutegen.views.extents import Extent, ExtentError, extent, is_computed, mode, number, size_of

TEXTS = ("2*N", "N", "3", "HQ + 2*HK", "(HQ + 2*HK)*D", "N*(M - 1) + 4", "2*N - N", "M*M", "6*N + 4*M", "0")
MODES = ("M", "N", "D", "HQ", "HK")


def some_sizes(number: random.Random) -> dict[str, int]:
    return {name: number.randint(0, 9) for name in MODES}


@pytest.mark.parametrize("text", TEXTS)
def test_a_size_is_what_python_computes(text: str) -> None:
    numbers = random.Random(1)
    for _ in range(20):
        sizes = some_sizes(numbers)
        wanted = eval(text, {}, dict(sizes))
        assert extent(text).at(sizes) == size_of(text, sizes) == wanted
        assert eval(extent(text).text(), {}, dict(sizes)) == wanted
        known = {name: sizes[name] for name in MODES[::2]}
        assert extent(text).knowing(known).at({name: sizes[name] for name in MODES[1::2]}) == wanted


def test_equal_sizes_are_equal() -> None:
    assert extent("2*N - N") == mode("N") and extent("(A + B)*2") == extent("2*B + 2*A")
    assert extent("N*M") == extent("M*N") and extent("N + N") != extent("N*N")
    assert extent("N - N") == Extent() == number(0) and extent("N - N").constant == 0


@pytest.mark.parametrize("text", TEXTS)
def test_a_quotient_is_rounded_up_and_a_divisor_divides(text: str) -> None:
    numbers = random.Random(2)
    for step in (1, 2, 3, 4):
        found = extent(text).quotient(step)
        divisors = {name: numbers.choice((1, 2, 4, 8)) for name in MODES}
        divisor = extent(text).divisor(divisors)
        for _ in range(10):
            sizes = {name: numbers.randint(0, 5) * divisors[name] for name in MODES}
            value = extent(text).at(sizes)
            assert value % divisor == 0 if divisor else value == 0
            if found is not None:
                assert found.at(sizes) == -(-value // step)
    assert extent("2*N").quotient(2) == mode("N") and extent("2*N - 1").quotient(2) == mode("N")
    assert extent("3*N").quotient(2) is None


def test_a_mode_that_is_taken_from_a_size() -> None:
    assert extent("(HQ + 2*HK)*D").linear_in("HQ") == (mode("D"), extent("2*HK*D"))
    assert extent("N*N").linear_in("N") is None
    factor, rest = extent("2*N + 4").linear_in("N") or (None, None)
    assert (factor, rest) == (number(2), number(4))


@pytest.mark.parametrize("text", ["N/2", "f(N)", "N[0]", "2.5*N", "True", "", "N +", "'x'", "-N"])
def test_other_texts_are_no_sizes(text: str) -> None:
    with pytest.raises(ExtentError, match="is not a size"):
        extent(text)


def test_names_and_a_one_are_not_computed() -> None:
    assert [item for item in ("N", "1", "3", "2*N", "N_1") if is_computed(item)] == ["3", "2*N"]
    with pytest.raises(KeyError):
        size_of("2*N", {"M": 3})
