"""How a torch tensor is passed to a function of CuTeDSL: its alignment, and which of its sizes are dynamic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutegen.emulator.host.device_tensors import on_device, with_strides

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
    far: tuple[tuple[int, int], ...] = ()


def tensor(
    tensor: torch.Tensor,
    *,
    align: int | None = None,
    leading: int | None = None,
    static: bool = False,
    divisible: dict[int, int] | None = None,
    far: dict[int, int] | None = None,
) -> Marked:
    """A torch tensor, with what a `cute.jit` function may assume of it when it is compiled.

    Without this, a torch tensor is passed as CuTeDSL itself passes one: of any sizes and strides but for the mode whose
    stride is 1, and aligned to one element only, so that no copy of several elements at once can be proved right.

    `align` is the alignment of its first element in bytes, such as 16. `leading` is the mode whose stride is known to
    be 1, where the tensor leaves a choice, as one with a mode of size 1 does. With `static` all sizes and strides are
    known, so that the code is for this shape only. `divisible` maps modes to numbers that divide their sizes, as in
    `{1: 8}`; of these modes the sizes are known to be dynamic, and the tensor to be compact.

    `far` maps modes to strides, in elements, that the kernel sees in place of the real ones, as in `{0: 2**31 + 8}`: so
    offsets beyond 2^31 are tried without the memory for them. A tensor that really has such strides needs none of it.

    Raises ValueError for a number that does not hold for this tensor.
    """
    strides = list(tensor.stride())
    for mode, stride in (far or {}).items():
        strides[mode] = stride
    _check_nested(tensor.shape, strides, far or {})
    for mode, number in (divisible or {}).items():
        if number < 1 or tensor.shape[mode] % number:
            raise ValueError(f"divisible: {number} does not divide {tensor.shape[mode]}, the size of mode {mode}")
    if align is not None and (align < 1 or align & (align - 1)):
        raise ValueError(f"align: {align} is not a power of two")
    start = tensor.data_ptr() % (align or 1)
    if start:
        raise ValueError(f"align: the first element lies {start} bytes behind a multiple of {align} bytes")
    if leading is not None and strides[leading] != 1:
        raise ValueError(f"leading: the stride of mode {leading} is {strides[leading]}, not 1")
    if static and divisible:
        raise ValueError("divisible is for modes whose size is not known, and static says that all are")
    if far and divisible:
        raise ValueError("divisible says that the tensor is compact, and far that it is not")
    return Marked(tensor, align, leading, static, tuple((divisible or {}).items()), tuple((far or {}).items()))


def _check_nested(shape: Sequence[int], strides: Sequence[int], far: Mapping[int, int]) -> None:
    """Raises ValueError for strides with which steps along one mode lead among the elements along another one."""
    reach = 1
    for mode in sorted((m for m, n in enumerate(shape) if n > 1), key=lambda m: strides[m]) if far else ():
        if strides[mode] < reach:
            raise ValueError(
                f"far: steps of {strides[mode]} elements along mode {mode}, where others reach {reach} far"
            )
        reach += strides[mode] * (shape[mode] - 1)


def as_cute(marked: Marked) -> Any:
    """The tensor of CuTeDSL that stands for one of torch's. Raises what CuTeDSL raises if it has none."""
    from cutlass.cute.runtime import from_dlpack

    source = with_strides(marked.tensor, dict(marked.far)) if marked.far else on_device(marked.tensor)
    made = from_dlpack(source, assumed_align=marked.align)
    if marked.static:
        return made
    made = made.mark_layout_dynamic(leading_dim=marked.leading)
    for mode, number in marked.divisible:
        made = made.mark_compact_shape_dynamic(mode=mode, stride_order=marked.tensor.dim_order(), divisibility=number)
    return made
