"""The shared memory of a gemm's block, declared once: the kernel prints it; sizes and proofs follow from it."""

from __future__ import annotations

from cutegen.families.gemm.tcgen05.product import SWIZZLED, product_of
from cutegen.families.gemm.tcgen05.schedule import Spec
from cutegen.families.gemm.words import tile_of
from cutegen.parts.declared import Barriers, Buffer, Declared, bytes_of

# Of each stage: its tiles have come; it has been multiplied
FULL = Barriers(name="full", length="STAGES", arrivals="1", title="barriers", what="barrier {number}")
EMPTY = Barriers(name="empty", length="STAGES", arrivals="1", title="barriers", what="barrier {number}")
READY = Barriers(name="ready", length="1", arrivals="1", title="barrier of the sums", what="the barrier of the sums")
HELD = Buffer(
    variable="held",
    cells=("held",),
    element="cutlass.Int32",
    layout="cute.make_layout(1)",
    copies="1",
    bytes=4,
    alignment=4,
    title="address of tensor memory",
    what="the address of tensor memory",
)


def operands(spec: Spec) -> tuple[Buffer, ...]:
    """The stages of A and of B."""
    product = product_of(spec)
    depth = tile_of(spec.schedule, product.k)
    return tuple(
        Buffer(
            variable=f"s{tensor.name}",
            cells=(tensor.name,),
            element=f"cutlass.{tensor.dtype.cutlass}",
            layout=f"s{tensor.name}_layout.outer",
            copies="STAGES",
            bytes=tile_of(spec.schedule, mode) * depth * tensor.dtype.bytes,
            alignment=SWIZZLED,
            swizzle=f"s{tensor.name}_layout.inner",
            title=tensor.name,
            what=f"stage {{number}} of {tensor.name}",
        )
        for tensor, mode in product.sides
    )


def declared(spec: Spec) -> tuple[Declared, ...]:
    """All of it, in the order in which it is allocated."""
    return (*operands(spec), FULL, EMPTY, READY, HELD)


def smem_bytes(spec: Spec, stages: int | None = None) -> int:
    """Bytes of shared memory of a block, with the spec's stages or with so many."""
    return bytes_of(declared(spec), {"STAGES": stages or spec.schedule.pipeline.stages or 1})
