"""What a spec promises of tensors and sizes, and how wide an access may be by that."""

from __future__ import annotations

from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.language.model import KernelSpec, Tensor


def aligned_elements(tensor: Tensor) -> int:
    """The widest vector of this tensor, in elements, that its alignment and 128 bits allow."""
    assert tensor.align is not None
    return max(1, min(tensor.align * 8, MAX_VECTOR_BITS) // tensor.dtype.bits)


def whole_accesses(spec: KernelSpec, mode: str | None) -> int:
    """The widest vector, in elements, that a fixed size of `mode` is a multiple of."""
    fixed = spec.static.get(mode or "", 0)
    return fixed & -fixed or MAX_VECTOR_BITS


def known_divisor(spec: KernelSpec, mode: str) -> int:
    """The number that the size of a mode is known to be a multiple of."""
    return spec.static.get(mode) or spec.divisible.get(mode, 1)
