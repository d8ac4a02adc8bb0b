"""Text layout of generated Python, as `ruff format` has it at WIDTH columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TypeAlias

from tensor_layouts import Layout

from cutegen.layouts import format_layout

WIDTH = 100

# Names that will be replaced in a text once it is laid out, and by what
_LATER: ContextVar[Mapping[str, str] | None] = ContextVar("later", default=None)


@contextmanager
def replaced_later(names: Mapping[str, str]) -> Iterator[None]:
    """While this is entered, text is laid out as if these names were replaced already, as `replaced` will do."""
    token = _LATER.set(names)
    try:
        yield
    finally:
        _LATER.reset(token)


def replaced(text: str, names: Mapping[str, str]) -> str:
    """A text of Python in which names are replaced; not attributes, which follow a dot."""
    if not names:
        return text
    return _any_of(tuple(names)).sub(lambda found: names[found[1]], text)


@lru_cache(maxsize=64)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """The pattern that matches these names; cached, as it is slow to build and the same for every line of a kernel."""
    return re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, names))})(?!\w)")


def width_of(text: str) -> int:
    """Columns that a line takes, once its names are replaced."""
    names = _LATER.get()
    return len(replaced(text, names)) if names else len(text)


def python_tuple(shape: object) -> str:
    """A shape as a Python tuple, `((8,32),(8,4))` as `((8, 32), (8, 4))`; a tuple of one keeps its comma."""
    if isinstance(shape, tuple | list):
        inner = ", ".join(python_tuple(s) for s in shape)
        return f"({inner},)" if len(shape) == 1 else f"({inner})"
    return str(shape)


def one_or_tuple(items: Sequence[str]) -> str:
    """One text as it is, and several as a tuple."""
    return items[0] if len(items) == 1 else python_tuple(items)


def documentation(text: str) -> str:
    """A text on one line, escaped for a docstring: it reads back unchanged."""
    line = " ".join(text.split()).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


# Text, or a bracketed list that may be opened in its turn
Item: TypeAlias = "str | tuple[str, Sequence[Item], str]"


def _flat(item: Item) -> str:
    """An item in one line."""
    return item if isinstance(item, str) else f"{item[0]}{', '.join(map(_flat, item[1]))}{item[2]}"


def call(head: str, items: Sequence[Item], tail: str, indent: int, width: int = WIDTH, behind: int = 0) -> str:
    """The text of `head`, items and `tail`: in one line, else with the items indented, else with one item a line.

    `indent` is the column at which the text starts, `width` the number of columns, including those of the text `behind`
    it.
    """
    flat_items = [_flat(item) for item in items]
    flat = f"{head}{', '.join(flat_items)}{tail}"
    if indent + width_of(flat) + behind <= width:
        return flat
    pad = " " * (indent + 4)
    body = pad + ", ".join(flat_items)
    if width_of(body) > width:
        opened = [
            text
            if isinstance(item, str) or len(pad) + width_of(text) < width
            else call(*item, indent + 4, width, behind=1)
            for item, text in zip(items, flat_items, strict=True)
        ]
        body = "\n".join(f"{pad}{item}," for item in opened)
    return f"{head}\n{body}\n{' ' * indent}{tail}"


def display(head: str, items: Sequence[str], tail: str, indent: int) -> str:
    """The text of `head`, the items of a list, tuple or dict, and `tail`: in one line, else with one item a line."""
    flat = f"{head}{', '.join(items)}{tail}"
    if indent + width_of(flat) <= WIDTH:
        return flat
    pad = " " * (indent + 4)
    return f"{head}\n" + "".join(f"{pad}{item},\n" for item in items) + f"{' ' * indent}{tail}"


def launch(
    kernel: str,
    arguments: Sequence[str],
    grid: str,
    block: str = "THREADS, 1, 1",
    indent: int = 8,
    more: Sequence[str] = (),
) -> str:
    """The launch statement of a kernel, with `more` options: the last pair of brackets is opened first.

    It starts at the column `indent`. `grid` has the extents along x, y and z, or is the variable that has them.
    """
    options = [f"grid={grid}" if grid.isidentifier() else f"grid=[{grid}]", f"block=[{block}]", *more, "stream=stream"]
    head = f"{kernel}({', '.join(arguments)}).launch("
    if indent + width_of(head) <= WIDTH:
        return call(head, options, ")", indent)
    tail = f").launch({', '.join(options)})"
    if indent + width_of(tail) <= WIDTH:
        return call(f"{kernel}(", arguments, tail, indent)
    opened = call(f"{kernel}(", arguments, ").launch(", indent)
    lines = "".join(f"{' ' * (indent + 4)}{option},\n" for option in options)
    return f"{opened}\n{lines}{' ' * indent})"


def chain(head: str, terms: Sequence[str], operator: str, indent: int, tail: str = "", width: int = WIDTH) -> str:
    """`head`, the terms joined by an operator, and `tail`.

    Where that is too long, the terms stand in parentheses, in one line or a term a line.
    """
    flat = head + operator.join(terms) + tail
    if indent + width_of(flat) <= width:
        return flat
    pad = " " * (indent + 4)
    inside = pad + operator.join(terms)
    if width_of(inside) <= width:
        return f"{head}(\n{inside}\n{' ' * indent}){tail}"
    lines = [f"{pad}{terms[0]}", *(f"{pad}{operator.strip()} {term}" for term in terms[1:])]
    return head + "(\n" + "\n".join(lines) + "\n" + " " * indent + ")" + tail


def product(head: str, factors: Sequence[str], indent: int) -> str:
    """`head` and factors joined by `*`: where two are too long for a line, the brackets of the last are opened."""
    flat = head + " * ".join(factors)
    opens = flat.find("(", len(flat) - len(factors[-1]))
    if len(factors) != 2 or indent + width_of(flat) <= WIDTH or not flat.endswith(")") or opens < 0:
        return chain(head, factors, " * ", indent)
    pad = " " * indent
    return f"{flat[: opens + 1]}\n{pad}    {flat[opens + 1 : -1]}\n{pad})"


def make_layout(layout: Layout | None) -> str:
    """The CuTeDSL call that makes a layout."""
    assert layout is not None
    return f"cute.make_layout({python_tuple(layout.shape)}, stride={python_tuple(layout.stride)})"


def assign_layout(name: str, layout: Layout | None, indent: int) -> str:
    """The statement that makes a layout and names it, from the column `indent` on."""
    assert layout is not None
    items = [python_tuple(layout.shape), f"stride={python_tuple(layout.stride)}"]
    return call(f"{name} = cute.make_layout(", items, ")", indent)


def comment_layout(layout: Layout | None) -> str:
    assert layout is not None
    return format_layout(layout)


def commented(line: str, comment: str) -> list[str]:
    """A line of a module with a comment, which stands on a line above where both together are too long."""
    whole = f"{line}  # {comment}"
    return [whole] if len(whole) <= WIDTH else [f"# {comment[0].upper()}{comment[1:]}", line]
