"""`cutegen layout`: what is printed, as text and as JSON, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cutegen.algebra.registry import FUNCTIONS
from cutegen.cli import cli

ROOT = Path(__file__).parents[2]
TV = "((2,2),(2,3)):((2,12),(1,4))"


def layout(*arguments: str, columns: int = 80, lines: int = 40) -> Result:
    environment = {"COLUMNS": str(columns), "LINES": str(lines)}
    result = CliRunner(env=environment).invoke(cli, ["layout", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def lines_of(*arguments: str, **sizes: int) -> list[str]:
    result = layout(*arguments, **sizes)
    assert result.exit_code == 0 and not result.stderr
    return result.stdout.splitlines()


def json_of(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(layout(*arguments, "--format", "json").stdout)
    return found


def test_the_result_comes_first_then_facts_then_steps_then_the_grid() -> None:
    assert lines_of("zipped_divide((2,4):(4,1), (1,2))") == [
        "((1,2),(2,2)):((0,1),(4,2))",
        "size 8, cosize 8: every offset from 0 to 7 once",
        "",
        "  complement(1:0, 2) = 2:1                                                mode 0: where the tiles start",
        "  composition(2:4, (1,2):(0,1)) = (1,2):(0,4)                             mode 0: (tile, rest)",
        "  complement(2:1, 4) = 2:2                                                mode 1: where the tiles start",
        "  composition(4:1, (2,2):(1,2)) = (2,2):(1,2)                             mode 1: (tile, rest)",
        "  logical_divide((2,4):(4,1), (1,2)) = ((1,2),(2,2)):((0,4),(1,2))        (tile, rest) for each mode",
        "zipped_divide((2,4):(4,1), (1,2)) = ((1,2),(2,2)):((0,1),(4,2))           "
        "The tiles of all modes together, then the rests: (tiles, rests)",
        "",
        "    0 1 2 3",
        "   --------",
        "0 | 0 4 2 6",
        "1 | 1 5 3 7",
    ]


def test_inner_results_come_first() -> None:
    found = lines_of("composition(right_inverse(raked_product((4,32):(32,1),(4,4):(4,1))), (128,16):(1,128))")
    calls = [line.split(" = ")[0].split("(")[0] for line in found if line[:1].isalpha() and " = " in line]
    assert calls == ["raked_product", "right_inverse", "composition"]
    assert found[0] == "((32,4),(4,4)):((64,4),(16,1))"


def test_tables_of_divides_and_products() -> None:
    assert [line.split()[:2] for line in lines_of("product((2,2):(1,2), (2,3):(3,1))")[:6]] == [
        ["logical_product", "((2,2),(2,3)):((1,2),(12,4))"],
        ["zipped_product", "((2,2),(2,3)):((1,2),(12,4))"],
        ["tiled_product", "((2,2),2,3):((1,2),12,4)"],
        ["flat_product", "(2,2,2,3):(1,2,12,4)"],
        ["blocked_product", "((2,2),(2,3)):((1,12),(2,4))"],
        ["raked_product", "((2,2),(3,2)):((12,1),(4,2))"],
    ]
    rows = json_of("divide((16,32):(32,1), (2,4))")["result"]["rows"]
    for row in rows:
        alone = json_of(f"{row['name']}((16,32):(32,1), (2,4))")["result"]
        assert {**alone, "name": row["name"], "arrangement": row["arrangement"]} == row


def test_the_rows_of_a_table_are_the_operations() -> None:
    for row in json_of("product((2,2):(1,2), (2,3):(3,1))")["result"]["rows"]:
        assert json_of(f"{row['name']}((2,2):(1,2), (2,3):(3,1))")["result"]["text"] == row["text"]


def test_a_grid_has_a_row_for_each_coordinate_of_mode_0() -> None:
    grid = lines_of("((2,2),3):((1,6),2)")[-6:]
    assert [row.split("|")[1].split() for row in grid[2:]] == [
        ["0", "2", "4"], ["1", "3", "5"], ["6", "8", "10"], ["7", "9", "11"],
    ]  # fmt: skip
    assert lines_of("3:5")[-1].split() == ["0", "5", "10"]
    assert lines_of("S<1,0,1> o (2,4):(4,1)")[-1].split() == ["1", "|", "4", "5", "7", "6"]


def test_a_grid_that_does_not_fit_says_what_is_left_out() -> None:
    found = lines_of("(32,32):(32,1)", columns=60, lines=20)
    assert found[-1] == "(12 of 32 rows and 11 of 32 columns are shown)" and max(map(len, found)) <= 60
    assert len(lines_of("(64,64):(64,1)")) == 2, "none for a large layout"
    assert len(lines_of("(2,2,2)")) == 4, "none for three modes"


def test_threads() -> None:
    assert lines_of(TV, "--threads")[-5:] == [
        "thread  values",
        "     0   0  1  4  5  8  9",
        "     1   2  3  6  7 10 11",
        "     2  12 13 16 17 20 21",
        "     3  14 15 18 19 22 23",
    ]
    assert json_of(TV, "--threads")["threads"] == {
        "count": 4,
        "values": 6,
        "offsets": [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11], [12, 13, 16, 17, 20, 21], [14, 15, 18, 19, 22, 23]],
    }


def test_threads_that_do_not_fit() -> None:
    found = lines_of("make_layout_tv((4,32):(32,1), (4,4):(4,1))", "--threads", columns=40, lines=20)
    assert found[-1] == "(12 of 128 threads and 8 of 16 values of each are shown)"
    assert max(map(len, found[-14:-1])) <= 40
    assert found[-2].split() == ["11", *(str(704 + 16 * i) for i in range(4)), *(str(705 + 16 * i) for i in range(4))]
    large = json_of("(1024,1024)", "--threads")["threads"]
    assert (large["count"], large["values"], len(large["offsets"]), len(large["offsets"][0])) == (1024, 1024, 64, 1024)
    assert large["offsets"][63][1023] == 63 + 1024 * 1023


def test_threads_of_a_swizzled_layout() -> None:
    plain = json_of("((8,8):(8,1))", "--threads")["threads"]["offsets"]
    swizzled = json_of("S<3,0,3> o (8,8):(8,1)", "--threads")["threads"]["offsets"]
    assert swizzled == [[offset ^ (offset >> 3 & 7) for offset in row] for row in plain]


@pytest.mark.parametrize("expression", ["(2,2,2)", "4:1", "size(4)", "divide(16, 4)"])
def test_threads_of_what_has_none(expression: str) -> None:
    result = layout(expression, "--threads")
    assert result.exit_code == 2 and "layout of two modes" in result.stderr and "help:" in result.stderr
    assert json_of(expression, "--threads")["exit_code"] == 2


def test_json() -> None:
    data = json_of("zipped_divide((16,32):(32,1), (3,4))")
    assert data["verb"] == "layout" and data["expression"] == "zipped_divide((16,32):(32,1), (3,4))"
    assert data["result"] == {
        "kind": "layout",
        "text": "((3,4),(6,8)):((32,1),(96,4))",
        "shape": [[3, 4], [6, 8]],
        "stride": [[32, 1], [96, 4]],
        "size": 576,
        "cosize": 576,
        "injective": True,
        "surjective": True,
    }
    assert data["steps"][0] == {
        "expression": "complement(3:1, 16)", "value": "6:3", "why": "mode 0: where the tiles start", "depth": 1,
    }  # fmt: skip
    assert len(data["notes"]) == 1 and "6 times 3 is 18" in data["notes"][0]


@pytest.mark.parametrize(
    ("expression", "kind", "keys"),
    [
        ("size((4,8))", "integer", {"value": 32, "text": "32"}),
        ("product_each((4,(2,3)))", "tuple", {"value": [4, 6], "text": "(4,6)"}),
        ("S<3,4,3>", "swizzle", {"text": "S<3,4,3>"}),
        ("S<3,4,3> o 5 o 8:1", "swizzled", {"swizzle": [3, 4, 3], "offset": 5, "shape": 8, "stride": 1}),
        ("make_layout_tv(4, 8)", "thread_value", {"tiler": [32]}),
    ],
)
def test_kinds_of_results(expression: str, kind: str, keys: dict[str, Any]) -> None:
    result = json_of(expression)["result"]
    assert result["kind"] == kind and {key: result[key] for key in keys} == keys


def test_a_wrong_expression_is_shown_with_a_caret() -> None:
    result = layout("zipped_divide((16,32):(32,1), (3,5,7))")
    assert result.exit_code == 2 and not result.stdout
    assert result.stderr.splitlines() == [
        "error: the tiler (3,5,7) has 3 modes, (16,32):(32,1) has 2",
        "  zipped_divide((16,32):(32,1), (3,5,7))",
        "                                ^^^^^^^",
        "  help: a tiler has at most one entry for each mode",
    ]


def test_a_wrong_expression_as_json() -> None:
    result = layout("zippd_divide(4, 2)", "--format", "json")
    assert result.exit_code == 2 and json.loads(result.stdout) == {
        "verb": "layout",
        "ok": False,
        "exit_code": 2,
        "expression": "zippd_divide(4, 2)",
        "error": "there is no function `zippd_divide`",
        "offset": 0,
        "length": 12,
        "help": "did you mean `zipped_divide`?",
    }


def test_help_lists_every_function() -> None:
    text = layout("--help").stdout
    assert all(f"{function.name}(" in text for function in FUNCTIONS.values())
    assert all(function.summary for function in FUNCTIONS.values())


def test_wrong_use() -> None:
    assert layout().exit_code == 2 and "EXPR" in layout().stderr
    assert layout("4:1", "2:1").exit_code == 2


def test_it_starts_without_the_compiler_and_torch() -> None:
    code = (
        "import sys\nfrom cutegen.cli import cli\n"
        "cli(['layout', 'zipped_divide((16,32):(32,1), (2,4))'], standalone_mode=False)\nprint(*sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    heavy = {"torch", "cutlass", "numpy", "matplotlib", "rich", "jsonschema", "jinja2", "cutegen.compiling"}
    assert done.stdout.startswith("((2,4),(8,8))") and not heavy & set(done.stdout.split())
