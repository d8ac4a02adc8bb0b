"""Gradients of a spec's statements: torch's autograd through the independent reference, in float64.

Nothing here comes from a backward: neither from a spec that `cutegen grad` wrote nor from any generated module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from cutegen.language.model import KernelSpec
from cutegen.reference.bounds import Expected, evaluate
from cutegen.reference.packed import of_arguments
from cutegen.reference.taking import view_of
from cutegen.views.sizes import sizes_of

if TYPE_CHECKING:
    import torch


class Differentiated(NamedTuple):
    """The outputs of a spec in float64, not rounded to their types where they are not exact; and the gradients of
    inputs, by the inputs' names: of the sum of all outputs, each times what was given for it.
    """

    outputs: Mapping[str, torch.Tensor]
    gradients: Mapping[str, torch.Tensor]


def differentiate(
    spec: KernelSpec,
    tensors: Mapping[str, torch.Tensor],
    scalars: Mapping[str, int | float | bool],
    given: Mapping[str, torch.Tensor],
    wanted: Collection[str],
) -> Differentiated:
    """The outputs for these inputs, and the gradients of those inputs that are `wanted`.

    Float tensors may be float64, independent of the spec: they are used as they are. `given` has what arrives for each
    output that is differentiated, by its name.
    """
    import torch

    leaves = {name: tensors[name].detach().double().requires_grad_() for name in wanted}
    with torch.enable_grad():
        found: Mapping[str, Expected] = evaluate(spec, {**tensors, **leaves}, scalars)
        total = torch.zeros((), dtype=torch.float64)
        for name, arriving in _by_view(spec, tensors, given).items():
            total = total + (found[name].value * arriving.double()).sum()
    gradients = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    if total.requires_grad and leaves:
        made = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        gradients |= {name: x for name, x in zip(leaves, made, strict=True) if x is not None}
    whole = of_arguments(spec, {name: x._replace(value=x.value.detach()) for name, x in found.items()}, tensors)
    return Differentiated({name: x.value for name, x in whole.items()}, gradients)


def _by_view(
    spec: KernelSpec, tensors: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The gradient that arrives for each output of the kernel: for a view that view of its argument's."""
    spec, found = spec.by_argument, {}
    for name, arriving in given.items():
        output = spec.tensor(name)
        if not output.views:
            found[name] = arriving
            continue
        sizes = sizes_of(spec.tensors, spec.static, {name: x.shape for name, x in {**tensors, **given}.items()})
        found |= {v.name: view_of(spec, output, v, arriving, sizes) for v in output.views if v.writes}
    return found
