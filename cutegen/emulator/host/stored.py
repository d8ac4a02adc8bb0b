"""Results of earlier compilations of a module, which need not be repeated to run it here."""

from __future__ import annotations

from typing import Any, NamedTuple


class Stored(NamedTuple):
    """A module as compiled for one target: its PTX, and its host code as MLIR bytecode."""

    ptx: str
    host: bytes


_BYTECODE = b"ML\xefR"  # what MLIR's begins with


def read_host_code(data: bytes) -> Any:
    """The MLIR module that bytecode holds; None where this release of the compiler cannot read it."""
    if not data.startswith(_BYTECODE):  # which would be read as text
        return None
    from cutlass._mlir import ir as untyped

    ir: Any = untyped
    with ir.Context() as context:
        context.enable_multithreading(False)  # a process with threads cannot be forked
        try:
            return ir.Module.parse(data)
        except (ir.MLIRError, ValueError):
            return None
