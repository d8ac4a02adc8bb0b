"""Output of all verbs: progress and diagnostics on stderr, tables and JSON on stdout."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from cutegen.language.diagnostics import Diagnostic, render_text


class Progress(Protocol):
    """Shows progress on stderr."""

    def start(self, what: str, total: int) -> None:
        """Something begins that has `total` parts."""

    def part(self, name: str, what: str, done: int, total: int | None) -> None:
        """Tells how far one of the total is: of `rms_norm`, `done` of `total` `cases`. The total is None where nobody
        knows it. May come from any thread.
        """

    def step(self, line: str | None, name: str = "") -> None:
        """One of the total is done; `line` says what is worth saying about it, and `name` which one it was, if `part`
        told of it. May come from any thread.
        """

    def stop(self) -> None:
        """It is over, whether it was completed or not, or even begun."""


_FIRST = 2.0  # seconds after which a line is worth it; then after twice as long, and so on


class PlainProgress:
    """Prints a line for each thing that took time, and a few while one takes long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._due: dict[str, tuple[float, float]] = {}  # when the next line is due, and after how long

    def start(self, what: str, total: int) -> None:
        """Says what begins, and how many parts it has."""
        self._say(f"{what}: {total}")

    def part(self, name: str, what: str, done: int, total: int | None) -> None:
        """Prints how far it is, if nothing was said of it for long."""
        now = self._clock()
        due, wait = self._due.setdefault(name, (now + _FIRST, _FIRST))
        if now >= due:
            self._due[name] = (now + 2 * wait, 2 * wait)
            self._say(f"{name}: {done}{'' if total is None else f' of {total}'} {what}")

    def step(self, line: str | None, name: str = "") -> None:
        """Prints the line, if there is one."""
        self._due.pop(name, None)
        if line:
            self._say(line)

    def stop(self) -> None:
        pass

    def _say(self, line: str) -> None:
        with self._lock:
            print(line, file=sys.stderr, flush=True)


class BarProgress:
    """Draws a bar on a terminal, above it the lines of what is worth a line, and below it a bar for each part of the
    total that is under way.
    """

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._bar: Any = None
        self._task: Any = None
        self._parts: dict[str, tuple[str, Any]] = {}  # by name: of what its bar is, and the bar

    def start(self, what: str, total: int) -> None:
        """Draws a bar of `total` parts."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bar = Bar(*columns, console=self._console, transient=True)
        self._task, self._parts = self._bar.add_task(what, total=total), {}
        self._bar.start()

    def part(self, name: str, what: str, done: int, total: int | None) -> None:
        """Moves the bar of that part on."""
        known, task = self._parts.get(name, ("", None))
        if known != what:
            if task is not None:
                self._bar.remove_task(task)
            task = self._bar.add_task(f"  {name}, {what}", total=total)
            self._parts[name] = what, task
        self._bar.update(task, completed=done)

    def step(self, line: str | None, name: str = "") -> None:
        """Moves the bar on by one part, whose own bar goes, and prints the line, if there is one."""
        if line:
            self._bar.console.print(line, markup=False, highlight=False)
        if name in self._parts:
            self._bar.remove_task(self._parts.pop(name)[1])
        self._bar.advance(self._task)

    def stop(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.stop()


class NoProgress:
    """Says nothing, for what runs in somebody else's program."""

    def start(self, what: str, total: int) -> None:
        pass

    def part(self, name: str, what: str, done: int, total: int | None) -> None:
        pass

    def step(self, line: str | None, name: str = "") -> None:
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


def print_diagnostics(
    diagnostics: Iterable[Diagnostic], texts: Mapping[str, str], *, to_stdout: bool = False, outcome: str = ""
) -> None:
    """Prints diagnostics as a compiler does, a blank line between two. Then follow their number with the `outcome` of
    the command, if given, and the command that explains them. They go to stderr, or to stdout.
    """
    diagnostics = list(diagnostics)
    file = sys.stdout if to_stdout else sys.stderr
    for diagnostic in diagnostics:
        print(render_text(diagnostic, texts.get(diagnostic.path)), end="\n\n", file=file)
    counts = {severity: sum(d.severity == severity for d in diagnostics) for severity in ("error", "warning", "note")}
    if diagnostics:
        counted = ", ".join(count(n, what) for what, n in counts.items() if n)
        print(f"{counted}: {outcome}" if outcome else counted, file=file)
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
