"""Functions as trees of statements, several of which become one.

A statement stands in the merged tree once for all that have it. Where it is one of some only, whoever prints the tree
says on what condition.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain

from cutegen.codegen.merging import Definition
from cutegen.codegen.regions import Region


class Unmergeable(Exception):
    """Functions cannot be one."""


Stacks = Mapping[int, tuple[Region, ...]]  # by the number of a case: the regions that a line is in, outer ones first


@dataclass(frozen=True)
class Line:
    """A line of a statement, without the columns that this is indented by."""

    text: str
    stacks: Stacks
    column: int = 0  # that the statement was indented by

    def also(self, other: Line) -> Line:
        """The line where others have it, too."""
        return replace(self, stacks={**self.stacks, **other.stacks})


@dataclass(frozen=True, eq=False)
class Node:
    """A statement: the comments and empty lines before it, and its lines, each of which a block may follow.

    It equals itself alone: what is asked of the same nodes again and again is kept by these.
    """

    notes: tuple[Line, ...]
    branches: tuple[Branch, ...]
    of: frozenset[int]  # the functions that have it, of those that are merged

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """Its text but for what stands in its blocks."""
        return tuple(line.text for branch in self.branches for line in branch.head)

    @cached_property
    def size(self) -> int:
        """How many statements it has, itself among them."""
        return 1 + sum(node.size for branch in self.branches for node in branch.body)


@dataclass(frozen=True)
class Branch:
    """Lines of a statement and the block that follows them, which a simple statement has none of."""

    head: tuple[Line, ...]
    body: tuple[Node, ...] = ()


def tree_of(definitions: Mapping[int, Definition], number: int) -> Node:
    """A function that cases have alike, by the numbers of these; `number` is its own among those that are merged.

    Raises Unmergeable for statements that are not known here.
    """
    text = next(iter(definitions.values())).text
    (function,) = ast.parse(text).body
    if not isinstance(function, ast.FunctionDef) or any(one.text != text for one in definitions.values()):
        raise Unmergeable("only functions that cases have alike are merged")
    rows = text.count("\n") + 1
    stacks = {case: _stacks(one.regions, rows) for case, one in definitions.items()}
    lines = [
        Line(line, {case: of_rows[row] for case, of_rows in stacks.items()})
        for row, line in enumerate(text.split("\n"))
    ]
    return _Reader(lines, frozenset({number})).statement(function, 1)


def _stacks(regions: Iterable[Region], rows: int) -> list[tuple[Region, ...]]:
    """Of each line the regions that it is in, without their lines."""
    found: list[list[Region]] = [[] for _ in range(rows)]
    for r in regions:
        bare = Region(0, 0, r.path, r.name)
        for row in found[r.first_line - 1 : r.last_line]:
            row.append(bare)
    return list(map(tuple, found))


class _Reader:
    """Reads the statements of some lines, which all belong to one function."""

    def __init__(self, lines: Sequence[Line], of: frozenset[int]) -> None:
        self._lines, self._of = lines, of

    def statement(self, node: ast.stmt, first: int) -> Node:
        """A statement, with the comments before it from the line `first` on."""
        start = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        own = replace(Node((), (), self._of), notes=self._cut(first, start - 1, node.col_offset))
        return replace(own, branches=tuple(self._branches(node, start)))

    def _branches(self, node: ast.stmt, start: int) -> Iterator[Branch]:
        end = node.end_lineno or start
        if not isinstance(node, ast.FunctionDef | ast.If | ast.For | ast.With):
            if isinstance(node, ast.While | ast.Try | ast.ClassDef | ast.Match):
                raise Unmergeable(f"a statement of line {node.lineno} is not known")
            yield Branch(self._cut(start, end, node.col_offset))
            return
        yield self._branch(start, node.body, node.col_offset)
        otherwise = node.orelse if isinstance(node, ast.If | ast.For) else []
        if otherwise:
            if otherwise[0].col_offset == node.col_offset:
                raise Unmergeable(f"the statement of line {node.lineno} has `elif`")
            yield self._branch((node.body[-1].end_lineno or 0) + 1, otherwise, node.col_offset)

    def _branch(self, first: int, body: Sequence[ast.stmt], column: int) -> Branch:
        last = body[0].lineno - 1
        while self._is_note(last):
            last -= 1
        return Branch(self._cut(first, last, column), tuple(self._body(body, last + 1)))

    def _body(self, body: Sequence[ast.stmt], first: int) -> Iterator[Node]:
        for one in body:
            yield self.statement(one, first)
            first = (one.end_lineno or first) + 1

    def _is_note(self, row: int) -> bool:
        text = self._lines[row - 1].text.strip()
        return not text or text.startswith("#")

    def _cut(self, first: int, last: int, column: int) -> tuple[Line, ...]:
        return tuple(Line(line.text[column:], line.stacks, column) for line in self._lines[first - 1 : last])


# -------------------------------------------------------------------------------------------------------------- merging


def merged(node: Node, other: Node) -> Node:
    """Two statements with the same heads as one."""
    branches = (
        Branch(_lines(one.head, two.head), merged_bodies(one.body, two.body))
        for one, two in zip(node.branches, other.branches, strict=True)
    )
    return Node(_notes(node.notes, other.notes), tuple(branches), node.of | other.of)


def merged_bodies(body: tuple[Node, ...], other: tuple[Node, ...]) -> tuple[Node, ...]:
    """The statements of two blocks, those that they share as one, in the order of both."""
    pairs = _paired(body, other)
    found: list[Node] = []
    here = there = 0
    for i, j in (*pairs, (len(body), len(other))):
        found += (*body[here:i], *other[there:j])
        if i < len(body):
            found.append(merged(body[i], other[j]))
        here, there = i + 1, j + 1
    return tuple(found)


def shared(body: tuple[Node, ...], other: tuple[Node, ...]) -> int:
    """How many statements two blocks have alike, in blocks of theirs, too."""
    return sum(_alike(body[i], other[j]) for i, j in _paired(body, other))


def _alike(node: Node, other: Node) -> int:
    """How many statements two have alike; 0 where their heads are not."""
    if node.heads != other.heads or len(node.branches) != len(other.branches):
        return 0
    bodies = ((one.body, two.body) for one, two in zip(node.branches, other.branches, strict=True))
    return 1 + sum(shared(one, two) for one, two in bodies)


@lru_cache(maxsize=4096)  # of inner blocks it is asked for each block that they are in
def _paired(body: tuple[Node, ...], other: tuple[Node, ...]) -> tuple[tuple[int, int], ...]:
    """The places of the statements that two blocks share: as many as there can be without changing their order."""
    alike = [[_alike(node, one) for one in other] for node in body]
    best = [[0] * (len(other) + 1) for _ in range(len(body) + 1)]
    for i in reversed(range(len(body))):
        for j in reversed(range(len(other))):
            taken = alike[i][j] + best[i + 1][j + 1] if alike[i][j] else 0
            best[i][j] = max(taken, best[i + 1][j], best[i][j + 1])
    found, i, j = [], 0, 0
    while i < len(body) and j < len(other):
        if alike[i][j] and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return tuple(found)


def _lines(lines: Sequence[Line], other: Sequence[Line]) -> tuple[Line, ...]:
    return tuple(one.also(two) for one, two in zip(lines, other, strict=True))


def _notes(notes: Sequence[Line], other: Sequence[Line]) -> tuple[Line, ...]:
    """Comments of one and of the other: those that both have once."""
    texts = [line.text for line in other]
    mine = [line.also(other[texts.index(line.text)]) if line.text in texts else line for line in notes]
    there = {line.text for line in notes}
    return tuple(chain(mine, (line for line in other if line.text not in there)))
