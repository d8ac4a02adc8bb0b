"""The values expected of arguments that are packed, made of those expected of their views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cutegen.language.model import KernelSpec
from cutegen.language.tensor import Tensor
from cutegen.reference.bounds import Expected
from cutegen.reference.taking import view_of
from cutegen.views.sizes import sizes_of

if TYPE_CHECKING:
    import torch


def of_arguments(
    spec: KernelSpec, found: Mapping[str, Expected], tensors: Mapping[str, torch.Tensor]
) -> dict[str, Expected]:
    """The values expected of each output of the function, made of those that `evaluate` expects of the kernel.

    `tensors` has the arguments as they were, by name. Elements that no view writes keep their values.
    """
    spec = spec.by_argument
    if not any(output.views for output in spec.outputs):
        return dict(found)
    given = {argument.name for argument in spec.tensors}
    sizes = sizes_of(spec.tensors, spec.static, {name: x.shape for name, x in tensors.items() if name in given})
    return {
        output.name: _whole(spec, output, found, tensors, sizes) if output.views else found[output.name]
        for output in spec.outputs
    }


def _whole(
    spec: KernelSpec,
    output: Tensor,
    found: Mapping[str, Expected],
    tensors: Mapping[str, torch.Tensor],
    sizes: Mapping[str, int],
) -> Expected:
    import torch

    written = [view for view in output.views if view.writes]
    first = found[written[0].name].value
    value = torch.zeros(output.extents(sizes), dtype=first.dtype, device=first.device)
    bound = torch.zeros(value.shape, dtype=torch.float64, device=first.device)
    if output.name in tensors:
        value.copy_(tensors[output.name])
    for view in written:
        view_of(spec, output, view, value, sizes).copy_(found[view.name].value)
        view_of(spec, output, view, bound, sizes).copy_(found[view.name].bound)
    return Expected(value, bound, all(found[view.name].signed for view in written))
