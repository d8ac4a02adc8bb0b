"""Calls with one tensor that does not fit: its type, its device, its modes, its strides or its address.

One whose modes stand in another order in memory does fit, where these may have any strides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.hostchecks.judging import Check, Host
from cutegen.hostchecks.strides import turned
from cutegen.verification.cases import align_unit, strides_for
from cutegen.verification.places import input_for
from cutegen.verification.tensors import guarded

if TYPE_CHECKING:
    import torch

# Another type of the same width: the mistake that a check of sizes and strides alone does not see.
OTHER_DTYPE = {
    Dtype.f64: "int64",
    Dtype.f32: "int32",
    Dtype.f16: "bfloat16",
    Dtype.bf16: "float16",
    Dtype.f8e4m3: "float8_e5m2",
    Dtype.f8e5m2: "float8_e4m3fn",
    Dtype.i64: "float64",
    Dtype.i32: "float32",
    Dtype.i16: "float16",
    Dtype.u32: "int32",
    Dtype.i8: "uint8",
    Dtype.u8: "int8",
    Dtype.bool: "uint8",
}


def checks(host: Host, number: int) -> Iterator[Check]:
    """The calls in which the tensor of that number is wrong."""
    import torch

    item, case, executor = host.tensors[number], host.case, host.executor
    tensor, view = item.tensor, item.view
    shape, strides = tuple(view.shape), view.stride()
    major = tensor.contiguous

    def fresh(shape: tuple[int, ...], strides: tuple[int, ...], shift: int = 0) -> torch.Tensor:
        given = {**case.sizes, **dict(zip(tensor.shape, shape, strict=True))}
        data = input_for(host.spec, tensor, given, "integers", 7)
        return guarded(tensor, shape, strides, executor.device, data=data, number=number, shift=shift).view

    def size(mode: str) -> int:
        return dict(zip(tensor.shape, shape, strict=True)).get(mode, 1)

    def wrong(what: str, view: torch.Tensor) -> Check:
        return host.refuses(tensor.argument, what, {tensor.name: view})

    other = OTHER_DTYPE[tensor.dtype]
    yield wrong(f"wrong dtype ({other})", view.view(getattr(torch, other)))
    for device, elsewhere in executor.elsewhere(view):
        names = [t.argument for t in host.spec.tensors]  # of which may also be said that they are not where this is
        if device.startswith("cuda:") and len(names) == 1:
            continue
        yield host.refuses(tensor.argument, f"wrong device ({device})", {tensor.name: elsewhere}, names)
    yield wrong("one mode too many", view.unsqueeze(-1))
    if len(shape) > 1:
        yield wrong("one mode too few", view[0])
    for mode in tensor.shape:
        if mode != major and size(mode) > 1 and size(major) > 1:
            transposed = strides_for(replace(tensor, major=mode), case.sizes, "padded")
            yield wrong(f"{mode}-major instead of {major}-major", fresh(shape, transposed))
    for number, mode in enumerate(tensor.dense[:-1], start=1):
        if size(mode) > 1 and size(tensor.dense[number]) > 1:
            apart = strides_for(replace(tensor, dense=tensor.dense[number:]), case.sizes, "padded")
            yield wrong(f"gaps between the elements at {mode} and at the next", fresh(shape, apart))
    if size(major) > 1:
        yield wrong("every other element", fresh(shape, tuple(2 * s for s in strides)))
    for position, mode in enumerate(tensor.shape):
        if tensor.writes and mode != major and size(mode) > 1:
            same = tuple(0 if i == position else s for i, s in enumerate(strides))
            yield wrong(f"stride 0 along {mode}: elements that share memory", view.as_strided(shape, same))
            inside = max((s * (n - 1) for s, n in zip(strides, shape, strict=True) if s < strides[position]), default=0)
            unit = align_unit(tensor)
            if half := inside // 2 // unit * unit:  # steps of which the second element of one is one of another's
                part = tuple(half if i == position else s for i, s in enumerate(strides))
                yield wrong(f"stride {half} along {mode}: elements that share memory", view.as_strided(shape, part))
    if (others := turned(tensor, view)) is not None:
        placed = {tensor.name: fresh(shape, others)}
        yield host.takes(tensor.argument, "modes in another order in memory", placed)
    align = tensor.align or tensor.dtype.bytes
    if align > tensor.dtype.bytes:
        yield wrong(f"base address aligned to {align // 2} bytes only", fresh(shape, strides, align // 2))
        for position, mode in enumerate(tensor.shape):
            if mode != major and size(mode) > 1:
                # modes further out move along, so that this stride is what is wrong first
                odd = tuple(s + 1 if i == position else s for i, s in enumerate(strides))
                yield wrong(f"stride of {mode} breaks {align}-byte alignment", fresh(shape, odd))
