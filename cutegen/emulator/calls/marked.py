"""How a torch tensor is passed to a function of CuTeDSL: its alignment, and which of its sizes are dynamic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutegen.emulator.host.device_tensors import on_device

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Marked:
    """A torch tensor with what `tensor` says of it."""

    tensor: torch.Tensor
    align: int | None = None
    leading: int | None = None
    static: bool = False
    divisible: tuple[tuple[int, int], ...] = ()


def tensor(
    tensor: torch.Tensor,
    *,
    align: int | None = None,
    leading: int | None = None,
    static: bool = False,
    divisible: dict[int, int] | None = None,
) -> Marked:
    """A torch tensor, with what a `cute.jit` function may assume of it when it is compiled.

    Without this, a torch tensor is passed as CuTeDSL itself passes one: of any sizes and strides but for the mode whose
    stride is 1, and aligned to one element only, so that no copy of several elements at once can be proved right.

    `align` is the alignment of its first element in bytes, such as 16. `leading` is the mode whose stride is known to
    be 1, where the tensor leaves a choice, as one with a mode of size 1 does. With `static` all sizes and strides are
    known, so that the code is for this shape only. `divisible` maps modes to numbers that divide their sizes, as in
    `{1: 8}`; of these modes the sizes are known to be dynamic, and the tensor to be compact.

    Raises ValueError for a number that does not hold for this tensor.
    """
    for mode, number in (divisible or {}).items():
        if number < 1 or tensor.shape[mode] % number:
            raise ValueError(f"divisible: {number} does not divide {tensor.shape[mode]}, the size of mode {mode}")
    if align is not None and (align < 1 or align & (align - 1)):
        raise ValueError(f"align: {align} is no power of two")
    start = tensor.data_ptr() % (align or 1)
    if start:
        raise ValueError(f"align: the first element lies {start} bytes behind a multiple of {align} bytes")
    if leading is not None and tensor.stride(leading) != 1:
        raise ValueError(f"leading: the stride of mode {leading} is {tensor.stride(leading)}, not 1")
    if static and divisible:
        raise ValueError("divisible is for modes whose size is not known, and static says that all are")
    return Marked(tensor, align, leading, static, tuple((divisible or {}).items()))


def as_cute(marked: Marked) -> Any:
    """The tensor of CuTeDSL that stands for one of torch's. Raises what CuTeDSL raises if it has none."""
    from cutlass.cute.runtime import from_dlpack

    made = from_dlpack(on_device(marked.tensor), assumed_align=marked.align)
    if marked.static:
        return made
    made = made.mark_layout_dynamic(leading_dim=marked.leading)
    for mode, number in marked.divisible:
        made = made.mark_compact_shape_dynamic(mode=mode, stride_order=marked.tensor.dim_order(), divisibility=number)
    return made
