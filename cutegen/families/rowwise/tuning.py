"""What is tried of a row kernel without `tune:`: how many threads share a row, and how much of it each holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cutegen.families.rowwise.schedule import Spec

if TYPE_CHECKING:
    from cutegen.tuning.schedules import Choice

THREADS = (8, 16, 32, 64, 128, 256, 512, 1024)  # that share a row
BITS = (32, 64, 128)  # of an access


def axes(specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
    """The names and choices of what is combined, for resolved kernels that share their schedule."""
    threads: list[Choice] = [{("threads_per_row",): count} for count in THREADS]
    yield "threads of a row", [{}, *threads]
    yield "where a row waits", [{}, {("keep",): "reload"}, {("keep",): "registers"}]


def refinements(spec: Spec) -> Iterator[Choice]:
    """Changes of one field each, to a resolved kernel."""
    for bits in BITS:
        yield {("copy", "bits"): bits}
