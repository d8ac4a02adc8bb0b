"""Makes compilation with line information faster.

The DSL asks Python for the place in the source of every operation that it builds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType


@contextmanager
def cached_line_tables() -> Iterator[None]:
    """While it lasts, the DSL reads the table of source places of each function only once.

    Without it the DSL reads the table up to the place of an operation, for each operation. That was half of the time in
    which a matrix product of 128 values a thread compiles. The function that is replaced is private to the DSL; where a
    DSL has no such function, nothing is changed.
    """
    from cutlass._mlir_helpers import op

    before = getattr(op, "_CO_POSITIONS", None)
    if before is None:
        yield
        return

    @cache
    def positions(code: CodeType) -> tuple[tuple[int | None, ...], ...]:
        return tuple(before(code))

    op._CO_POSITIONS = positions
    try:
        yield
    finally:
        op._CO_POSITIONS = before
