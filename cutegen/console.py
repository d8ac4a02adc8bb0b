"""What all verbs print with: progress and diagnostics on stderr, tables and JSON on stdout."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from cutegen.language.diagnostics import Diagnostic, render_text


class Progress(Protocol):
    """Is told what is going on, and shows it to people on stderr."""

    def start(self, what: str, total: int) -> None:
        """Something begins that has `total` parts."""

    def step(self, line: str | None) -> None:
        """One of the total is done; `line` says what is worth saying about it. May come from any thread."""

    def stop(self) -> None:
        """It is over, whether it was completed or not."""


class PlainProgress:
    """Prints a line for each thing that took time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def start(self, what: str, total: int) -> None:
        """Says what begins, and how many parts it has."""
        self._say(f"{what}: {total}")

    def step(self, line: str | None) -> None:
        """Prints the line, if there is one."""
        if line:
            self._say(line)

    def stop(self) -> None:
        pass

    def _say(self, line: str) -> None:
        with self._lock:
            print(line, file=sys.stderr, flush=True)


class BarProgress:
    """Draws a bar on a terminal, and above it the lines of what is worth a line."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._bar: Any = None
        self._task: Any = None

    def start(self, what: str, total: int) -> None:
        """Draws a bar of `total` parts."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Bar(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(what, total=total)
        self._bar.start()

    def step(self, line: str | None) -> None:
        """Moves the bar on by one part, and prints the line, if there is one."""
        if line:
            self._bar.console.print(line, markup=False, highlight=False)
        self._bar.advance(self._task)

    def stop(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.stop()


class NoProgress:
    """Says nothing, for what runs in somebody else's program."""

    def start(self, what: str, total: int) -> None:
        pass

    def step(self, line: str | None) -> None:
        pass

    def stop(self) -> None:
        pass


def make_progress() -> Progress:
    """A bar where stderr is a terminal, plain lines elsewhere."""
    return BarProgress() if sys.stderr.isatty() else PlainProgress()


def print_json(data: Mapping[str, Any]) -> None:
    """Prints JSON to stdout."""
    json.dump(data, sys.stdout, indent=2)
    print()


def print_diagnostics(diagnostics: Iterable[Diagnostic], texts: Mapping[str, str], *, to_stdout: bool = False) -> None:
    """Prints diagnostics as a compiler does, a blank line between two, then how many there were, and where more is said
    about them. They go to stderr, or to stdout.
    """
    diagnostics = list(diagnostics)
    file = sys.stdout if to_stdout else sys.stderr
    for diagnostic in diagnostics:
        print(render_text(diagnostic, texts.get(diagnostic.path)), end="\n\n", file=file)
    counts = {severity: sum(d.severity == severity for d in diagnostics) for severity in ("error", "warning", "note")}
    if diagnostics:
        print(", ".join(count(n, what) for what, n in counts.items() if n), file=file)
        codes = list(dict.fromkeys(d.code for d in sorted(diagnostics, key=lambda d: d.severity)))
        others = f"  (also {', '.join(codes[1:])})" if len(codes) > 1 else ""
        print(f"for more: cutegen lint --explain {codes[0]}{others}", file=file)


def print_markdown(text: str) -> None:
    """Prints Markdown to stdout: on a terminal as it is meant to look, elsewhere as it is."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print(text, end="")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table to stdout; nothing where there is no row. Where stdout is no terminal, a row is a line, and
    columns are apart by two spaces and as wide as their widest cell.
    """
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


def count(number: int, what: str) -> str:
    """A number of things in words: `1 case`, `2 cases`."""
    return f"{number} {what}{'s' * (number != 1)}"
