"""Choices tried for a row kernel without `tune:`: threads_per_row, cluster, shorter, online, keep and copy.bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cutegen.atoms.targets import TARGETS
from cutegen.families.rowwise.rows import has_exponentials_above, has_squares_around, is_walked, row_of
from cutegen.families.rowwise.schedule import Spec

if TYPE_CHECKING:
    from cutegen.tuning.choice import Choice

THREADS = (8, 16, 32, 64, 128, 256, 512, 1024)  # that share a row
BLOCKS = (1, 2, 4, 8, 16)  # that share a row
BITS = (32, 64, 128)  # of an access


def axes(specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
    """The names and choices of what is combined, for resolved kernels that share their schedule."""
    threads: list[Choice] = [{("threads_per_row",): count} for count in THREADS]
    yield "threads of a row", [{}, *threads]
    if (most := min(TARGETS[target].cluster for spec in specs for target in spec.targets)) > 1:
        rows = {row_of(spec) for spec in specs}
        blocks = [count for count in BLOCKS if count <= most]
        clusters: list[Choice] = [{("cluster",): {row: count}} for count in blocks for row in rows]
        yield "blocks of a row", [{}, *(clusters if len(rows) == 1 else [])]
    if all(row_of(spec) not in spec.static for spec in specs):
        yield "rows of several lengths", [{}, {("shorter",): "fewer_threads"}]
    if all((has_exponentials_above(spec) or has_squares_around(spec)) and is_walked(spec) for spec in specs):
        yield "reductions in one walk", [{}, {("online",): "walked"}, {("online",): "never"}]
    yield "where a row waits", [{}, {("keep",): "reload"}, {("keep",): "smem"}, {("keep",): "registers"}]


def refinements(spec: Spec) -> Iterator[Choice]:
    """Changes of one field each, to a resolved kernel."""
    for bits in BITS:
        yield {("copy", "bits"): bits}
