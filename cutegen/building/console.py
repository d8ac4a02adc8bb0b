"""Progress on stderr and tables on stdout: drawn on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

from cutegen.building.build import Progress


class PlainProgress:
    """One line for each thing that took time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def start(self, what: str, total: int) -> None:
        self._say(f"{what}: {total}")

    def step(self, line: str | None) -> None:
        if line:
            self._say(line)

    def stop(self) -> None:
        pass

    def _say(self, line: str) -> None:
        with self._lock:
            print(line, file=sys.stderr, flush=True)


class BarProgress:
    """A bar, and above it the lines of what is worth a line."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._bar: Any = None
        self._task: Any = None

    def start(self, what: str, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Bar(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(what, total=total)
        self._bar.start()

    def step(self, line: str | None) -> None:
        if line:
            self._bar.console.print(line, markup=False, highlight=False)
        self._bar.advance(self._task)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def make_progress() -> Progress:
    return BarProgress() if sys.stderr.isatty() else PlainProgress()


def print_markdown(text: str) -> None:
    """On a terminal as it is meant to look; elsewhere as it is."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print(text, end="")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """On a terminal a table; elsewhere a line a row, columns apart by two spaces and as wide as their widest cell."""
    if not rows:
        return
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    lines = [list(columns), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
