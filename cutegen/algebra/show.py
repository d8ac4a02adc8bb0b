"""Evaluations as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tensor_layouts import ComposedLayout, Layout

from cutegen.algebra.evaluate import Evaluation
from cutegen.algebra.facts import all_offsets, facts
from cutegen.algebra.steps import Step
from cutegen.algebra.syntax import AlgebraError
from cutegen.algebra.values import NotDefined, Table, ThreadValue, Value, text_of
from cutegen.layouts import MAX_ENUMERATED, elements, first_offsets, modes_of

MAX_GRID = 1024  # coordinates of a layout that is small enough to be shown as a grid
_WHY_COLUMN = 72
_AROUND = 60  # characters of an expression that are shown on either side of an error


def layout_of(value: Value) -> Layout | ComposedLayout | None:
    """The layout that a value is, or has."""
    if isinstance(value, ThreadValue):
        return value.layout
    return value if isinstance(value, (Layout, ComposedLayout)) else None


def text(evaluation: Evaluation, width: int, height: int, *, grid: bool) -> list[str]:
    """The result, what is true of it, how it was derived, and a small layout's offsets, in lines for a terminal."""
    value = evaluation.value
    layout = layout_of(value)
    lines = _result_lines(value)
    if layout is not None:
        lines.append(facts(layout).text())
    lines += [f"note: {note}" for note in evaluation.notes]
    if evaluation.steps:
        lines += ["", *map(_step_line, evaluation.steps)]
    if grid and isinstance(value, (Layout, ComposedLayout)):
        lines += _grid(value, width, height)
    return lines


def _result_lines(value: Value) -> list[str]:
    if isinstance(value, ThreadValue):
        return aligned([("tiler", text_of(value.tiler)), ("layout", text_of(value.layout))])
    if isinstance(value, Table):
        return aligned([(name, text_of(layout), arranged) for name, layout, arranged in value.rows])
    return [text_of(value)]


def _step_line(step: Step) -> str:
    line = "  " * step.depth + step.expression + (f" = {step.value}" if step.value is not None else "")
    return f"{line.ljust(_WHY_COLUMN)}  {step.why}" if step.why else line


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, columns two spaces apart."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def _grid(layout: Layout | ComposedLayout, width: int, height: int) -> list[str]:
    """The offsets of a layout of one or two modes: a row for each coordinate of mode 0, a column for each of mode 1.

    A layout of one mode is a row. What does not fit into the terminal is left out, and said.
    """
    rank = 1 if isinstance(layout.shape, int) else len(layout.shape)
    total = elements(layout.shape)
    if rank > 2 or not 1 < total <= MAX_GRID:
        return []
    rows = 1 if rank == 1 else elements(layout.shape[0])
    columns = total // rows
    found = all_offsets(layout, total)
    cell = max(len(str(columns - 1)), max(len(str(offset)) for offset in found)) + 1
    margin = len(str(rows - 1)) + 2 if rank == 2 else 0
    shown_rows, shown_columns = min(rows, max(4, height)), min(columns, max(1, (width - margin) // cell))
    header = "".join(str(column).rjust(cell) for column in range(shown_columns))
    lines = ["", " " * margin + header, " " * margin + "-" * len(header)]
    for row in range(shown_rows):
        start = f"{row}".rjust(margin - 2) + " |" if rank == 2 else ""
        lines.append(start + "".join(str(found[row + rows * j]).rjust(cell) for j in range(shown_columns)))
    cut = [f"{shown} of {count} {what}" for shown, count, what in
           ((shown_rows, rows, "rows"), (shown_columns, columns, "columns")) if shown < count]  # fmt: skip
    return [*lines, f"({' and '.join(cut)} are shown)"] if cut else lines


def thread_offsets(value: Value) -> tuple[int, int, list[list[int]]]:
    """Threads, values a thread, and the offsets of each thread's values: of at most 65536 values, whole threads.

    Raises `NotDefined` for what is not a layout (thread, value).
    """
    layout = layout_of(value)
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    parts = modes_of(inner) if inner is not None else []
    if layout is None or len(parts) != 2:
        have = f"this one has {len(parts)}" if parts else "this is none"
        help = "group_modes(L, 0, 2) makes one mode of two" if len(parts) > 2 else "((2,2),(2,3)):((2,12),(1,4))"
        raise NotDefined(f"threads and values need a layout of two modes, (thread, value), and {have}", help)
    threads, values = (elements(part.shape) for part in parts)
    each = first_offsets(parts[1], min(values, MAX_ENUMERATED))
    starts = first_offsets(parts[0], max(1, MAX_ENUMERATED // len(each)))
    found = [[start + offset for offset in each] for start in starts]
    if isinstance(layout, ComposedLayout):
        found = [[layout.outer(layout.offset + offset) for offset in row] for row in found]
    return threads, values, found


def threads_text(value: Value, width: int, height: int) -> list[str]:
    """A line for each thread with the offsets of its values. What does not fit is left out, and said."""
    threads, values, found = thread_offsets(value)
    found = found[: max(4, height)]
    cell = max(len(str(offset)) for row in found for offset in row) + 1
    shown = min(len(found[0]), max(1, (width - len("thread ")) // cell))
    lines = ["thread" + " " * (max(1, cell - 1)) + "values"]
    for thread, row in enumerate(found):
        lines.append(str(thread).rjust(len("thread")) + " " + "".join(str(o).rjust(cell) for o in row[:shown]))
    cut = [f"{part} of {count} {what}" for part, count, what in
           ((len(found), threads, "threads"), (shown, values, "values of each")) if part < count]  # fmt: skip
    return [*lines, f"({' and '.join(cut)} are shown)"] if cut else lines


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """`{expression, result, notes, steps}`. Tuples are lists, and `kind` says which keys a result has."""
    return {
        "expression": evaluation.expression,
        "result": value_json(evaluation.value),
        "notes": list(evaluation.notes),
        "steps": [
            {"expression": step.expression, "value": step.value, "why": step.why, "depth": step.depth}
            for step in evaluation.steps
        ],
    }


def value_json(value: Value) -> dict[str, Any]:
    """A value with its kind: integer, tuple, layout, swizzled, swizzle, thread_value or table."""
    if isinstance(value, Table):
        rows = [{"name": name, "arrangement": arranged, **value_json(layout)} for name, layout, arranged in value.rows]
        return {"kind": "table", "rows": rows}
    if isinstance(value, ThreadValue):
        return {"kind": "thread_value", "tiler": value.tiler, "layout": value_json(value.layout)}
    layout = layout_of(value)
    if layout is None:
        kind = "integer" if isinstance(value, int) else "tuple" if isinstance(value, tuple) else "swizzle"
        return {"kind": kind, "text": text_of(value), **({} if kind == "swizzle" else {"value": value})}
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    known = facts(layout)
    swizzle = {}
    if isinstance(layout, ComposedLayout):
        swizzle = {"swizzle": [layout.outer.bits, layout.outer.base, layout.outer.shift], "offset": layout.offset}
    return {
        "kind": "swizzled" if swizzle else "layout",
        "text": text_of(layout),
        "shape": inner.shape,
        "stride": inner.stride,
        **swizzle,
        "size": known.size,
        "cosize": known.cosize,
        "injective": known.injective,
        "surjective": known.surjective,
    }


def error_text(expression: str, error: AlgebraError) -> str:
    """The message, the expression and a caret at the place."""
    line = "".join(" " if c.isspace() else c if c.isprintable() else "?" for c in expression)
    first = max(0, error.offset - _AROUND)
    cut = line[first : error.offset + _AROUND + 1]
    caret = " " * (error.offset - first) + "^" * max(1, min(error.length, len(cut) - (error.offset - first)))
    return f"{error.message}\n  {cut}\n  {caret}" if cut.strip() else error.message
