"""Rejected expressions, with the place, the reason and a fix; hostile text has no other effect."""

from __future__ import annotations

import random
import time

import pytest
from algebra_kit import random_layout, random_tiler
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen.algebra import AlgebraError, NotDefined, evaluate, show
from cutegen.algebra.registry import FUNCTIONS
from cutegen.layouts.notation import MAX_CHARACTERS

HUGE = 2**63 - 1


# expression, with the place of the error between «»; a part of the message; a part of the help
WRONG = [
    # syntax
    ("«»", "empty", "zipped_divide("),
    ("(4,8):(8,1)«:»2", "too many `:`", "shape:stride"),
    ("«(4:1,8:1)»:(8,1)", "one `:`", "(4,8):(8,1)"),
    ("(4,8):«(8:1)»", "one `:`", "(4,8):(8,1)"),
    ("(4,8)«;»(8,1)", "`;` is too much", "shape:stride"),
    ("«tensor»<ptr<f32, gmem>>", "no layout", "tensor<ptr<f32, gmem> o"),
    ("tensor<ptr<f32, gmem> o 4:«1»", "`<` is never closed", None),
    ("zipped_divide((16,32),(2,4«)»", "`(` is never closed", None),
    ("(16,32):(32,«1»", "`(` is never closed", None),
    ("4:1[«0»", "`[` is never closed", None),
    ("4«:»", "a stride is missing", None),
    ("(4«,»", "is missing at the end", None),
    ("(4,«-»8)", "cannot be negative", None),
    ("(4,«?»)", "only a running kernel knows", "a number"),
    ("(4,8):(1«@»0,1@1)", "1@0", "plain numbers"),
    ("(4,«;»)", "needed here, not `;`", None),
    ("4 «8»", "`8` is too much", None),
    ("(4 «8»)", "`)` is missing before `8`", None),
    ("4:1[«a»]", "mode number", None),
    ("4:1.«size»", "no `.size`", "`.shape`"),
    ("4:1«()»", "coordinate is needed", None),
    ("4:1«(c=1)»", "coordinate is needed", None),
    ("size(a=4, «3»)", "without a name", None),
    ("S<3«;»4,3> o 4:1", "`,` is missing before `;`", None),
    ("S<3,4,«3»", "`<` is never closed", None),
    (f"«{'9' * 30}»", f"at most {HUGE}", None),
    ("«" + "1" * (MAX_CHARACTERS + 1) + "»", f"{MAX_CHARACTERS + 1} characters", None),
    ("(" * 16 + "«(»" + "(" * 20, "deeper than 16", None),
    ("4:1" + "[0]" * 16 + "«[»0]", "more than 16", None),
    # names
    ("«zippd_divide»((16,32), (2,4))", "no function `zippd_divide`", "did you mean `zipped_divide`?"),
    ("cute.«zip_divide»((16,32), (2,4))", "no function", "did you mean `zipped_divide`?"),
    ("«compose»(4, 2)", "no function", "did you mean `composition`?"),
    ("«stride»(4)", "no function", "did you mean `L.stride`?"),
    ("«tA»((1,2))", "no function `tA`", "there are no variables"),
    ("«A»", "`A` alone has no value", "write the layout itself"),
    ("«cute».", "`cute` alone has no value", None),
    ("zipped_divide(«A», 4)", "`A` alone", "write the layout itself"),
    ("«size()»", "also needs `a`", "size(a, [mode])"),
    ("«zipped_divide((16,32):(32,1) (2,4))»", "also needs `tiler`", "is a comma missing?"),
    ("right_inverse(4:1, «3»)", "takes 1 argument, not 2", "right_inverse(input)"),
    ("coalesce(4:1, «profile»=1)", "no argument `profile`", "target_profile"),
    ("size(4, «a»=3)", "given twice", None),
    # layouts
    ("(4,8):«(8)»", "do not match", "compact would be (8,1)"),
    ("(4,(2,3)):«(1,4)»", "do not match", "compact would be (1,(4,8))"),
    ("«(0,4)»:(1,1)", "at least 1", None),
    ("«(0,4)»", "at least 1", None),
    ("zipped_divide(16:1, «(0)»)", "at least 1", None),
    ("«(4,_)»:(1,4)", "a tuple with `_`", None),
    ("(4,8):«(1,_)»", "a tuple with `_`", None),
    (f"«(2,2):(1,{HUGE})»", f"reaches {2**63 + 1}", None),
    ("«(4294967296,4294967296):(0,0)»", f"reaches {2**64}", None),
    ("«logical_product((65536,65536), (65536,65536))»", "reaches", None),
    ("«_»", "a layout is needed here, not `_`", "(4,8):(8,1)"),
    ("«(4:1,8:1)»", "not a tuple of layouts", "make_layout((4:1,8:1)) joins them"),
    ("make_layout(«4:1»)", "is a layout already", None),
    ("make_layout((4,8), stride=«(1,2,3)»)", "do not match", None),
    ("make_ordered_layout((4,8), «(1,1)»)", "a number twice", None),
    ("make_ordered_layout((4,8), «(1,0,2)»)", "does not have the modes", None),
    ("append(4:1, «4»)", "cannot be a mode", "a layout beside layouts"),
    ("append(4, «4:1»)", "cannot be a mode", "numbers beside numbers"),
    ("append(4:1, 4:1, «0»)", "cannot be brought to rank 0", "from 1 to"),
    ("append(4:1, 4:1, «1000000»)", "cannot be brought to rank", None),
    # tilers
    ("zipped_divide((16,32):(32,1), «(3,5,7)»)", "has 3 modes, (16,32):(32,1) has 2", "at most one entry"),
    ("zipped_divide((16,32):(32,1), «((2,2),4)»)", "16:32 has only one", None),
    ("zipped_divide((16,32):(32,1), «(2,_)»)", "leaves no tile", "`logical_divide` takes `_`"),
    ("zipped_divide((16,32):(32,1), «_»)", "a tiler is needed here", "`_` for a whole mode"),
    ("zipped_divide(((2,6,8),2):((48,8,1),96), «(8)»)", "mode 0: tiles of 8 do not divide (2,6,8):(48,8,1): steps of 4",
     "tiles of 6 or 12"),
    ("logical_divide((4,3):(0,4), «3»)", "steps of 3 do not fit a mode of 4", "tiles of 2 or 4"),
    ("logical_divide((6,(6,3,3)):(54,(9,1,3)), «(8,3):(3,1)»)", "do not divide", "a step that divides 6"),
    ("zipped_divide(16:1, «(2,2):(2,3)»)", "has no complement", "a stride of 4 or more"),
    ("composition((4,4):(4,1), «S<1,0,1> o 4:1»)", "not a swizzled layout", "without swizzle"),
    # operations without a result
    ("«composition((6,4):(4,1), 6:4)»", "steps of 4 do not fit a mode of 6", "a step that divides 6"),
    ("«composition((4,8):(8,1), 6:1)»", "6 places do not fill whole runs of 4", "at most 4, or a multiple of 4"),
    ("«composition((4,8):(1,100), (4,4):(1,2))»", "at (2,1), A(4) = 100, but each mode by itself gives 4", "CuTeDSL"),
    ("«(4,8):(1,100) o (4,4):(1,2)»", "A(4) = 100", None),
    ("«composition((4,80000):(1,100), (4,40000):(1,2))»", "A(80001) = 2000001", None),
    ("complement(«(2,2):(2,3)», 12)", "the stride 3 of 2:3 falls into the 4 offsets", "a stride of 4 or more"),
    ("complement(«(4,4):(1,1)», 12)", "falls into the 4 offsets", None),
    ("left_inverse(«(2,2):(2,3)»)", "below the 4 offsets", "divide each other"),
    ("left_inverse(«(2,2,2):(1,3,7)»)", "not a multiple of the stride 3", None),
    ("logical_product(3:6, «(6,3):(4,48)»)", "cannot be laid out as", None),
    ("«blocked_product((6):(1), 4:1)»", "cannot be paired", "parentheses"),
    ("make_layout_tv(«(4,8):(16,1)», (4,4))", "does not number 32 threads from 0 to 31", "(4,8):(8,1)"),
    ("make_layout_tv((4,8):(8,1), «(4,4):(1,1)»)", "does not number 16 values", "compact"),
    ("size(«make_layout_tv(4,4)»)", "not a tiler and a layout", "[0] or the layout with [1]"),
    ("zipped_divide(16, «make_layout_tv(4,4)»)", "a tiler is needed here", "[0]"),
    ("«make_layout_tv(4,4)[2]»", "no [2]", "[1] the layout"),
    ("coalesce(«divide(16, 4)»)", "a table of several layouts", "one of the operations"),
    ("«divide(16, 4)[0]»", "no modes to choose from", None),
    ("(«divide(16, 4)», 4)", "cannot be part of a tuple", None),
    ("recast_layout(32, 8, «(4,8):(8,3)»)", "do not fill 8:3", "multiples of 4"),
    ("«recast_layout(0, 8, 8)»", "from 1 to", None),
    ("tile_to_shape((4,2):(1,4), «(12)», (0))", "has 2 modes", None),
    ("local_partition((16,32):(32,1), (8,4):(4,1), «32»)", "no thread 32", "0 to 31"),
    ("local_tile((16,32):(32,1), (4,8), (1,2), «(1,_,1)»)", "same number of modes", "proj=(1,_,1)"),
    # modes and coordinates
    ("get((4,8):(8,1), «2»)", "no mode 2", None),
    ("get(4:1, mode=«[0,1]»)", "no mode 1", None),
    ("«(4,8):(8,1)[5]»", "no mode 5", None),
    ("select((4,8):(8,1), «(4,(8,1))»)", "a mode's number", "[0,2]"),
    ("«group_modes((4,8):(8,1), 1, 1)»", "cannot be grouped", "begin below end"),
    ("(4,8):(8,1)(«(1,2,3)»)", "has 3 entries", "one entry for each mode"),
    ("(4,8):(8,1)(((«1,2)»,3))".replace("((«1,2)»,3)", "«((1,2),3)»"), "the mode 4 has none inside", None),
    ("(4,8):(8,1)(«4:1»)", "a coordinate is needed", "(1,_)"),
    ("idx2crd(«(1,2,3)», (4,8))", "has 3 entries", None),
    ("slice_((4,8):(8,1), «(1,2)»)", "no mode is left", "crd2idx"),
    ("dice((4,8):(8,1), «(_,_)»)", "leaves no mode", None),
    ("coalesce((4,8):(8,1), «(1,1,1)»)", "has 3 modes", "at most one entry"),
    ("ceil_div((4,8), «(1,2,3)»)", "more modes", None),
    ("round_up((4,8), «(1,2,3)»)", "does not have the modes", None),
    ("product_each(«(4,8):(8,1)»)", "a shape is needed here, not a layout", "`.shape`"),
    ("group_modes((4,8), «(1,2)», 3)", "a number is needed here, not a tuple", None),
    # swizzles
    ("«S<3,4,2>» o 4:1", "its two fields overlap", "at least 3"),
    ("«S<3,40,3>» o 4:1", "go up to 32", None),
    ("size(«S<3,4,3>»)", "a swizzle without a layout", None),
    ("S<1,0,1> o «S<1,0,1> o 4:1»", "swizzled already", None),
    ("«3 o 4 o 4:1»", "no swizzle before it", "S<3,4,3> o 0 o"),
    ("S<1,0,1> o «(4,4):(4,1)((1,_))»", "binds more tightly than `o`", "(A o B)(c)"),
    ("complement(«(S<1,0,1> o 4:1)»)", "not defined for a swizzled layout", "without its swizzle"),
    ("«(S<1,0,1> o 4:1).stride»", "has no strides", None),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "message", "help"), WRONG)
def test_what_is_refused(marked: str, message: str, help: str | None) -> None:
    expression = marked.replace("«", "").replace("»", "")
    with pytest.raises(AlgebraError) as caught:
        evaluate(expression)
    error = caught.value
    assert message in error.message and (help or "") in (error.help or "")
    start = marked.index("«")
    if expression and len(expression) <= MAX_CHARACTERS:
        place = (error.offset, error.offset + error.length)
        assert place == (start, marked.index("»") - 1), expression[error.offset : error.offset + error.length]


def test_the_caret_stands_under_the_place() -> None:
    expression = "zipped_divide((16,32):(32,1), (3,5,7))"
    with pytest.raises(AlgebraError) as caught:
        evaluate(expression)
    message, line, caret = show.error_text(expression, caught.value).splitlines()
    assert "has 3 modes" in message and line.strip() == expression
    assert line[caret.index("^") : len(caret)] == "(3,5,7)" and set(caret.strip()) == {"^"}


def test_a_long_expression_is_shown_around_the_place() -> None:
    expression = f"size(({','.join('1' * 200)},?))"
    with pytest.raises(AlgebraError) as caught:
        evaluate(expression)
    _, line, caret = show.error_text(expression, caught.value).splitlines()
    assert len(line) < 140 and line[caret.index("^")] == "?"


@pytest.mark.parametrize(
    ("expression", "note"),
    [
        ("zipped_divide((16,32):(32,1), (3,4))", "mode 0: 3 does not divide the 16 of 16:32: 6 times 3 is 18"),
        ("zipped_divide((6,4):(4,1), (8,4))", "8 does not divide the 6 of 6:4: 1 times 8 is 8"),
        ("tile_to_shape((2,4):(4,1), (7,16), (0,1))", "2 does not divide 7: 4 blocks of 2 cover 8"),
        ("composition(6:1, 3:4)", "3:4 reaches 8, and 6:1 ends at 5"),
        (
            "composition((32,16):(64,4), (128,16))",
            "mode 0: 128:1 reaches 127, and 32:64 ends at 31. The tuple (128,16)",
        ),
        ("complement((128,8):(1,132), 2000)", "4 of every 132 offsets stay free"),
        ("right_inverse((4,8):(16,1))", "go from 0 to 7 without gaps or repetitions"),
        ("right_inverse((4,8):(16,1))", "covers 8 of 32"),
        ("(4,8):(8,1)((4,0))", "(4,0) is outside of the shape (4,8)"),
    ],
)
def test_what_a_user_might_not_expect_is_noted(expression: str, note: str) -> None:
    assert [n for n in evaluate(expression).notes if note in n]


@pytest.mark.parametrize(
    "expression",
    [
        "zipped_divide((16,32):(32,1), (2,4))",
        "logical_divide((16,32):(32,1), (_,4))",
        "composition((4,8):(8,1), (2,4):(1,4))",
        "complement((2,2):(1,4), 16)",
        "right_inverse((4,8):(8,1))",
        "(4,8):(8,1)((3,7))",
    ],
)
def test_nothing_is_noted_of_what_is_as_expected(expression: str) -> None:
    assert evaluate(expression).notes == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cute.zipped_divide((16,32):(32,1), tiler=(2,4))", "zipped_divide((16,32):(32,1), (2,4))"),
        ("size( (4,8) : (8,1) , mode=[0] )", "size((4,8):(8,1), 0)"),
        ("(4,8):(8,1)(1,_)", "(4,8):(8,1)((1,None))"),
        ("(4,)", "(4)"),
        ("tensor<ptr<bf16, gmem, align<16>> o ((1,16),8192):((0,1),16)>", "((1,16),8192):((0,1),16)"),
        ("zipped_divide(tensor<ptr<f32> o (16,32):(32,1)>, (2,4))", "zipped_divide((16,32):(32,1), (2,4))"),
        ("((4,8):(8,1))((1,2))", "(4,8):(8,1)(1,2)"),
        ("make_layout((4,8), stride=(8,1))", "(4,8):(8,1)"),
        ("(4,8):(8,1) o (2,2):(1,4)", "composition((4,8):(8,1), (2,2):(1,4))"),
        ("(4,8):(8,1) ∘ (2,2):(1,4)", "composition((4,8):(8,1), (2,2):(1,4))"),
        ("S<3,0,3> o (8,8):(8,1)", "Swizzle<3,0,3> o 0 o (8,8):(8,1)"),
        ("make_swizzle(3,0,3) o (8,8):(8,1)", "Sw<3,0,3> o 0 o (8,8):(8,1)"),
        ("coalesce((2,4):(1,2), target_profile=None)", "coalesce((2,4):(1,2))"),
        ("S<1,0,1> o 4:1 o 2:2", "S<1,0,1> o composition(4:1, 2:2)"),
    ],
)
def test_ways_to_write_the_same(one: str, other: str) -> None:
    assert evaluate(one).value == evaluate(other).value


def test_a_shape_that_is_read_as_a_layout_is_a_step() -> None:
    first = evaluate("raked_product((4,32):(32,1), (4,4))").steps[0]
    assert (first.expression, first.value) == ("make_layout((4,4))", "(4,4):(1,4)")
    assert evaluate("(4,8)").steps[0].expression == "make_layout((4,8))"


# hostile text


def random_expression(chance: random.Random, depth: int) -> str:
    def number() -> str:
        rare = (0, 1, 65536, 2**31, 2**62, HUGE, 2**63, 10**30)
        return str(chance.choice(rare) if chance.random() < 0.2 else chance.choice((1, 2, 3, 4, 6, 8, 16)))

    def coordinate(depth: int) -> str:
        if depth == 0 or chance.random() < 0.6:
            return chance.choice(("_", number(), number()))
        return f"({','.join(coordinate(depth - 1) for _ in range(chance.randint(1, 3)))})"

    def argument() -> str:
        kind = chance.random()
        if kind < 0.4:
            return random_expression(chance, depth - 1)
        return coordinate(2) if kind < 0.7 else random_tiler(chance, random_layout(chance))

    kind = chance.random()
    if depth == 0 or kind < 0.2:
        return chance.choice((random_layout(chance), number(), f"({number()},{number()}):({number()},{number()})"))
    inner = random_expression(chance, depth - 1)
    if kind < 0.65:
        name = chance.choice(list(FUNCTIONS))
        count = max(0, len(FUNCTIONS[name].parameters) + chance.choice((0, 0, 0, 0, -1, 1)))
        return f"{name}({', '.join(argument() for _ in range(count))})"
    swizzle = f"S<{chance.choice((0, 1, 3, 5))},{chance.choice((0, 4))},{chance.choice((-3, 0, 3))}>"
    return chance.choice(
        (f"{swizzle} o {inner}", f"{inner} o {argument()}", f"({inner})({coordinate(2)})", f"({inner})[{number()}]",
         f"({inner}).shape", f"({inner})", f"{swizzle} o {number()} o ({inner})")
    )  # fmt: skip


PIECES = [
    "",
    "(",
    ")",
    ",",
    ":",
    "_",
    "o",
    "0",
    "[",
    "]",
    "=",
    "<",
    ">",
    "-",
    "@",
    "?",
    "²",
    "é",
    "\n",
    "S<",
    "\x00",
    "\udc80",
]


def only_algebra_errors(expression: str) -> None:
    before = time.perf_counter()
    try:
        evaluation = evaluate(expression)
    except AlgebraError as error:
        assert 0 <= error.offset <= len(expression) and error.length >= 1 and error.message
        show.error_text(expression, error)
    else:
        show.text(evaluation, 80, 24, grid=True)
        show.as_json(evaluation)
        try:
            show.threads_text(evaluation.value, 80, 24)
        except NotDefined as error:
            assert error.message
    assert time.perf_counter() - before < 60, "it takes as long as the numbers are large"


@settings(deadline=None, max_examples=400)
@given(st.integers(0, 2**32).map(random.Random))
def test_random_expressions_end_in_a_value_or_in_an_error(chance: random.Random) -> None:
    expression = random_expression(chance, 3)
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        at = chance.randrange(len(expression) + 1)
        expression = expression[:at] + chance.choice(PIECES) + expression[at + chance.randint(0, 2) :]
    only_algebra_errors(expression)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_ends_in_a_value_or_in_an_error(text: str) -> None:
    only_algebra_errors(text)


@pytest.mark.parametrize(
    "expression",
    [
        f"composition(({','.join('1' * 220)}), ({','.join('1' * 220)}):({','.join('7' * 220)}))",
        f"composition(({','.join('2' * 30)},{','.join('3' * 15)}):({','.join('7' * 45)}), 4096:1)",
        f"zipped_divide({HUGE}, 65537)",
        f"logical_divide(({HUGE // 4},2):(2,1), {HUGE // 8})",
        f"({HUGE},1):(1,1)",
        "(65536,65536):(65537,65536)",
        f"idx2crd({HUGE}, ({','.join('2' * 62)}))",
        "(4096,4096,16)",
        "S<3,4,3> o (65536,65536):(1,65536)",
        "(256,256):(255,256)",
        f"right_inverse(({','.join('2' * 62)}))",
        f"{' o '.join(['4:1'] * 150)}",
        f"append(1:0, 1:0, {HUGE})",
        "[" * 500,
        "size(" * 180,
    ],
)
def test_large_inputs_are_quick(expression: str) -> None:
    only_algebra_errors(expression)
