"""Backwards of random statements, held to torch's autograd in float64."""

from __future__ import annotations

import pytest
from differentiation_kit import SIZES, check, inputs, lines, run, spec_of
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cutegen.differentiation import DifferentiationError, backward
from cutegen.language.diagnostics import SpecError

TENSORS = {"X": "M,N f32", "Z": "M,N bf16", "W": "N f32", "V": "M f32", "T": "M i32"}
LEAVES = ("X", "Z", "W", "V", "a", "X", "Z", "0.5", "2", "coord(N)", "T")
ONE = ("sigmoid({})", "tanh({})", "silu({})", "gelu({})", "gelu_tanh({})", "relu({})", "abs({})", "-{}",
       "exp(tanh({}))", "log(1.5 + abs({}))", "sqrt(0.5 + ({}) ** 2)", "rsqrt(0.5 + ({}) ** 2)", "({}) ** 2",
       "({}) ** 3", "1 / (2 + ({}) ** 2)", "cast({}, bf16)", "round({})", "floor({})")  # fmt: skip
TWO = ("({} + {})", "({} - {})", "{} * {}", "({} * {})", "{} / (1.5 + abs({}))", "minimum({}, {})", "maximum({}, {})",
       "where({} > 0.25, {}, 0.5)", "where(X > V, {}, {})")  # fmt: skip
REDUCED = ("sum({}, N)", "mean({}, N)", "max({}, N)", "min({}, N)")


def trees(extra: tuple[str, ...] = (), names: tuple[str, ...] = LEAVES) -> st.SearchStrategy[str]:
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        one = st.builds(lambda form, x: form.format(x), st.sampled_from((*ONE, *extra)), inner)
        two = st.builds(lambda form, x, y: form.format(x, y), st.sampled_from(TWO), inner, inner)
        return st.one_of(one, two, two)

    return st.recursive(st.sampled_from(names), grown, max_leaves=7)


def hold(op: str, statements: list[str], seed: int, whole: bool = False) -> None:
    text = " ".join(statements)
    used = {name: said for name, said in TENSORS.items() if name in _words(text)}
    outputs = {"Y": "M,N f32 out"}
    if "H =" in text:
        outputs["H"] = "M,N f32 out"
    if "R =" in text:
        outputs["R"] = "M,N bf16 inout"
    scalars = "{a: f32}" if "a" in _words(text) else ""
    try:
        spec = spec_of(op, {**used, **outputs}, statements, scalars)
    except SpecError:
        assume(False)
    values = run(spec, inputs(spec, SIZES, seed, whole), SIZES)
    assume(all(x.double().abs().max() < 1e4 for x in values.values()))
    try:
        made = backward(spec)
    except DifferentiationError as error:
        assert "depends on" in error.message or "reads no tensor" in error.message or "different modes" in error.message
        return
    check(spec, made, seed=seed, whole=whole)


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(), trees(names=(*LEAVES, "h", "h", "h")), st.integers(0, 5))
def test_elementwise(first: str, second: str, seed: int) -> None:
    hold("elementwise", [f"h = X * {first}", f"Y = h + {second}"], seed)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(REDUCED), trees(REDUCED, (*LEAVES, "h", "h", "r")), st.sampled_from(REDUCED), st.integers(0, 5))
def test_rows(first: str, second: str, reduction: str, seed: int) -> None:
    statements = [f"h = X + {first}", f"r = {reduction.format('h * X')}", f"Y = h * r + {second}"]
    hold("rowwise", statements, seed)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(REDUCED), st.sampled_from(REDUCED), st.integers(0, 3))
def test_values_that_are_equal(tree: str, reduction: str, seed: int) -> None:
    """Of equal values torch gives to each, and so does a backward."""
    hold("rowwise", [f"h = X + {tree}", f"Y = Z * {reduction.format('h + V')}"], seed, whole=True)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(REDUCED), trees(REDUCED, (*LEAVES, "H", "H")), st.integers(0, 3))
def test_an_output_that_is_used_again(first: str, second: str, seed: int) -> None:
    hold("rowwise", [f"H = X + sigmoid({first})", f"Y = H * sum(H, N) + {second}"], seed)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(REDUCED), trees(REDUCED, (*LEAVES, "R", "R")), st.sampled_from(("", " + R * R")), st.integers(0, 3))
def test_an_input_that_is_overwritten(first: str, second: str, more: str, seed: int) -> None:
    """The updated tensor is read if it suffices, otherwise the tensor before the call."""
    hold("rowwise", [f"q = {first}{more}", f"R = R + q * {first}", f"Y = R * sum(R, N) + {second}"], seed)


def test_what_is_compared_with_an_extreme_is_computed_as_it_was_for_that() -> None:
    """`h` is Z but for its rounding, which no element of a row may differ by."""
    statements = ["h = X + (Z - X)", "r = min(h * X, N)", "Y = h * r + X"]
    check(spec_of("rowwise", {"X": TENSORS["X"], "Z": TENSORS["Z"], "Y": "M,N f32 out"}, statements))


@pytest.mark.parametrize(
    "value", ["max(abs(X), N) / 127", "max(abs(X), N) * 0.1", "-3 * min(X, N)", "max(X * Z, N) / 3", "10 * max(X, N)"]
)
def test_an_extreme_is_not_taken_from_an_output_that_is_a_multiple_of_it(value: str) -> None:
    """Divided by the factor again it may differ in its last bit, and then no element is equal to it."""
    tensors = {name: TENSORS[name] for name in ("X", "Z") if name in _words(value)} | {"s": "M f32 out"}
    spec = spec_of("rowwise", tensors, [f"s = {value}"])
    made = check(spec)
    assert not any("s" in line.split() for line in lines(made.spec))


@pytest.mark.parametrize("bound", ["clamp(Y, 0, 0.3)", "maximum(Y, Z)", "where(Y <= Z, Y, 2 * Y)"])
def test_a_bound_is_not_held_to_a_multiple_of_an_output(bound: str) -> None:
    tensors = {"X": "M,N f32", "Z": "M,N f32", "V": "M,N f32 out", "Y": "M,N f32 out"}
    statements = ["V = 3 * sigmoid(X)", f"Y = Z * {bound.replace('Y', 'sigmoid(X)')}"]
    made = check(spec_of("elementwise", tensors, statements))
    compared = [line for line in lines(made.spec) if any(sign in line for sign in ("<", ">", "=="))]
    assert compared and not any("V" in _words(line) for line in compared)


def test_a_quotient_of_whole_numbers_is_no_whole_number() -> None:
    statements = ["h = X * (1 / (2 + coord(N) ** 2) * X)", "Y = h + X"]
    check(spec_of("elementwise", {"X": TENSORS["X"], "Y": "M,N f32 out"}, statements), seed=1)


@pytest.mark.parametrize("numerator", ["coord(N)", "X"])
def test_a_quotient_says_nothing_of_its_divisor_where_it_is_0(numerator: str) -> None:
    """Whole numbers of which some are 0, so that the quotient over its numerator is no number."""
    tensors = {name: TENSORS[name] for name in ("X", "Z")} | {"R": "M,N bf16 inout", "Y": "M,N f32 out"}
    quotient = f"{numerator} / (1.5 + abs(Z))"
    statements = [f"q = {quotient}", f"R = R + q * {quotient}", "Y = R * sum(R, N) + X / (1.5 + abs(Z))"]
    check(spec_of("rowwise", tensors, statements), whole=True)


@pytest.mark.parametrize("function", ("maximum", "minimum"))
def test_ties_of_two(function: str) -> None:
    spec = spec_of("elementwise", {"X": "N f32", "Z": "N f32", "Y": "N f32 out"}, [f"Y = {function}(X, Z)"])
    sizes = {"N": 64}
    values = inputs(spec, sizes, 3, whole=True)
    assert (values["X"] == values["Z"]).any()
    check(spec, whole=True, seed=3, sizes=sizes)
