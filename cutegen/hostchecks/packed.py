"""Sizes of packed arguments: those that tell the size of a mode, and those that no sizes of modes give."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.hostchecks.judging import Check, Host
from cutegen.language.model import KernelSpec, Tensor
from cutegen.verification.cases import strides_for
from cutegen.verification.places import input_for
from cutegen.verification.tensors import guarded
from cutegen.views.extents import modes_of, size_of
from cutegen.views.sizes import solved


def telling(spec: KernelSpec, mode: str) -> list[Tensor]:
    """The tensors whose sizes tell that of a mode: where a size is computed of several, which of them is another one
    only shows of the mode that is taken from it.
    """
    taken_from = {(one.argument, one.axis): one.mode for one in solved(spec.tensors, spec.static)[0]}

    def tells(tensor: Tensor) -> bool:
        computed = [(taken_from.get((tensor.name, i), mode), modes_of(item)) for i, item in enumerate(tensor.shape)]
        return mode in tensor.shape or any(of == mode and mode in modes for of, modes in computed)

    return list(filter(tells, spec.tensors))


def between(host: Host, argument: Tensor) -> Iterator[Check]:
    """Sizes of a packed argument that no sizes of modes give."""
    spec, sizes = host.spec, host.case.sizes
    for one in solved(spec.tensors, spec.static)[0]:
        item, factor = argument.shape[one.axis], one.factor.at(sizes)
        if one.argument != argument.name or factor < 2:
            continue
        shape = argument.extents({**sizes, item: size_of(item, sizes) + 1})
        strides = strides_for(argument, {**sizes, item: shape[one.axis]}, "padded")
        data = input_for(spec, argument, {**sizes, item: shape[one.axis]}, "integers", 3)
        made = guarded(argument, shape, strides, host.executor.device, data=data).view
        names = [t.argument for t in telling(spec, one.mode)]
        what = f"{item} is {shape[one.axis]}, for no whole {one.mode}"
        yield host.refuses(argument.argument, what, {argument.name: made}, names)
