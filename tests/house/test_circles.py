"""Files, and rooms of files, stand above what they import: no import leads back to where it came from.

Every import counts, also one inside of a function and one for types only. A room is a folder of `cutegen/`, or a file
that stands there alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import pytest

import cutegen

PACKAGE = Path(cutegen.__file__).parent
FILES = {
    ".".join(("cutegen", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in sorted(PACKAGE.rglob("*.py"))
}
Graph = Mapping[str, Set[str]]


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a tree, and the parts of statements that have others in them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from statements(node)


def imported(text: str, files: Set[str]) -> Iterator[str]:
    """Those of the files that a text imports, wherever in it: of `from a import b` it is `a.b` if that is a file."""
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, "imports say where from, from `cutegen` on"
            named = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in files else node.module for name in named)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def graph_of(texts: Mapping[str, str]) -> Graph:
    """The imports among files."""
    files = texts.keys()
    return {name: {other for other in imported(text, files) if other in files} - {name} for name, text in texts.items()}


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def rooms_of(graph: Graph) -> Graph:
    """The imports among rooms."""
    found: dict[str, set[str]] = {}
    for name, others in graph.items():
        found.setdefault(room_of(name), set()).update({room_of(other) for other in others} - {room_of(name)})
    return found


def circles(graph: Graph) -> list[set[str]]:
    """The largest sets of nodes each of which leads to each other one of its set."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            new = graph[ahead.pop()] - seen
            seen |= new
            ahead += new
        reached[start] = seen
    found: list[set[str]] = []
    for node, others in reached.items():
        if node in others and not any(node in circle for circle in found):
            found.append({other for other in others if node in reached[other]})
    return found


@cache
def house() -> Graph:
    """The imports among the files of cutegen."""
    return graph_of({name: file.read_text(encoding="utf-8") for name, file in FILES.items()})


def test_imports_are_found_wherever_they_are() -> None:
    late = "def f():\n    from cutegen.b import g\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from cutegen import a\n"
    graph = graph_of({"cutegen": "", "cutegen.a": late, "cutegen.b": "import cutegen.c.d", "cutegen.c.d": typed})
    assert [*graph.values()] == [set(), {"cutegen.b"}, {"cutegen.c.d"}, {"cutegen.a"}]
    assert circles(graph) == [{"cutegen.a", "cutegen.b", "cutegen.c.d"}]
    assert circles(rooms_of({"cutegen.a.x": {"cutegen.b.x"}, "cutegen.b.x": set(), "cutegen.b.y": {"cutegen.a.x"}}))


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(house()) == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    rooms = rooms_of(house())
    found = circles(rooms)
    tied = [(name, other) for circle in found for name in house() for other in house()[name] if room_of(name) in circle]
    assert found == [], [(name, other) for name, other in tied if room_of(name) != room_of(other)]


def test_the_lowest_room_of_families_imports_nothing() -> None:
    assert house()["cutegen.registry"] == set()


@pytest.mark.parametrize("asked", sorted(file.parent.name for file in PACKAGE.glob("*/asked.py")))
def test_a_room_lists_what_it_asks_of_families_and_no_more(asked: str) -> None:
    """Others may take the list of a room below."""
    tree = ast.parse((PACKAGE / asked / "asked.py").read_text(encoding="utf-8"))
    listed = {
        member.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in ("Family", "Op")
        for member in node.body
        if isinstance(member, ast.FunctionDef) and member.name != "__hash__"
    }
    room = f"cutegen.{asked}"
    takers = {name for name, others in house().items() if room_of(name) == room or f"{room}.asked" in others}
    named = {
        node.attr
        for name in takers
        for node in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }
    assert listed and listed <= named
