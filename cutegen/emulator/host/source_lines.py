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
    """While it lasts, the DSL reads the table of source places of each function only once, and looks once at each
    module whether it is one of the DSL's own.

    Without it the DSL reads the table up to the place of an operation, for each operation. That was half of the time in
    which a matrix product of 128 values a thread compiles. The functions that are replaced are private to the DSL;
    where a DSL has no such function, nothing is changed.
    """
    from cutlass._mlir_helpers import op

    before = {name: getattr(op, name, None) for name in ("_CO_POSITIONS", "_is_framework_module")}
    table, own = before.values()

    @cache
    def positions(code: CodeType) -> tuple[tuple[int | None, ...], ...]:
        assert table is not None
        return tuple(table(code))

    if table is not None:
        op._CO_POSITIONS = positions
    if own is not None:
        op._is_framework_module = cache(own)
    try:
        yield
    finally:
        for name, function in before.items():
            if function is not None:
                setattr(op, name, function)
