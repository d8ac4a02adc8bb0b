"""`compute`: what is parsed, how it is typed, and where an error points."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import (
    FUNCTIONS,
    Assignment,
    Binary,
    Call,
    Cast,
    Coord,
    Expr,
    ExpressionError,
    Literal_,
    Local,
    MatMul,
    Name,
    NumberError,
    Unary,
    annotate,
    parse,
    parse_compute,
    product_place,
    uses,
    walk,
)


def show(node: Expr) -> str:
    """The tree in prefix form, with types once it has them: an own printer, so that nothing checks itself."""
    kind = f":{node.dtype.value}" if node.dtype else ""
    match node:
        case Literal_():
            return f"{node.value!r}{kind}"
        case Name():
            return f"{node.id}{kind}"
        case Local():
            return f"${node.id}{kind}"
        case Coord():
            return f"coord({node.mode}){kind}"
        case MatMul():
            return f"({node.a}@{node.b}){kind}"
        case Unary():
            return f"{node.op}({show(node.x)}){kind}"
        case Binary():
            return f"({show(node.left)} {node.op} {show(node.right)}){kind}"
        case Cast():
            return f"{'cast' if node.explicit else 'to'}({show(node.x)}){kind}"
        case Call():
            return f"{node.function}({', '.join(map(show, node.arguments))}){kind}"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("D = S", "S"),
        ("D = 1 + 2.5", "(1 + 2.5)"),
        ("D = a - b - c", "((a - b) - c)"),
        ("D = a + b * c", "(a + (b * c))"),
        ("D = -a ** 2", "-((a ** 2))"),
        ("D = +a", "a"),
        ("D = a < b <= c", "((a < b) and (b <= c))"),
        ("D = a and b and c", "((a and b) and c)"),
        ("D = not a or b == c", "(not(a) or (b == c))"),
        ("D = where(a != 0, exp(a), True)", "where((a != 0), exp(a), True)"),
        ("D = cast(a, bf16) / b", "(cast(a):bf16 / b)"),
        ("C = alpha * (A @ B.T) + beta * C", "((alpha * (A@B)) + (beta * C))"),
    ],
)
def test_trees(text: str, tree: str) -> None:
    assert show(parse(text).value) == tree


def test_the_text_is_normalised_and_stable() -> None:
    assignment = parse("C=alpha*(A@B.T)  +1e-3")
    assert assignment.text == "C = alpha * (A @ B.T) + 0.001"
    assert parse(assignment.text) == assignment


def test_names_and_their_places() -> None:
    text = "C = alpha * (A @ Bee.T) + C"
    assignment = parse(text)
    assert assignment.names() == ("alpha", "A", "Bee", "C")
    assert [(name, text[place.start : place.end]) for name, place in uses(assignment.value)] == [
        (name, name) for name in ("alpha", "A", "Bee", "C")
    ]
    assert (assignment.target_place.start, assignment.target_place.end) == (0, 1)


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("", "", "one assignment"),
        ("A + B", "A + B", "one assignment"),
        ("C = A; D = B", "C = A; D = B", "one assignment"),
        ("C += A", "C += A", "one assignment"),
        ("C = D = A", "C = D = A", "assign to one tensor"),
        ("C.x = A", "C.x = A", "assign to one tensor"),
        ("C = A.x", "A.x", "`A.x` is not supported"),
        ("C = A[0]", "A[0]", "not supported"),
        ("C = 'x'", "'x'", "not supported"),
        ("C = 1j", "1j", "not supported"),
        ("C = A // B", "A // B", "not supported"),
        ("C = A if B else C", "A if B else C", "not supported"),
        ("C = lambda: 1", "lambda: 1", "not supported"),
        ("C = (D := A)", "D := A", "not supported"),
        ("C = [x for x in A]", "[x for x in A]", "not supported"),
        ("C = f'{A}'", "f'{A}'", "not supported"),
        ("C = A.exp()", "A.exp", "named functions"),
        ("C = __import__('os')", "__import__", "unknown function"),
        ("C = A + exq(A)", "exq", "unknown function `exq`"),
        ("C = exp(A, A)", "exp(A, A)", "takes 1 argument, not 2"),
        ("C = where(A)", "where(A)", "takes 3 arguments, not 1"),
        ("C = exp(x=A)", "exp(x=A)", "keyword"),
        ("C = exp(*A)", "*A", "not supported"),
        ("C = cast(A, fp8)", "fp8", "unknown dtype"),
        ("C = cast(A)", "cast(A)", "a value and a dtype"),
        ("C = A @ B", "B", "transposed"),
        ("C = (A + A) @ B.T", "A + A", "left side"),
        ("C = A @ B.T + D @ E.T", "D @ E.T", "more than one"),
        ("C = A ** B", "B", "constant exponent"),
        ("C = A ** 0.5", "0.5", "constant exponent"),
        ("C = A ** 17", "17", "constant exponent"),
        ("C = A is B", "A is B", "`is` and `in`"),
        ("C = 9223372036854775808", "9223372036854775808", "does not fit in i64"),
        ("C = 1e999", "1e999", "overflows"),
        ("C = ä + A[0]", "A[0]", "not supported"),  # columns are characters, not bytes
    ],
)
def test_refused_and_where(text: str, at: str, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert words in caught.value.message
    assert text[caught.value.place.start : caught.value.place.end] == at


@pytest.mark.parametrize(
    "text",
    [
        "C = " + "(" * 150 + "A" + ")" * 150,
        "C = " + "(" * 1900 + "A" + ")" * 1900,
        "C = " + "-" * 3900 + "A",
        "C = " + "+" * 3900 + "A",
        "C = " + "not " * 900 + "A",
        "C = " + " + ".join("A" * 900),
        "C = " + " and ".join("A" * 600),
        "C = " + " < ".join("A" * 900),
        "C = " + "exp(" * 150 + "A" + ")" * 150,
        "C = " + "[" * 150 + "A" + "]" * 150,
        "C = " + "A" * 5000,
        "C = A\x00",
        "C = 1" + "0" * 3900,
        "  C = A",
        "C = A\nD = B +",
    ],
)
def test_hostile_text_gives_a_tree_or_an_error(text: str) -> None:
    try:
        assignment = parse(text)
    except ExpressionError as error:
        assert 0 <= error.place.start <= max(1, len(text))
    else:
        assert len(list(walk(assignment.value))) < 100


TYPES = {dtype.value.upper(): dtype for dtype in Dtype if dtype is not Dtype.bool} | {"P": Dtype.bool}


def test_a_coordinate_is_a_whole_number() -> None:
    assert typed("where(coord(M) < 3, F16, 0)") == ("where((coord(M):i32 < 3:i32):bool, to(F16:f16):f32, 0.0:f32):f32")
    for text in ("coord()", "coord(1)", "coord(M, N)", "coord(M + 1)"):
        with pytest.raises(ExpressionError, match="coord takes the name of a mode"):
            parse(f"D = {text}")
