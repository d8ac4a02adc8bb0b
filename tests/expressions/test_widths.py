"""How many bits integers are computed in, and that a kernel's narrower arithmetic gives what the rule gives."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.errors import ExpressionError
from cutegen.expressions.parsing import Cast, Expr, Typed, parse_compute, walk
from cutegen.expressions.tree import Binary, Call, Coord, Literal_, Local, Name, Unary
from cutegen.expressions.widths import Span, span
from tests.fuzz.chance import Chance
from tests.fuzz.statements import Writer

TYPES = {
    **{"I": Dtype.i32, "J": Dtype.i32, "U": Dtype.u8, "S": Dtype.i16, "B": Dtype.bool, "X": Dtype.f32},
    **{"W": Dtype.i64, "V": Dtype.u32, "A": Dtype.i64, "C": Dtype.i32, "D": Dtype.f32, "E": Dtype.bool, "F": Dtype.u32},
}


def typed(*statements: str, narrowed: bool = True) -> tuple[Typed, ...]:
    return annotate(parse_compute(statements), TYPES, narrowed=narrowed)


def widths(value: Expr) -> set[str]:
    """The types of the arithmetic in a value."""
    nodes = [node for node in walk(value) if isinstance(node, Binary | Unary) and node.dtype is not Dtype.bool]
    return {node.dtype.value for node in nodes if node.dtype}


@pytest.mark.parametrize(
    ("text", "kernel", "rule"),
    [
        ("A = coord(M) * 2000000000 + coord(N) * 1000000000", "i64", "i64"),  # stored as i64: all in 64 bits
        ("A = I * J + U", "i64", "i64"),
        ("A = where(I * J > 0, I + 1, 0)", "i64", "i64"),
        ("F = I + 1", "i64", "i64"),  # u32, whose numbers i32 does not hold
        ("A = cast(I * J, i32)", "i32", "i32"),  # told
        ("C = cast(I * J, i64)", "i64", "i64"),
        ("C = I * J", "i32", "i32"),  # torch wraps there as well
        ("D = I * J", "i32", "i32"),
        ("E = I + 1 > J", "i32", "i32"),
        ("C = coord(M) * 2000000000", "i32", "i64"),  # only 32 bits of it are kept
        ("C = coord(M) * 2000000000 // 7", "i64", "i64"),
        ("D = coord(M) * 2000000000", "i64", "i64"),  # as torch.arange, and out of 32 bits
        ("E = coord(M) * 2000000000 > I", "i64", "i64"),
        ("E = coord(N) - coord(M) > 5", "i32", "i64"),  # fits in 32 bits
        ("E = coord(N) + 1 > I", "i32", "i64"),
        ("E = coord(M) % 7 + U * 2 == 3", "i32", "i64 i32"),
        ("D = 2000000000 * 2", "i64", "i64"),  # numbers alone
        ("D = I + 3000000000", "i64", "i64"),
        ("D = W % 8 + I", "i64", "i64"),
        ("D = V + 1", "i64", "i64"),
    ],
)
def test_rule(text: str, kernel: str, rule: str) -> None:
    assert widths(typed(text)[0].value) == set(kernel.split())
    assert widths(typed(text, narrowed=False)[0].value) == set(rule.split())


def test_a_local_value_takes_the_widest_that_its_uses_ask_for() -> None:
    one, two, three = typed("p = I * J", "A = p + 1", "C = p // 3")
    assert widths(one.value) == widths(two.value) == widths(three.value) == {"i64"}
    one, two = typed("p = I * J", "C = p // 3")
    assert widths(one.value) == widths(two.value) == {"i32"}
    one, *_, last = typed("p = I + 1", "q = p * 2", "t = q > 4", "A = where(t, 1, 0)")  # through a condition, too
    assert widths(one.value) == {"i64"}
    one, two, _ = typed("p = coord(M) * 2000000000", "C = p", "D = p")
    assert widths(one.value) == {"i64"} and two.stored is not None and two.stored.dtype is Dtype.i32


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("C = X & 1", "`&` is for integers and conditions, not f32"),
        ("C = I << X", "`<<` is for integers, not f32"),
        ("E = ~X", "`~` is for integers and conditions, not f32"),
        ("C = I // 0", "division by zero"),
        ("C = I % (3 - 3)", "division by zero"),
        ("C = 1 << 64", "shifted by 64 bits"),
        ("E = X > 0 & X < 1", "not f32"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        typed(text)
    assert words in caught.value.message and caught.value.help


def test_a_power_of_integers_is_told_to_be_a_float() -> None:
    for text, told in (("C = I ** J", True), ("C = 2 ** I + 1", True), ("C = I ** 0.3", False), ("C = X ** 17", False)):
        with pytest.raises(ExpressionError) as caught:
            typed(text)
        assert caught.value.help is not None and ("`1 << n` for `2 ** n`" in caught.value.help) is told, text


def test_fmod_of_integers_is_an_integer() -> None:
    for text, dtype in (("C = fmod(I, J)", Dtype.i32), ("A = fmod(I, J)", Dtype.i64), ("C = fmod(I, W)", Dtype.i64)):
        assert typed(text)[0].value.dtype is dtype
    assert typed("D = fmod(I, 2.5)")[0].value.dtype is Dtype.f32


def test_operators_on_conditions_are_those_of_logic() -> None:
    texts = ("E = (I > 0) & B", "E = (I > 0) | B", "E = ~B")
    (conjunction,), (disjunction,), (negation,) = map(typed, texts)
    assert (conjunction.value.op, disjunction.value.op, negation.value.op) == ("and", "or", "not")  # type: ignore[union-attr]
    (exclusive,) = typed("E = (I > 0) ^ B")
    assert isinstance(exclusive.value, Binary) and exclusive.value.op == "!="
    assert widths(typed("C = B & I")[0].value) == {"i32"}


# ------------------------------------------------------------------------------ a kernel's types against the rule's


def wrapped(value: int, dtype: Dtype) -> int:
    if dtype is Dtype.bool:
        return value % 2
    low, _ = dtype.range
    return (value - low) % (1 << dtype.bits) + low


def evaluated(node: Expr, given: Mapping[str, int], values: Mapping[str, int]) -> int:
    """An annotated integer or truth in Python's integers, each step wrapped into the type that it has there."""

    def of(x: Expr) -> int:
        return evaluated(x, given, values)

    assert node.dtype is not None
    match node:
        case Literal_():
            return int(node.value)
        case Name():
            return given[node.id]
        case Local():
            return values[node.id]
        case Coord():
            return given[node.mode]
        case Cast():
            return int(of(node.x) != 0) if node.dtype is Dtype.bool else wrapped(of(node.x), node.dtype)
        case Unary():
            return 1 - of(node.x) if node.op == "not" else wrapped(-of(node.x), node.dtype)
        case Binary(op="**"):
            return wrapped(of(node.left) ** of(node.right), node.dtype)
        case Binary():
            return wrapped(operated(node.op, of(node.left), of(node.right), node.dtype), node.dtype)
        case Call():
            arguments = list(map(of, node.arguments))
            match node.function:
                case "where":
                    return arguments[1] if arguments[0] else arguments[2]
                case "isnan" | "isinf" | "isfinite":
                    return int(node.function == "isfinite")
                case "minimum" | "maximum":
                    return (min if node.function == "minimum" else max)(arguments)
    raise AssertionError(node)


def operated(op: str, x: int, y: int, dtype: Dtype) -> int:
    last = (64 if dtype is Dtype.bool else dtype.bits) - 1
    match op:
        case "//":
            return x // y if y else 0
        case "%":
            return x % y if y else 0
        case "<<":
            return x << y if 0 <= y <= last else 0
        case ">>":
            return x >> (y if 0 <= y <= last else last)
        case "and" | "or":
            return x & y if op == "and" else x | y
    return int(eval(f"x {op} y"))


SPECIAL = (0, 1, -1, 2, 3, -7, 31, 32, 63, 64, 255, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, -(2**63), 2**63 - 1)


@pytest.mark.parametrize("seed", range(120))
def test_a_kernel_computes_what_the_rule_says(seed: int) -> None:
    chance = Chance(seed)
    read = {name: TYPES[name].value for name in ("I", "J", "U", "S", "B", "W", "V")}
    writer = Writer(chance, dict(read), ("M", "N"), plain=True, whole=True)
    statements = []
    for number in range(3):
        statements.append(f"v{number} = {writer.integer(4)}")
        writer.types[f"v{number}"] = "i32"
    statements += [f"A = {writer.integer(3)}", f"C = {writer.integer(4)}", f"E = {writer.truth(3)}"]
    try:
        kernel = typed(*statements)
    except ExpressionError:  # a number that does not fit
        return
    rule = typed(*statements, narrowed=False)
    spans: dict[str, Span] = {}
    for one in rule:
        spans[one.target] = span(one.value, spans)
    for _ in range(25):
        given = {name: wrapped(chance.choice(SPECIAL), TYPES[name]) for name in read}
        given |= {mode: chance.choice([0, 1, 7, 2**16, 2**31 - 2]) for mode in ("M", "N")}
        for own, other in zip(*(results(each, given) for each in (kernel, rule)), strict=True):
            assert own[1] == other[1], (statements, given, own[0])
        for name, value in results_of(rule, given).items():
            assert spans[name].low <= value <= spans[name].high, (statements, given, name)


def results_of(statements: tuple[Typed, ...], given: Mapping[str, int]) -> dict[str, int]:
    values: dict[str, int] = {}
    for one in statements:
        values[one.target] = evaluated(one.value, given, values)
    return values


def results(statements: tuple[Typed, ...], given: Mapping[str, int]) -> list[tuple[str, int]]:
    """The value that is stored in each output."""
    values = results_of(statements, given)
    stored = [one.target for one in statements if one.stored is not None]
    return [(name, wrapped(values[name], TYPES[name])) for name in stored]
