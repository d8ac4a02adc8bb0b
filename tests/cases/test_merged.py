"""Functions of several forms as one: what they share stands there once, the rest under conditions on the case."""

from __future__ import annotations

import ast
import re

import pytest

from cutegen.cases.following import following, in_place, needed, with_owner
from cutegen.cases.layout import further_in
from cutegen.cases.merged import Merger, Told
from cutegen.cases.renaming import in_other_words
from cutegen.cases.trees import Unmergeable
from cutegen.codegen.merging import Definition
from cutegen.codegen.parts import Constant
from cutegen.codegen.regions import Region, region_at

PLAIN = """\
def kernel(x, case):
    # All of it
    y = load(x)

    for i in range(4):
        if y > i:
            use(y, i)
        else:
            skip(i)
    done(y)"""
SPLIT = """\
def kernel(x, case):
    # All of it
    y = load(x)
    share = rank()

    for i in range(4):
        if y > i:
            use(y, i)
            # What the others have
            send(y, share)
        else:
            skip(i)
    finish(y)"""
TURNS = PLAIN.replace("    done(y)", "    turn()\n    done(y)")
PLACES = [{"SPLIT": {"1"}, "TURNS": {"False"}}, {"SPLIT": {"2", "4"}, "TURNS": {"False"}}]
PLACES += [{"SPLIT": {"1"}, "TURNS": {"True"}}]


def merger(*texts: str) -> Merger:
    """Of forms of one case each, the whole text of which is a region."""
    forms, values = [], []
    for case, text in enumerate(texts):
        last, place = text.count("\n") + 1, PLACES[[PLAIN, SPLIT, TURNS].index(text)] if text in TREES else PLACES[case]
        regions = (Region(1, last, ("schedule", case, "mma"), "kernel"), Region(3, 3, ("schedule", case, "x"), "load"))
        functions = [text] if text in TREES else re.split(r"\n(?=def )", text)
        names = [one.removeprefix("def ").split("(")[0] for one in functions]
        forms.append(
            {case: [Definition(*one, regions * (text in TREES)) for one in zip(names, functions, strict=True)]}
        )
        values.append({name: frozenset(of_case) for name, of_case in place.items()})
    paths = {
        case: {"SPLIT": f"schedule.{case}.cluster", "TURNS": f"schedule.{case}.warps"} for case in range(len(texts))
    }
    return Merger(forms, Told("case", values, paths))


TREES = (PLAIN, SPLIT, TURNS)


def test_what_some_forms_have_stands_under_a_condition() -> None:
    (function,) = merger(PLAIN, SPLIT).functions()
    assert (
        function.text
        == """\
def kernel(x, case):
    # All of it
    y = load(x)
    if cutlass.const_expr(case.SPLIT > 1):
        share = rank()

    for i in range(4):
        if y > i:
            use(y, i)
            if cutlass.const_expr(case.SPLIT > 1):
                # What the others have
                send(y, share)
        else:
            skip(i)
    if cutlass.const_expr(case.SPLIT > 1):
        finish(y)
    else:
        done(y)"""
    )


def test_three_forms_are_told_by_two_fields() -> None:
    (function,) = merger(PLAIN, SPLIT, TURNS).functions()
    assert "    if cutlass.const_expr(case.TURNS):\n        turn()\n" in function.text
    assert function.text.count("cutlass.const_expr(case.SPLIT > 1)") == 3
    for field, text in ((("4", "False"), SPLIT), (("1", "False"), PLAIN), (("1", "True"), TURNS)):
        assert ast.unparse(ast.parse(taken(function.text, *field))) == ast.unparse(ast.parse(text))


def taken(text: str, split: str, turns: str) -> str:
    """The function as it is for a case of these values."""

    class Taking(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> object:
            self.generic_visit(node)
            condition = ast.unparse(node.test)
            if not condition.startswith("cutlass.const_expr("):
                return node
            condition = condition.removeprefix("cutlass.const_expr").replace("case.SPLIT", split)
            return node.body if eval(condition.replace("case.TURNS", turns)) else node.orelse

    return ast.unparse(Taking().visit(ast.parse(text)))


@pytest.mark.parametrize("split, turns, text", [("1", "False", PLAIN), ("2", "False", SPLIT), ("1", "True", TURNS)])
def test_each_case_gets_the_statements_that_it_had(split: str, turns: str, text: str) -> None:
    (function,) = merger(TURNS, SPLIT, PLAIN).functions()
    assert ast.unparse(ast.parse(taken(function.text, split, turns))) == ast.unparse(ast.parse(text))


def test_a_line_is_of_the_cases_that_have_it() -> None:
    (function,) = merger(PLAIN, SPLIT).functions()
    lines = function.text.split("\n")

    def innermost(start: str) -> str:
        region = region_at(function.regions, next(n for n, one in enumerate(lines, 1) if one.strip().startswith(start)))
        return region.key if region is not None else ""

    assert innermost("y = ") == "schedule.0.x"
    assert innermost("use(") == innermost("done(") == "schedule.0.mma"
    assert innermost("share = ") == innermost("send(") == "schedule.1.mma"
    assert innermost("if cutlass.") == "schedule.0.cluster"
    row = next(n for n, one in enumerate(lines, 1) if "y = " in one)
    keys = {one.key for one in function.regions if one.first_line <= row <= one.last_line}
    assert keys == {"schedule.0.mma", "schedule.1.mma", "schedule.0.x", "schedule.1.x"}


def test_parameters_are_those_of_all() -> None:
    texts = ["def launch(x, stream, case):\n    run(x)", "def launch(x, stream, count: int, case):\n    run(x)"]
    assert merger(*texts).functions()[0].text.startswith("def launch(x, stream, count: int, case):\n")


@pytest.mark.parametrize(
    "texts",
    [
        ("def f(x):\n    a(x)", "def f(x):\n    b(x)"),  # which does not know the case
        ("def f(x, case):\n    a(x)\ndef a(x):\n    b(x)", "def f(x, case):\n    a(x)\ndef a(x, y):\n    b(x)"),
        ("def f(x, case):\n    a(x)", "def f(x, case):\n    while x:\n        b(x)"),
        ("def f(x, case):\n    a(x)", "def f(x, case):\n    if x:\n        b(x)\n    elif y:\n        c(x)"),
    ],
)
def test_what_cannot_be_merged_is_said(texts: tuple[str, str]) -> None:
    with pytest.raises(Unmergeable):
        merger(*texts).functions()


def test_forms_that_no_field_tells_apart_are_not_merged() -> None:
    one = merger(PLAIN, SPLIT)
    one._told = Told("case", [{"SPLIT": frozenset({"1", "2"})}, {"SPLIT": frozenset({"2"})}], {})
    with pytest.raises(Unmergeable, match="no field"):
        one.functions()


def test_how_much_is_alike() -> None:
    assert merger(PLAIN, TURNS).alike == 1.0
    assert merger("def f(x, case):\n    a(x)\n    b(x)", "def f(x, case):\n    c(x)\n    b(x)").alike == pytest.approx(
        2 / 3
    )


def test_lines_further_in_keep_within_the_width() -> None:
    statement = "value = function(" + ", ".join(f"argument_{n}" for n in range(6)) + ")"
    assert further_in([statement], 4) == [" " * 4 + statement]
    assert further_in([statement], 16) == [
        " " * 16 + "value = function(",
        " " * 20 + statement[17:-1],
        " " * 16 + ")",
    ]
    assert further_in(["# " + "word " * 18 + "end"], 20) == [
        " " * 20 + "#" + " word" * 15,
        " " * 20 + "# word word word end",
    ]
    total = "number + " * 5 + "the_result"
    assert further_in([f"value = {total}"], 40) == [" " * 40 + "value = (", " " * 44 + total, " " * 40 + ")"]
    assert further_in(["this, that = " + ", ".join(["number"] * 8)], 40) == [
        *(" " * 40 + "this, that = (", *[" " * 44 + "number,"] * 8, " " * 40 + ")"),
    ]
    with pytest.raises(Unmergeable, match="too long"):
        further_in(["value = " + " + ".join(["number"] * 10)], 40)


def test_a_name_by_its_part_is_another_one_in_code_and_in_what_is_said() -> None:
    text = """\
@cute.jit
def launch(
    mA: cute.Tensor,
    mB: cute.Tensor,
):
    \"\"\"Rows of A, and columns of B.\"\"\"
    # A box of A; B's come later. A tile of B
    mA, mB = load(mA, "mA A"), mB.A  # along M, of B


def f(mA, A):
    return mA"""
    names = {"mA": "mB", "mB": "mA", "A": "B", "B": "A", "M": "N", "N": "M"}
    assert (
        in_other_words(text, names)
        == """\
@cute.jit
def launch(
    mA: cute.Tensor,
    mB: cute.Tensor,
):
    \"\"\"Rows of B, and columns of A.\"\"\"
    # A box of B; A's come later. A tile of A
    mB, mA = load(mB, "mA A"), mA.A  # along N, of A


def f(mB, B):
    return mB"""
    )


def test_a_formula_stands_where_it_is_used_once_or_is_a_property() -> None:
    functions = [Definition("f", "def f(case):\n    return x * AREA + SIDE // COUNT, AREA2[AREA2]")]
    assert in_place("AREA", "SIDE + 1", functions) == "(SIDE + 1)"
    assert in_place("AREA", "SIDE * 2", functions) == "(SIDE * 2)"
    assert in_place("COUNT", "SIDE * 2", functions) == "(SIDE * 2)"
    assert in_place("AREA2", "SIDE * 2", functions) is None
    once = [Definition("f", "def f(case):\n    a = SUM - x\n    return g(AREA, [COUNT, 1])")]
    assert in_place("SUM", "SIDE * 2", once) == in_place("AREA", "SIDE * 2", once) == "SIDE * 2"
    assert in_place("COUNT", "SIDE * 2", once) == "SIDE * 2"
    assert in_place("SUM", "1 if SIDE else 2", once) == "(1 if SIDE else 2)"
    assert with_owner("SIDES * SIDE // 2", "self", ["SIDE"]) == "SIDES * self.SIDE // 2"


def test_what_follows_by_one_formula_in_all_kernels_is_known() -> None:
    def kernel(side: str, area: str) -> list[Constant]:
        return [Constant("SIDE", side, "", ""), Constant("AREA", area, "", "")]

    assert following([kernel("2", "SIDE * SIDE"), kernel("3", "SIDE * SIDE")]) == {"AREA": "SIDE * SIDE"}
    assert following([kernel("2", "SIDE * SIDE"), kernel("3", "9")]) == {}
    assert following([kernel('"AREA"', "4"), kernel('"AREA"', "4")]) == {}
    assert needed(["AREA", "x"], {"AREA": "SIDE * 2", "SIDE": "EDGE"}) == {"AREA", "x", "SIDE", "EDGE"}


def test_a_product_that_is_too_long_opens_its_last_brackets() -> None:
    first, last = "(first + second)", "(third - fourth * fifth)"
    line = f"value -= {first} * {last}"
    assert further_in([line], 60) == [" " * 60 + f"value -= {first} * (", " " * 64 + last[1:-1], " " * 60 + ")"]


@pytest.mark.parametrize(
    "some, condition",
    [
        ({1}, "case.SPLIT > 1"),
        ({2}, "case.TURNS"),
        ({0, 2}, "case.SPLIT == 1"),
        ({0}, "case.SPLIT == 1 and not case.TURNS"),
        ({1, 2}, "case.SPLIT > 1 or case.TURNS"),
    ],
)
def test_forms_are_told_from_the_others_by_one_field_or_by_two(some: set[int], condition: str) -> None:
    values = [{name: frozenset(of_case) for name, of_case in place.items()} for place in PLACES]
    assert Told("case", values, {}).condition(frozenset(some), frozenset(range(3)), frozenset())[0] == condition


def test_of_fields_that_tell_alike_the_one_is_taken_that_the_statement_is_of() -> None:
    values = [{"PEERS": frozenset({"1"}), "TURNS": frozenset({"False"})}]
    values += [{"PEERS": frozenset({"2"}), "TURNS": frozenset({"True"})}]
    told = Told("case", values, {0: {"PEERS": "schedule.0.cluster", "TURNS": "schedule.0.warps"}})
    conditions = [told.condition(frozenset({1}), frozenset({0, 1}), frozenset({key}))[0] for key in KEYS]
    assert conditions == ["case.TURNS", "case.PEERS > 1", "case.PEERS > 1"]


KEYS = ("schedule.0.warps", "schedule.0.cluster", "schedule.0.mma")
