"""Reductions in `compute`: what is parsed, where an error points, how they are typed, and the modes of what is left."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.errors import ExpressionError
from cutegen.expressions.parsing import (
    REDUCTIONS,
    Binary,
    Cast,
    Expr,
    Literal_,
    Name,
    Reduce,
    parse,
    parse_compute,
    reductions,
    uses,
    walk,
)
from cutegen.expressions.spans import span, spans_of

KINDS = tuple(Dtype)


@pytest.mark.parametrize("function", REDUCTIONS)
def test_a_reduction_has_a_value_a_mode_and_its_places(function: str) -> None:
    text = f"Y = 2 + {function}(ä * X, N)"
    value = parse(text).value
    assert isinstance(value, Binary)
    (found,) = reductions(value)
    assert (found.function, found.mode) == (function, "N")
    assert text[found.place.start : found.place.end] == f"{function}(ä * X, N)"
    assert text[found.mode_place.start : found.mode_place.end] == "N"
    assert found.children == (found.x,) and isinstance(found.x, Binary)


def test_a_mode_is_no_name_that_is_read() -> None:
    statement = parse("Y = X - max(X + b, N) / sum(s, K)")
    assert statement.names() == ("X", "b", "s")
    assert [name for name, _ in uses(statement.value)] == ["X", "X", "b", "s"]


def test_outer_reductions_come_before_those_in_what_they_reduce() -> None:
    value = parse("Y = sum(exp(X - max(X, N)), N) * min(X, N)").value
    assert [reduction.function for reduction in reductions(value)] == ["sum", "max", "min"]
    assert [node.function for node in walk(value) if isinstance(node, Reduce)] == ["sum", "max", "min"]


def test_the_text_is_normalised_and_gives_the_same_tree_again() -> None:
    statement = parse("Y=X-sum( exp( X ),N )")
    assert statement.text == "Y = X - sum(exp(X), N)" and parse(statement.text) == statement


@pytest.mark.parametrize("function", REDUCTIONS)
@pytest.mark.parametrize("arguments", ["", "X", "X, 1", "X, -1", "X, X + 1", "X, M, M", "X, 'N'", "X, (N)(M)"])
def test_what_lacks_a_value_or_a_mode_is_refused_as_a_whole(function: str, arguments: str) -> None:
    text = f"Y = 1 + {function}({arguments})"
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert text[caught.value.place.start : caught.value.place.end] == f"{function}({arguments})"
    assert "a value and the mode" in caught.value.message
    assert caught.value.help is not None and caught.value.help.startswith(f"write it as `{function}(x, N)`")
    of_two = {"max": "`maximum(x, y)`", "min": "`minimum(x, y)`"}
    assert all((words in caught.value.help) == (function == name) for name, words in of_two.items())


@pytest.mark.parametrize(
    ("text", "at", "words", "help"),
    [
        ("Y = sum(X, dim=N)", "sum(X, dim=N)", "no keyword arguments", ""),
        ("Y = X.sum(N)", "X.sum", "called by its name alone", "write it as `sum(x, N)`"),
        ("Y = X.amax(N)", "X.amax", "`amax` is not in the language", "max(x, N)"),
        ("Y = sun(X, N)", "sun", "unknown function `sun`", "did you mean `sum`?"),
        ("Y = softmax(X)", "softmax", "`softmax` is not in the language", "sum(e, N)"),
        ("Y = cummax(X, N)", "cummax", "not among the reductions", "sum, mean, max, min, prod"),
    ],
)
def test_what_is_written_like_elsewhere_is_told_what_to_write(text: str, at: str, words: str, help: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert words in caught.value.message and help in (caught.value.help or "")
    assert text[caught.value.place.start : caught.value.place.end] == at


def test_several_modes_are_one_reduction_after_another() -> None:
    assert parse("Y = mean(X, M, B)").value == parse("Y = mean(mean(X, B), M)").value
    with pytest.raises(ExpressionError):
        parse("Y = argmax(X, M, B)")


def test_reductions_that_nest_too_deep_are_refused() -> None:
    with pytest.raises(ExpressionError, match="nests deeper"):
        parse("Y = " + "sum(" * 70 + "X" + ", N)" * 70)


# --------------------------------------------------------------------------------------------------------------- types


def typed(text: str, kind: Dtype, accumulator: Dtype | None = None) -> Expr:
    """The type in which a local value is computed, for X of a kind."""
    first, *_ = annotate(parse_compute([f"v = {text}", "Y = v"]), {"X": kind}, accumulator)
    return first.value


FLOATING = ("mean", "var", "std", "logsumexp")
TRUTHS, PLACES = ("any", "all"), ("argmax", "argmin")
VALUES = [function for function in REDUCTIONS if function not in (*TRUTHS, *PLACES)]


@pytest.mark.parametrize("function", VALUES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_reduction_happens_in_the_type_that_arithmetic_has(function: str, kind: Dtype) -> None:
    """f16 and bf16 in f32, small integers and bool in i32; a mean of whole numbers is none of them."""
    wide = {Dtype.f64: Dtype.f64, Dtype.f32: Dtype.f32, Dtype.f16: Dtype.f32, Dtype.bf16: Dtype.f32}
    wide |= {Dtype.f8e4m3: Dtype.f32, Dtype.f8e5m2: Dtype.f32}
    whole = {Dtype.i64: Dtype.i64, Dtype.u32: Dtype.i64}
    wanted = wide.get(kind, Dtype.f32 if function in FLOATING else whole.get(kind, Dtype.i32))
    found = typed(f"{function}(X, N)", kind)
    assert isinstance(found, Reduce) and found.dtype is wanted and found.x.dtype is wanted
    if kind is wanted:
        assert isinstance(found.x, Name)
    else:
        assert isinstance(found.x, Cast) and not found.x.explicit and found.x.x.dtype is kind


@pytest.mark.parametrize("function", VALUES)
def test_numbers_and_what_is_cast_have_types_too(function: str) -> None:
    whole = Dtype.f32 if function in FLOATING else Dtype.i32
    assert typed(f"{function}(X > 0, N)", Dtype.f64).dtype is whole
    assert typed(f"{function}(coord(N), N)", Dtype.f64).dtype is whole
    assert typed(f"{function}(cast(X, f16), N)", Dtype.f64).dtype is Dtype.f32
    assert typed(f"cast({function}(X, N), f16)", Dtype.f32).dtype is Dtype.f16
    assert typed(f"X / {function}(X, N)", Dtype.i8).dtype is Dtype.f32
    assert typed(f"{function}(X, N) + 1.5", Dtype.f64).dtype is Dtype.f64


@pytest.mark.parametrize("function", VALUES)
def test_a_number_of_what_is_reduced_takes_the_type_of_what_it_meets(function: str) -> None:
    found = typed(f"{function}(X + 1, N)", Dtype.f16)
    assert isinstance(found, Reduce) and isinstance(found.x, Binary)
    assert isinstance(found.x.right, Literal_) and found.x.right.dtype is Dtype.f32


@pytest.mark.parametrize("kind", KINDS)
def test_places_are_whole_numbers_and_questions_have_answers(kind: Dtype) -> None:
    for function in (*TRUTHS, *PLACES):
        found = typed(f"{function}(X, N)", kind)
        assert isinstance(found, Reduce) and found.dtype is (Dtype.bool if function in TRUTHS else Dtype.i32)
        assert found.x.dtype is kind.compute


def test_a_reduction_is_no_condition_unless_it_is_compared() -> None:
    with pytest.raises(ExpressionError, match="a condition is needed here, not i32") as caught:
        typed("where(max(X, N), 1, 2)", Dtype.bool)
    assert caught.value.help == "compare it: `x != 0`"
    assert typed("where(max(X, N) != 0, 1, 2)", Dtype.bool).dtype is Dtype.i32


@pytest.mark.parametrize("function", VALUES)
@pytest.mark.parametrize("out", KINDS)
def test_what_is_stored_of_a_float_is_narrowed_only_where_that_is_asked_for(function: str, out: Dtype) -> None:
    compute, types = parse_compute(f"Y = {function}(X, N)"), {"X": Dtype.f16, "Y": out}
    if not out.is_float:
        with pytest.raises(ExpressionError, match="compute gives f32"):
            annotate(compute, types)
        return
    (statement,) = annotate(compute, types)
    assert statement.stored is not None and statement.stored.dtype is out
    assert statement.value.dtype is Dtype.f32 and (statement.stored is statement.value) == (out is Dtype.f32)


# --------------------------------------------------------------------------------------------------------------- modes

SHAPES = {"X": ("B", "M", "N"), "w": ("N",), "r": ("B", "M"), "c": ("B",)}


@pytest.mark.parametrize(
    ("text", "modes"),
    [
        ("X", "BMN"),
        ("w * 2", "N"),
        ("3.0", ""),
        ("alpha + 1", ""),
        ("coord(M)", "M"),
        ("-(r + coord(N))", "BMN"),
        ("sum(X, N)", "BM"),
        ("sum(X, M)", "BN"),
        ("max(w, N)", ""),
        ("w - max(w, N)", "N"),
        ("sum(X - max(X, N), N)", "BM"),
        ("sum(sum(X, N), M)", "B"),
        ("mean(w * r, N)", "BM"),
        ("where(r > c, exp(w), 0)", "BMN"),
        ("cast(sum(coord(N), N), f16) + c", "B"),
        ("sum(r, N)", "BM"),  # nothing to reduce: the op says so
        ("not (w > 0 and c > 0)", "BN"),
    ],
)
def test_an_expression_differs_along_the_modes_of_what_it_is_made_of(text: str, modes: str) -> None:
    spans = {name: frozenset(shape) for name, shape in SHAPES.items()}
    assert span(parse(f"Y = {text}").value, spans) == frozenset(modes)


def test_a_product_has_the_modes_that_only_one_of_both_has() -> None:
    spans = {"A": frozenset("MK"), "B": frozenset("NK")}
    assert span(parse("C = relu(A @ B.T)").value, spans) == frozenset("MN")


def test_what_is_assigned_stands_for_what_was_computed() -> None:
    compute = parse_compute(["m = max(X, N)", "Y = m", "Z = X - Y", "v = w * sum(Z, N)"])
    found = spans_of(compute, {**SHAPES, "Y": ("B", "M", "N"), "Z": ("B", "M", "N")})
    assert found["m"] == frozenset("BM")
    assert found["Y"] == frozenset("BM"), "a tensor with more modes holds the same along N"
    assert found["Z"] == frozenset("BMN") and found["v"] == frozenset("BMN")
    assert found["w"] == frozenset("N") and found["c"] == frozenset("B")


def test_locals_of_annotated_statements_are_known_too() -> None:
    types = {"X": Dtype.f32, "Y": Dtype.f32}
    first, second = annotate(parse_compute(["e = exp(X)", "Y = e / sum(e, N)"]), types)
    spans = {"X": frozenset("MN"), "e": frozenset("MN")}
    assert span(second.value, spans) == frozenset("MN") and span(first.value, spans) == frozenset("MN")


EXPRESSIONS = st.recursive(
    st.sampled_from(["X", "w", "r", "c", "s", "coord(N)"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(REDUCTIONS), inner, st.sampled_from("BMN")).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda t: f"exp({t})"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_modes_and_types_of_any_expression_follow_from_its_parts(text: str) -> None:
    """By an evaluation on the shapes that numbers of each tensor have: what has size 1 does not differ."""
    sizes, order = {"B": 2, "M": 3, "N": 5}, "BMN"

    def shaped(modes: tuple[str, ...]) -> torch.Tensor:
        return torch.zeros([sizes[m] if m in modes else 1 for m in order])

    def reduced(x: torch.Tensor, mode: str) -> torch.Tensor:
        return x.sum(order.index(mode), keepdim=True)

    names = {name: shaped(shape) for name, shape in SHAPES.items()} | {mode: mode for mode in order} | {"s": shaped(())}
    names |= dict.fromkeys(REDUCTIONS, reduced) | {"exp": torch.exp, "coord": shaped}
    shape = eval(text, {}, names).shape  # the text is our own: these names and signs
    statement = parse(f"Y = {text}")
    found = span(statement.value, {name: frozenset(modes) for name, modes in SHAPES.items()})
    assert found == {mode for mode, size in zip(order, shape, strict=True) if size > 1}
    (value,) = annotate(parse_compute(f"Y = cast({text}, f64)"), dict.fromkeys((*SHAPES, "s", "Y"), Dtype.f16))
    for node in walk(value.value):
        if isinstance(node, Reduce):
            assert node.x.dtype is node.x.dtype.compute  # type: ignore[union-attr]
            assert node.dtype is node.x.dtype or node.function in (*TRUTHS, *PLACES)
