"""Makes compilation, with line information above all, faster.

The DSL asks Python for the place in the source of every operation that it builds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any
from unittest import mock


@contextmanager
def cached_line_tables() -> Iterator[None]:
    """While it lasts, the DSL looks up each place of a function's code once only, and once at each function whether it
    is one of the DSL's own.

    Without it the DSL reads the table of places up to that of an operation, for each operation. That was half of the
    time in which a matrix product of 128 values a thread compiles. The functions that are replaced are private to the
    DSL; where a DSL has no such function, nothing is changed.
    """
    from cutlass._mlir_helpers import op

    ways: dict[str, Callable[[Any], Any]] = {
        "_CO_POSITIONS": _positions,
        "_is_framework_module": cache,
        "_is_framework_stack_frame": _by_code,
        "_fast_frameinfo": _by_place,
        "_get_location_from_frame_info": _by_identity,
    }
    with ExitStack() as stack:
        for name, way in ways.items():
            function = getattr(op, name, None)
            if function is not None:
                stack.enter_context(mock.patch.object(op, name, way(function)))
        yield


def _positions(table: Callable[[CodeType], Iterator[Any]]) -> Callable[[CodeType], tuple[Any, ...]]:
    """The table of places of a function's code, read once."""
    return cache(lambda code: tuple(table(code)))


def _by_code(function: Callable[[FrameType], Any]) -> Callable[[FrameType], Any]:
    """A function of a frame that looks at its code, and at what is the same for all frames of it."""
    known: dict[int, tuple[CodeType, Any]] = {}  # by the identity: codes are slow to hash

    def found(frame: FrameType) -> Any:
        code = frame.f_code
        if id(code) not in known:
            known[id(code)] = code, function(frame)
        return known[id(code)][1]

    return found


def _by_place(function: Callable[[FrameType], Any]) -> Callable[[FrameType], Any]:
    """A function of a frame that looks at the place in its code."""
    known: dict[tuple[int, int], tuple[CodeType, Any]] = {}

    def found(frame: FrameType) -> Any:
        code = frame.f_code
        place = id(code), frame.f_lasti
        if place not in known:
            known[place] = code, function(frame)
        return known[place][1]

    return found


def _by_identity(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that makes, of an object and the MLIR context that is current, what may be used again."""
    from cutlass._mlir import ir

    module: Any = ir
    known: dict[tuple[int, int], tuple[object, object, Any]] = {}

    def found(what: Any) -> Any:
        context = module.Context.current
        key = id(what), id(context)
        if key not in known:
            known[key] = what, context, function(what)
        return known[key][2]

    return found
