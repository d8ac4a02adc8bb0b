"""Lines of statements that stand further in than they were laid out for."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from textwrap import wrap

from cutegen.cases.trees import Unmergeable
from cutegen.codegen.formatting import WIDTH, Item, call, display, product, width_of


def further_in(lines: Sequence[str], column: int) -> list[str]:
    """The lines of a statement, of its head, or of comments, from that column on. Where it is too long, its brackets
    are opened, and comments go on in the next line.
    """
    pad = " " * column
    if all(not line or line.startswith("#") for line in lines):
        wrapped = (wrap(line, WIDTH - column, subsequent_indent="# ") or [""] for line in lines)
        return [pad + line if line else line for of_line in wrapped for line in of_line]
    if all(column + width_of(line) <= WIDTH for line in lines):
        return [pad + line if line else line for line in lines]
    text = _flat(lines)
    try:
        (statement,) = ast.parse(text).body
    except SyntaxError as problem:
        raise Unmergeable(f"too long to stand further in: {text}") from problem
    value = getattr(statement, "value", None)
    if "#" in text or value is None:
        raise Unmergeable(f"too long to stand further in: {text}")
    head = text[: value.col_offset]
    if isinstance(value, ast.Call):
        opened = call(*_opened(text, value), column)
    elif isinstance(value, ast.Tuple):
        items = [text[one.col_offset : one.end_col_offset] for one in value.elts]
        opened = display(f"{head}(", items, ")", column)
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult) and text.endswith(")"):
        times = text.index(" * ", value.left.end_col_offset)
        opened = product(head, [text[len(head) : times], text[times + 3 :]], column)
    else:
        opened = f"{head}(\n{pad}    {text[value.col_offset :]}\n{pad})"
    found = (pad + opened).split("\n")
    if any(width_of(line) > WIDTH for line in found):
        raise Unmergeable(f"too long to stand further in: {text}")
    return found


def _flat(lines: Sequence[str]) -> str:
    """A statement in one line."""
    text = " ".join(line.strip() for line in lines)
    return re.sub(r",? ([)\]])", r"\1", re.sub(r"([(\[]) ", r"\1", text))


def _opened(text: str, called: ast.Call) -> tuple[str, list[Item], str]:
    """A call at the end of a text, as its head, its arguments, and its tail."""
    values = [*called.args, *(one.value for one in called.keywords)]
    starts = [*(one.col_offset for one in called.args), *(one.col_offset for one in called.keywords)]
    spans = sorted(zip(starts, values, strict=True), key=lambda span: span[0])
    items: list[Item] = []
    for start, value in spans:
        whole = text[start : value.end_col_offset]
        if isinstance(value, ast.Call) and (value.args or value.keywords) and start == value.col_offset:
            head, inner, tail = _opened(text[: value.end_col_offset], value)
            items.append((head[start:], inner, tail))
        else:
            items.append(whole)
    return text[: spans[0][0]], items, ")"
