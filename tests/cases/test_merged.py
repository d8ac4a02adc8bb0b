"""Functions of several forms as one: what they share stands there once, the rest under conditions on the case."""

from __future__ import annotations

import ast

import pytest

from cutegen.cases.layout import further_in
from cutegen.cases.merged import Merger, Told
from cutegen.codegen.merging import Definition
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
        forms.append({case: [Definition("kernel", text, regions)]})
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
    with pytest.raises(ValueError):
        merger(*texts).functions()


def test_forms_that_no_field_tells_apart_are_not_merged() -> None:
    one = merger(PLAIN, SPLIT)
    one._told = Told("case", [{"SPLIT": frozenset({"1", "2"})}, {"SPLIT": frozenset({"2"})}], {})
    with pytest.raises(ValueError, match="no field"):
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
    with pytest.raises(ValueError, match="too long"):
        further_in(["value = " + " + ".join(["number"] * 10)], 40)
