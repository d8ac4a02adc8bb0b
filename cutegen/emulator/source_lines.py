"""Line information without the wait: the DSL asks for the place of every operation that it builds in the module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType


@contextmanager
def looked_up_once() -> Iterator[None]:
    """While it lasts, the DSL reads the table of places of a function once, not up to the place for each operation.

    That was half of the time in which a matrix product of 128 values a thread compiles. The function's name is private
    to the DSL; a DSL without it works as it does.
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
