"""The promises of a spec about tensors and sizes, and the widths of accesses that they allow."""

from __future__ import annotations

from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.language.model import KernelSpec, Tensor


def aligned_elements(tensor: Tensor) -> int:
    """The widest vector of this tensor, in elements, that its alignment and 128 bits allow."""
    assert tensor.align is not None
    return max(1, min(tensor.align * 8, MAX_VECTOR_BITS) // tensor.dtype.bits)


def fitting_elements(spec: KernelSpec, tensor: Tensor) -> int:
    """The widest vector of a tensor, in elements: of 128 bits if the kernel has others for what does not fit.

    So it could have where nothing was written of the tensor's alignment.
    """
    if spec.schedule.narrows or ("tensors", tensor.name, "align") not in spec.source.values:
        return max(1, MAX_VECTOR_BITS // tensor.dtype.bits)
    return aligned_elements(tensor)


def whole_accesses(spec: KernelSpec, mode: str | None) -> int:
    """The widest vector, in elements, that divides the size of `mode` that the spec fixes or promises.

    What inference promised by itself is as wide as the accesses that it is for.
    """
    size = spec.static.get(mode or "", 0) or (promised(spec, mode) if mode else None) or 0
    return size & -size or MAX_VECTOR_BITS


def promised(spec: KernelSpec, mode: str) -> int | None:
    """The divisor of a mode's size that the text of the spec states; None where it states none."""
    return spec.divisible.get(mode) if ("divisible", mode) in spec.source.values else None


def known_divisor(spec: KernelSpec, mode: str) -> int:
    """The number that the size of a mode is known to be a multiple of."""
    return spec.static.get(mode) or spec.divisible.get(mode, 1)
