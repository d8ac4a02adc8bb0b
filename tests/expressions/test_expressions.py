"""`compute`: what is parsed, how it is typed, and where an error points."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.errors import ExpressionError, NumberError
from cutegen.expressions.parsing import (
    FUNCTIONS,
    Assignment,
    Binary,
    Call,
    Cast,
    Coord,
    Expr,
    Literal_,
    Local,
    MatMul,
    Name,
    Unary,
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
        ("C = A; D = B", "C = A; D = B", "several statements"),
        ("C += A", "C += A", "one assignment"),
        ("C = D = A", "C = D = A", "assign to one tensor"),
        ("C.x = A", "C.x = A", "assign to one tensor"),
        ("C = A.x", "A.x", "`A.x` is not supported"),
        ("C = A[0]", "A[0]", "not supported"),
        ("C = 'x'", "'x'", "not supported"),
        ("C = 1j", "1j", "not supported"),
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


def stored(text: str, types: Mapping[str, Dtype], accumulator: Dtype | None = None) -> Expr:
    """The annotated value that a single statement stores."""
    (statement,) = annotate(parse_compute(text), types, accumulator)
    assert statement.stored is not None
    return statement.stored


def typed(text: str, out: str = "F32") -> str:
    return show(stored(f"OUT = {text}", {**TYPES, "OUT": TYPES[out]}))


@pytest.mark.parametrize(
    ("text", "out", "tree"),
    [
        ("F32", "F32", "F32:f32"),
        ("F16", "F16", "F16:f16"),  # a copy converts nothing
        ("F16", "BF16", "to(F16:f16):bf16"),
        ("F16 + BF16", "F16", "to((to(F16:f16):f32 + to(BF16:bf16):f32):f32):f16"),
        ("F32 + F64", "F64", "(to(F32:f32):f64 + F64:f64):f64"),
        ("F32 + 1", "F32", "(F32:f32 + 1.0:f32):f32"),
        ("F64 * 0.1", "F64", "(F64:f64 * 0.1:f64):f64"),
        ("I8 + U8", "I32", "(to(I8:i8):i32 + to(U8:u8):i32):i32"),
        ("I8 + 1", "I8", "to((to(I8:i8):i32 + 1:i32):i32):i8"),
        ("I64 + I32", "I64", "(I64:i64 + to(I32:i32):i64):i64"),
        ("U8 < I64", "P", "(to(U8:u8):i64 < I64:i64):bool"),
        ("I64 * F16", "F32", "(to(I64:i64):f32 * to(F16:f16):f32):f32"),
        ("I64 / 2", "F32", "(to(I64:i64):f32 / 2.0:f32):f32"),
        (
            "where(I32 == 3000000000, I64, 1)",
            "I64",
            "where((to(I32:i32):i64 == 3000000000:i64):bool, I64:i64, 1:i64):i64",
        ),
        ("U32 + I8", "U32", "to((to(U32:u32):i64 + to(I8:i8):i64):i64):u32"),
        ("-U32 < U32", "P", "(-(to(U32:u32):i64):i64 < to(U32:u32):i64):bool"),
        ("I16 * U8", "I16", "to((to(I16:i16):i32 * to(U8:u8):i32):i32):i16"),
        ("F8E4M3 * F16", "F8E4M3", "to((to(F8E4M3:f8e4m3):f32 * to(F16:f16):f32):f32):f8e4m3"),
        ("maximum(F8E4M3, I64)", "F8E5M2", "to(maximum(to(F8E4M3:f8e4m3):f32, to(I64:i64):f32):f32):f8e5m2"),
        ("I32 * 0.5", "F32", "(to(I32:i32):f32 * 0.5:f32):f32"),
        ("I32 / 2", "F32", "(to(I32:i32):f32 / 2.0:f32):f32"),
        ("F32 < 1", "P", "(F32:f32 < 1.0:f32):bool"),
        ("where(P, F16, 0)", "F16", "to(where(P:bool, to(F16:f16):f32, 0.0:f32):f32):f16"),
        ("exp(F16)", "F32", "exp(to(F16:f16):f32):f32"),
        ("exp(I32)", "F32", "exp(to(I32:i32):f32):f32"),
        ("abs(I8)", "I32", "abs(to(I8:i8):i32):i32"),
        ("relu(F64)", "F64", "relu(F64:f64):f64"),
        ("minimum(F32, 0)", "F32", "minimum(F32:f32, 0.0:f32):f32"),
        ("F16 ** 3", "F32", "(to(F16:f16):f32 ** 3:i32):f32"),
        ("-2", "I8", "-2:i8"),
        ("1", "F16", "1.0:f16"),
        ("True", "P", "True:bool"),
        ("cast(F32, f16)", "F32", "to(cast(F32:f32):f16):f32"),
        ("cast(F32, i32)", "I32", "cast(F32:f32):i32"),
        ("cast(1.5, i32)", "I32", "1:i32"),
        ("cast(300, i8)", "I8", "44:i8"),
        ("F32 + (not 1 > 0)", "F32", "(F32:f32 + 0.0:f32):f32"),
        ("tanh(not False)", "F32", "tanh(1.0:f32):f32"),
        ("P and not (1 + 1 == 2 or False)", "P", "(P:bool and False:bool):bool"),
        ("cast(1 < 2, i8) + I8", "I32", "(1:i32 + to(I8:i8):i32):i32"),
        ("cast(0.1, f16) + cast(-0.0, bf16)", "F32", "(0.0999755859375:f32 + -0.0:f32):f32"),
        ("F32 + (1 + 2)", "F32", "(F32:f32 + 3.0:f32):f32"),
        ("1 / 3 + F32", "F32", "((1.0:f32 / 3.0:f32):f32 + F32:f32):f32"),
        ("cast(2, f16)", "F16", "2.0:f16"),
        ("not P and F32 > 0", "P", "(not(P:bool):bool and (F32:f32 > 0.0:f32):bool):bool"),
    ],
)
def test_types(text: str, out: str, tree: str) -> None:
    assert typed(text, out) == tree


@pytest.mark.parametrize(
    ("text", "out", "at", "words"),
    [
        ("F32", "I32", "F32", "cast(..., i32)"),
        ("I32 / 2", "I32", "I32 / 2", "cast(..., i32)"),
        ("I32", "P", "I32", "compare with 0"),
        ("1", "P", "1", "compare with 0"),
        ("1.5", "I32", "1.5", "cast(..., i32)"),
        ("300", "I8", "300", "does not fit in i8"),
        ("-1", "U8", "-1", "does not fit in u8"),
        ("where(F32, 1, 2)", "F32", "F32", "a condition is needed here, not f32"),
        ("not I32", "P", "I32", "a condition"),
        ("P and F16", "P", "F16", "a condition"),
    ],
)
def test_types_that_do_not_fit(text: str, out: str, at: str, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        typed(text, out)
    whole = f"OUT = {text}"
    assert words in f"{caught.value.message} {caught.value.help}"
    assert whole[caught.value.place.start : caught.value.place.end] == at


@pytest.mark.parametrize(
    ("text", "out", "at", "words"),
    [
        ("F32 + 1 / 0", "F32", "0", "division by zero"),
        ("F32 / (1 / (3 - 3))", "F32", "3 - 3", "division by zero"),
        ("where(P, F32, 1 / 0)", "F32", "0", "division by zero"),
        ("I32 + 2000000000 * 4", "I32", "2000000000 * 4", "2000000000 * 4 is 8000000000"),
        ("I32 + 2 ** 16 * 2 ** 15", "I32", "2 ** 16 * 2 ** 15", "i32 holds -2147483648 to 2147483647"),
        ("I32 * -(1 + 2147483647)", "I32", "1 + 2147483647", "is 2147483648"),
        ("I32 + 3 - -2147483648 * -1", "I32", "-2147483648 * -1", "is 2147483648"),
        ("1e39 * F32", "F32", "1e39", "1e+39 does not fit in f32"),
        ("-1e39 * F32", "F32", "-1e39", "-1e+39 does not fit in f32"),
        ("F32 * (3e38 * 2)", "F32", "3e38 * 2", "6e+38, which does not fit"),
        ("3e38 * 2 * F16", "F16", "3e38 * 2", "f32"),
        ("F32 * 1e30 ** 2", "F32", "1e30 ** 2", "f32"),
        ("70000", "F16", "70000", "f16 holds -65504 to 65504"),
        ("300 * 300", "F16", "300 * 300", "does not fit in f16"),
        ("cast(65520, f16) + F32", "F32", "65520", "does not fit in f16"),
        ("464", "F8E4M3", "464", "f8e4m3 holds -448 to 448"),
        ("U32 + cast(3e10, u32)", "U32", "cast(3e10, u32)", "u32 holds 0 to 4294967295"),
        ("100 * 3", "I8", "100 * 3", "300 does not fit in i8"),
        ("cast(3e9, i32)", "I32", "cast(3e9, i32)", "does not fit in i32"),
        ("1e300 * 1e300 + F32", "F32", "1e300", "f32"),
        ("exp(1 / 0)", "F32", "0", "division"),
        ("F32 + -1 / 0", "F32", "0", "infinity is `inf`"),
    ],
)
def test_numbers_that_their_type_cannot_hold(text: str, out: str, at: str, words: str) -> None:
    with pytest.raises(NumberError) as caught:
        typed(text, out)
    whole = f"OUT = {text}"
    assert words in f"{caught.value.message} {caught.value.help}"
    assert whole[caught.value.place.start : caught.value.place.end] == at


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("I32 - 2147483648 + 0", "I32"),  # in i64; what is stored wraps around
        ("I64 - 9223372036854775808 + 0", None),
        ("I64 + -9223372036854775808", "I64"),
        ("I32 + -2147483648", "I32"),
        ("I32 + (-2147483648 + 2147483647)", "I32"),
        ("I32 + 46340 * 46340", "I32"),
        ("1e300 * F64", "F64"),
        ("3.4028235e38 * F32", "F32"),
        ("65519.9", "F16"),
        ("463.9", "F8E4M3"),
        ("I8 * 300", "I8"),  # in i32; what is stored wraps around
        ("cast(300, i8) + I32", "I32"),
        ("F32 / 0", "F32"),  # an infinity or a NaN, by the rules of floats
        ("1 / (1 < 2)", "F32"),
        ("0 / 5", "F32"),
    ],
)
def test_numbers_that_fit_just_so(text: str, out: str | None) -> None:
    if out:
        typed(text, out)
    else:  # Python takes the sign for a subtraction here, and 9223372036854775808 has none then
        with pytest.raises(ExpressionError, match="does not fit in i64"):
            typed(text, "I64")


SUMS = st.recursive(
    st.integers(-9, 9).map(str) | st.just("2147483647"),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    max_leaves=8,
)


@given(SUMS)
def test_whole_numbers_are_refused_exactly_where_i32_overflows(text: str) -> None:
    def overflows(node: ast.expr) -> bool:
        inner = any(overflows(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        return inner or not -(2**31) <= eval(ast.unparse(node)) < 2**31  # the text is our own: digits and operators

    refused = False
    try:
        typed(f"I32 + {text}", "I32")
    except NumberError:
        refused = True
    assert refused == overflows(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(("bits", "kind"), [(32, "I32"), (64, "I64")])
def test_the_least_integer_of_a_type_can_be_written(bits: int, kind: str) -> None:
    least = f"-{2 ** (bits - 1)}"
    assert show(parse(f"D = {least}").value) == least
    assert typed(least, kind) == f"{least}:{kind.lower()}"
    again = parse(parse(f"D = {least} + a").text)
    assert isinstance(again, Assignment) and again == parse(f"D = {least} + a")
    with pytest.raises(ExpressionError, match="does not fit"):
        typed(f"-{2 ** (bits - 1) + 1}", kind)


def test_where_a_product_stands() -> None:
    place = product_place("C = ä + A @ B")
    assert place and (place.start, place.end) == (8, 13)
    assert product_place("C = A +") is None
    assert product_place("C = A * B") is None


def test_the_product_has_the_accumulators_type() -> None:
    types = {"A": Dtype.f16, "B": Dtype.f16, "C": Dtype.f16}
    assert show(stored("C = A @ B.T", types)) == "to((A@B):f32):f16"
    assert show(stored("C = A @ B.T", types, Dtype.f64)) == "to((A@B):f64):f16"


NAMES = st.sampled_from(list(TYPES))
ONE = [name for name, function in FUNCTIONS.items() if function.most == 1 and function.gives != "truth"]
NUMBERS = st.one_of(st.integers(0, 100).map(str), st.sampled_from(["0.5", "1e-3", "True"]))
EXPRESSIONS = st.recursive(
    NAMES | NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/<>"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(ONE), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"where({t[0]} > 0, {t[1]}, {t[2]})"),
        st.tuples(inner, st.sampled_from([d.name for d in Dtype])).map(lambda t: f"cast({t[0]}, {t[1]})"),
        inner.map(lambda t: f"(-{t})"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_once_annotated_every_conversion_is_spelled_out(text: str) -> None:
    try:
        tree = stored(f"OUT = cast({text}, f32)", {**TYPES, "OUT": Dtype.f32})
    except NumberError:  # 1 / 0, say
        assume(False)
    assert tree.dtype is Dtype.f32
    for node in walk(tree):
        assert node.dtype is not None
        kinds = [child.dtype for child in node.children]
        if isinstance(node, Binary) and node.op != "**":
            assert kinds[0] is kinds[1]
            assert node.dtype is (Dtype.bool if node.op in "<>" else kinds[0])
        elif isinstance(node, Call):
            assert set(kinds[-2:] if node.function == "where" else kinds) == {node.dtype}
        elif isinstance(node, Literal_) and not node.dtype.is_float:
            assert isinstance(node.value, int)


@given(st.text(max_size=60) | st.text(alphabet="CAB=+-*/@().T<>, 0123456789expwhr\n", max_size=60))
def test_any_text_gives_a_tree_or_an_error(text: str) -> None:
    try:
        assignment = parse(text)
    except ExpressionError:
        return
    assert parse(assignment.text) == assignment
    ast.parse(assignment.text)


def test_statements_see_what_earlier_ones_computed_before_it_was_rounded() -> None:
    types = {"X": Dtype.bf16, "N8": Dtype.i8, "Y": Dtype.bf16, "Z": Dtype.f32}
    statements = annotate(parse_compute(["y = X * 2", "Y = y + N8", "Z = Y - y"]), types)
    assert [s.target for s in statements] == ["y", "Y", "Z"]
    local, first, second = statements
    assert local.stored is None and show(local.value) == "(to(X:bf16):f32 * 2.0:f32):f32"
    assert first.stored is not None and show(first.value) == "($y:f32 + to(N8:i8):f32):f32"
    assert show(first.stored) == f"to({show(first.value)}):bf16"
    assert show(second.value) == "($Y:f32 - $y:f32):f32", "what was computed of Y, not what was stored"


def test_an_inout_is_what_it_was_until_it_is_assigned() -> None:
    types = {"P": Dtype.f32, "Q": Dtype.f32}
    first, second = annotate(parse_compute(["P = P + 1", "Q = P * 2"]), types)
    assert show(first.value) == "(P:f32 + 1.0:f32):f32" and show(second.value) == "($P:f32 * 2.0:f32):f32"


def test_an_error_says_in_which_statement_it_is() -> None:
    types = {"X": Dtype.f32, "Y": Dtype.i32, "Z": Dtype.f32}
    with pytest.raises(ExpressionError) as error:
        annotate(parse_compute(["Z = X", "Y = X"]), types)
    assert error.value.statement == 1
    with pytest.raises(ExpressionError) as error:
        parse_compute(["Z = X", "Y = X +", "Z ="])
    assert error.value.statement == 1


def test_a_coordinate_is_a_whole_number() -> None:
    assert typed("where(coord(M) < 3, F16, 0)") == ("where((coord(M):i32 < 3:i32):bool, to(F16:f16):f32, 0.0:f32):f32")
    for text in ("coord()", "coord(1)", "coord(M, N)", "coord(M + 1)"):
        with pytest.raises(ExpressionError, match="coord takes the name of a mode"):
            parse(f"D = {text}")
