"""Statements as the text of a module, with the marks of regions, each by its template in `parts/templates/`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import lru_cache, partial
from typing import Any

from jinja2 import Environment, Template, pass_context
from jinja2.runtime import Context

from cutegen.codegen.formatting import WIDTH, call
from cutegen.codegen.regions import begin, end
from cutegen.parts.statements import Included, Region, Statement

_INDENT = 4


@pass_context
def printed(context: Context, body: Iterable[Statement], column: int) -> str:
    """The text of statements that start at a column, for a template that prints them where it stands.

    What they include sees what that template sees.
    """
    return "".join(f"{line}\n" for line in _Printer(context).lines(body, column))


class _Printer:
    def __init__(self, context: Context) -> None:
        self._context: Context = context
        self._environment: Environment = context.environment

    def lines(self, body: Iterable[Statement], column: int) -> Iterator[str]:
        """The lines of statements, without their ends."""
        for statement in body:
            if isinstance(statement, Region):
                yield from begin(statement.path, statement.what)
                yield from self.lines(statement.body, column)
                yield from end()
                continue
            if isinstance(statement, Included):
                indent = column if statement.indent is None else statement.indent
                template = self._environment.get_template(statement.template_name)
                yield from _indented(template.render(self._context.get_all()), indent)
                continue
            if statement.template:
                yield from self._own(statement, column)

    def _own(self, statement: Statement, column: int) -> Iterator[str]:
        """The lines of a statement of a template, and of what stands inside of it.

        Where it has a region, that is of its first lines and the statements that open its body.
        """
        region = statement.region
        if region is not None:
            yield from begin(*region)
        yield from _indented(self._head(statement, column), column)
        for before, inner in statement.parts:
            if before:
                yield " " * column + before
            elif region is not None:
                yield from self.lines(inner[: statement.opening], column + _INDENT)
                yield from end()
                inner = inner[statement.opening :]
            yield from self.lines(inner, column + _INDENT)

    def _head(self, statement: Statement, column: int) -> str:
        """The lines of a statement before what stands inside of it, from column 0, laid out for `column`."""
        own: dict[str, Any] = {f.name: getattr(statement, f.name) for f in fields(statement)}
        derived = {name: getattr(statement, name) for name in ("place",) if hasattr(statement, name)}
        template = self._environment.get_template(f"parts/{statement.template}.j2")
        # Laid out from column 0, in what is left of a line
        seen = {**_known(template), **own, **derived, "fit": partial(_fitted, WIDTH - column)}
        context = self._environment.context_class(self._environment, seen, template.name, template.blocks)
        return "".join(template.root_render_func(context))


@lru_cache(maxsize=256)
def _known(template: Template) -> dict[str, Any]:
    """A template's globals as a dict; cached, as its own `render` would build it anew for each of many statements."""
    return dict(template.globals)


def _fitted(width: int, head: str, items: Sequence[str], tail: str) -> str:
    return call(head, items, tail, 0, width)


def _indented(text: str, column: int) -> Iterator[str]:
    """The lines of a text, further in."""
    for line in text.removesuffix("\n").split("\n") if text else ():
        yield " " * column + line if line else line
