"""The shared memory of a block, declared once: the kernel prints it; sizes and proofs follow from it."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.language.model import Tensor
from cutegen.parts.declared import Barriers, Buffer, Declared

ROWS, DEPTH = 64, 64  # of a tile of A; 64 values of 16 bits are a row of 128 bytes, as they are swizzled
THREADS = 160  # a warpgroup and a warp


def buffers(a: Tensor, b: Tensor, columns: int) -> Iterator[Buffer]:
    """The stages of A and of B."""
    for tensor, rows in ((a, ROWS), (b, columns)):
        yield Buffer(
            variable=f"s{tensor.name}",
            cells=(tensor.name,),
            element=f"cutlass.{tensor.dtype.cutlass}",
            layout=f"s{tensor.name}_layout.outer",
            copies="STAGES",
            bytes=rows * DEPTH * tensor.dtype.bytes,
            alignment=1024,
            swizzle=f"s{tensor.name}_layout.inner",
        )


# Of each stage: its tiles have come; it may be loaded again
FULL = Barriers(name="full", length="STAGES", arrivals="1")
EMPTY = Barriers(name="empty", length="STAGES", arrivals="1")


def declared(a: Tensor, b: Tensor, columns: int) -> tuple[Declared, ...]:
    """All of it, in the order in which it is allocated."""
    return (*buffers(a, b, columns), FULL, EMPTY)
