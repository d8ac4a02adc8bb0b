"""Whether the kernels of a gradient compute the derivative of an op's statements: of the specs, without a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cutegen.autograd import Gradient
from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Cast, walk
from cutegen.hostchecks.arriving import strided
from cutegen.hostchecks.op_calls import OpCall, made
from cutegen.hostchecks.op_chains import Chain
from cutegen.reference.autograd import differentiate
from cutegen.reference.bounds import evaluate
from cutegen.reference.packed import of_arguments
from cutegen.reference.rounding import half_subnormal, unit

if TYPE_CHECKING:
    import torch

_SLACK = 1e-11  # of the largest element: what the roundings of float64 come to on both ways


def problem(kernels: Sequence[Gradient], call: OpCall) -> str:
    """How what these kernels compute differs from the derivative, on inputs of both signs, and on positive ones."""
    for positive in (False, True):
        if found := _differs(kernels, call, positive):
            return found
    return ""


def _differs(kernels: Sequence[Gradient], call: OpCall, positive: bool) -> str:
    import torch

    spec, generator = kernels[0].of, torch.Generator().manual_seed(11)
    values: dict[str, torch.Tensor] = {}
    for name, x in call.values.items():
        values[name] = x = x.cpu()
        if spec.tensor(name).dtype.is_float:  # a little apart, so that none are equal
            x = x.double() * (1 + 2.0**-9 * torch.rand(x.shape, generator=generator, dtype=torch.float64))
            values[name] = x.abs() + 0.1 if positive else x
    followed = {t.name for one in kernels for t in one.given.values()}
    wanted = {t.name for one in kernels for t in one.made.values()}
    given = {
        t.name: torch.randn([call.tensors[t.name].view.shape[i] for i in range(len(t.shape))], generator=generator)
        for t in made(spec)
        if t.name in followed
    }
    right = differentiate(spec, values, call.scalars, given, wanted)
    chain = Chain()
    for one in kernels:
        tensors = chain.inputs(one, {**right.outputs, **values}, given)
        scalars = {s.name: call.scalars[s.name] for s in one.by.scalars}
        expected = of_arguments(one.by, evaluate(one.by, tensors, scalars), tensors)
        chain.pass_on(one, {name: result.value for name, result in expected.items()})
        for name, like in one.made.items():
            result, by = expected[name], one.by.by_argument.tensor(name)
            value, bound = (strided(x, by.shape, like.shape) for x in (result.value, result.bound))
            if text := _compared(value, bound, right.gradients[like.name], _narrowest(one), by.dtype):
                what = f"of `{like.name}`, which `{one.by.kernel}` computes as `{name}`"
                return f"the gradient {what}, is not the derivative of the op's statements: {text}"
    return ""


def _narrowest(one: Gradient) -> Dtype | None:
    """The type of the fewest bits that statements convert to on their way, if they do."""
    found = [
        node.dtype
        for spec in (one.of, one.by)
        for value in spec.compute.values
        for node in walk(value)
        if isinstance(node, Cast) and node.dtype is not None and node.dtype.is_float
    ]
    return max(found, key=unit, default=None)


def _compared(
    value: torch.Tensor, bound: torch.Tensor, right: torch.Tensor, narrowest: Dtype | None, dtype: Dtype
) -> str:
    """Where a gradient is further from the right one than rounding explains; autograd has NaN where others have not."""
    import torch

    size = right.abs().masked_fill(~right.isfinite(), 0)
    most = float(size.max()) if size.numel() else 0.0
    room = bound + unit(dtype) * 2 * size + 2 * half_subnormal(dtype) + _SLACK * most
    if narrowest is not None:
        room = room + 4 * unit(narrowest) * most
    wrong = ~((value - right).abs() <= room) & room.isfinite() & (value != right) & ~right.isnan()
    if not bool(wrong.any()):
        return ""
    first = tuple(int(i) for i in torch.nonzero(wrong)[0])
    got, wanted = float(value[first]), float(right[first])
    return f"[{', '.join(map(str, first))}] is {got:.6g}, and {wanted:.6g} by autograd in float64"
