"""Which lines of a module come from which key of its spec.

Templates say so: `{% region "schedule.mma", "multiply-add" %}` ... `{% endregion %}` prints a mark on a line of its own
before and after what it encloses. `separate` takes the marks out again, so the text is what it would be without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from cutegen.language.kinds import Path

# Starts the line of a mark. No spec can hold it: YAML does not allow the character.
_MARK = "\0"


@dataclass(frozen=True)
class Region:
    """Lines of a module, both included and counted from 1, that say what the spec says at `path`.

    `path` is a key of the resolved spec, which may have been left out of the written one: `("schedule", "copies",
    "A")`. Where several keys decide a line together it is the one that the line exists for. `name` says what the lines
    are: `copy of A`.
    """

    first_line: int
    last_line: int
    path: Path
    name: str

    @property
    def key(self) -> str:
        """The path as people write it, such as `schedule.copies.A`."""
        return ".".join(map(str, self.path))


def region_at(regions: tuple[Region, ...], line: int) -> Region | None:
    """The innermost region that holds a line, or None: the line is the same for every spec."""
    return next((r for r in reversed(regions) if r.first_line <= line <= r.last_line), None)


def shifted(regions: tuple[Region, ...], lines: int) -> tuple[Region, ...]:
    """The regions of a text that stands `lines` further down."""
    return tuple(Region(r.first_line + lines, r.last_line + lines, r.path, r.name) for r in regions)


def separate(marked: str) -> tuple[str, tuple[Region, ...]]:
    """The text without its marks, and the regions that they stand for: in the order of the text, outer ones first.

    A region without lines, or with an empty path, is left out. Raises ValueError for a mark inside of a line.
    """
    lines: list[str] = []
    found: list[Region | None] = []  # None: still open
    open_: list[tuple[int, int, str, str]] = []
    for line in marked.split("\n"):  # not splitlines, which also splits at characters that a summary may have
        mark = line.lstrip(" ")  # a part that is printed inside of a loop is indented whole
        if not mark.startswith(_MARK):
            if _MARK in line:
                raise ValueError(f"a region starts or ends inside of a line: {line!r}")
            lines.append(line)
        elif mark != _MARK:
            _, path, name = mark.split(_MARK)
            open_.append((len(found), len(lines) + 1, path, name))
            found.append(None)
        else:
            place, first, path, name = open_.pop()
            if path and first <= len(lines):
                steps = tuple(int(step) if step.isdecimal() else step for step in path.split("."))
                found[place] = Region(first, len(lines), steps, name)
    return "\n".join(lines), tuple(region for region in found if region is not None)


def marked(text: str, regions: Sequence[Region]) -> str:
    """The text with marks for regions, which are outer ones first; `separate` takes them out again."""
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        lines += [f"{_MARK}{r.key}{_MARK}{r.name}" for r in regions if r.first_line == number]
        lines.append(line)
        lines += [_MARK for r in regions if r.last_line == number]
    return "\n".join(lines)


def begin(path: str, name: str) -> tuple[str, ...]:
    """The lines that mark where a region begins."""
    return (f"{_MARK}{path}{_MARK}{name}",)


def end() -> tuple[str, ...]:
    """The lines that mark where a region ends."""
    return (_MARK,)


class RegionTag(Extension):
    """The tag `{% region PATH, NAME %}` ... `{% endregion %}`, each on a line of its own.

    PATH and NAME are expressions, PATH dotted.
    """

    tags = {"region"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        line = next(parser.stream).lineno
        path = parser.parse_expression()
        parser.stream.expect("comma")
        name = parser.parse_expression()
        body = parser.parse_statements(("name:endregion",), drop_needle=True)
        begin = nodes.Output([self.call_method("_begin", [path, name])], lineno=line)
        return [begin, *body, nodes.Output([self.call_method("_end")], lineno=line)]

    def _begin(self, path: str, name: str) -> str:
        return "".join(f"{line}\n" for line in begin(path, name))

    def _end(self) -> str:
        return "".join(f"{line}\n" for line in end())
