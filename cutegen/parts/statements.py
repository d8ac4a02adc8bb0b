"""The statements that roles of a kernel are made of: how each is printed, and what it does to barriers and memory.

A statement's fields are what its template in `templates/` prints, most of them text of Python that proofs evaluate too:
a wrong index is wrong in the kernel and in its proof. What a statement does is its `acts`. Where a field is not printed
(what a stage must hold, what included lines do), a proof takes it as it is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from cutegen.parts.acting import Acting
from cutegen.parts.acts import Act


@dataclass(frozen=True)
class Statement:
    """One that does nothing to barriers and memory, unless its class says so.

    `template` is the name of its template without `.j2`; empty for what prints its body alone.
    """

    template: ClassVar[str] = ""

    @property
    def region(self) -> tuple[str, str] | None:
        """The path and the name of a region that its first lines and the first statements inside of it are of."""
        return None

    @property
    def opening(self) -> int:
        """How many of these statements there are."""
        return 0

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[Statement]]]:
        """The bodies inside the statement, each with the line that precedes it; that is empty for the first body."""
        return ()

    def acts(self, at: Acting) -> Iterator[Act]:
        """The acts of an agent that goes through the statement."""
        return iter(())


Body = tuple[Statement, ...]


def body_acts(body: Sequence[Statement], at: Acting) -> Iterator[Act]:
    """Yields the acts of the statements of a body, in order."""
    for statement in body:
        yield from statement.acts(at)


@dataclass(frozen=True)
class Region(Statement):
    """Statements that the spec says something of: `path` is the dotted key, `what` says what they are."""

    path: str
    what: str
    body: Body

    def acts(self, at: Acting) -> Iterator[Act]:
        return body_acts(self.body, at)


@dataclass(frozen=True)
class Note(Statement):
    """A comment."""

    template = "note"
    text: str


@dataclass(frozen=True)
class Blank(Statement):
    """An empty line."""

    template = "blank"


@dataclass(frozen=True)
class Code(Statement):
    """Python that nothing else in the tree depends on: a call's head, its items and tail, or a line, in `head`.

    An item is a text, or a list in brackets that may be opened in its turn: its head, items and tail.
    """

    template = "code"
    head: str
    items: tuple[object, ...] = ()
    tail: str = ""


@dataclass(frozen=True)
class Included(Statement):
    """Lines that a template of the family prints; nothing else in the tree depends on them.

    `template_name` is the template's name in the family's environment. Its lines are indented by `indent` columns, or
    as the statement is.
    """

    template_name: str
    indent: int | None = None
    does: Body = ()  # what its lines do, of which nothing is printed

    def acts(self, at: Acting) -> Iterator[Act]:
        return body_acts(self.does, at)


@dataclass(frozen=True)
class Let(Statement):
    """`targets = value`, or with `+` as `by` an update; of an array an element, at an `index`, which stands for all."""

    template = "let"
    targets: str
    value: str
    by: str = ""
    index: str = ""
    note: str = ""

    def acts(self, at: Acting) -> Iterator[Act]:
        at.let(self.targets, f"({self.targets}) {self.by} ({self.value})" if self.by else self.value)
        return iter(())


@dataclass(frozen=True)
class If(Statement):
    """A condition, statements where it holds, and others where it does not. `head` are the first statements under it;
    the spec sets them and the condition by `key`, a path and a name.
    """

    template = "if"
    condition: str
    body: Body
    otherwise: Body = ()
    head: Body = ()
    key: tuple[str, str] | None = None

    @property
    def region(self) -> tuple[str, str] | None:
        return self.key

    @property
    def opening(self) -> int:
        return len(self.head)

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[Statement]]]:
        return [("", (*self.head, *self.body)), *[("else:", self.otherwise)] * bool(self.otherwise)]

    def acts(self, at: Acting) -> Iterator[Act]:
        for some, body in zip(at.where(self.condition), ((*self.head, *self.body), self.otherwise), strict=True):
            if some is not None:
                yield from body_acts(body, some)


@dataclass(frozen=True)
class For(Statement):
    """A loop over what a text gives: `cutlass.range(k_tiles, unroll=1)`. `head` are its first statements; the spec sets
    them and the loop itself by `key`, a path and a name.
    """

    template = "for"
    variable: str
    over: str
    body: Body
    head: Body = ()
    key: tuple[str, str] | None = None

    @property
    def region(self) -> tuple[str, str] | None:
        return self.key

    @property
    def opening(self) -> int:
        return len(self.head)

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[Statement]]]:
        return [("", (*self.head, *self.body))]

    def acts(self, at: Acting) -> Iterator[Act]:
        for value in at.value(self.over):
            at.variables[self.variable] = value
            yield from body_acts((*self.head, *self.body), at)


@dataclass(frozen=True)
class Elected(Statement):
    """Statements for one thread of a warp."""

    template = "elected"
    body: Body

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[Statement]]]:
        return [("", self.body)]

    def acts(self, at: Acting) -> Iterator[Act]:
        return body_acts(self.body, at.elected())
