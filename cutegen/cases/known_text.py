"""Tensors as a case's launch gets them: with the alignment and sizes that the case knows beyond those of all calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutegen.cases.plan import CasesPlan
from cutegen.codegen.formatting import Item
from cutegen.codegen.variables import Variables
from cutegen.language.model import KernelSpec, Tensor


@dataclass(frozen=True)
class KnownText:
    """A function that gives the tensors with what several cases know of them alike."""

    name: str
    says: str
    parameters: Sequence[str]
    items: Sequence[Item]

    @property
    def called(self) -> str:
        """All that it gives, among the arguments of a call."""
        return f"*{self.name}({', '.join(one.split(':')[0] for one in self.parameters)})"


def known_by_case(plan: CasesPlan, variables: Variables) -> dict[int, KnownText]:
    """Of each case that knows the same as another one and is not compared by cost, by its number from 0 on."""
    groups: dict[str, list[int]] = {}
    for number, case in enumerate(plan.cases):
        if number not in plan.by_cost and promises_more(plan.spec, case.spec):
            items = [promised(plan.spec, case.spec, tensor) for tensor in plan.spec.tensors]
            groups.setdefault(str(items), []).append(number)
    found: dict[int, KnownText] = {}
    parameters = [f"m{tensor.name}: cute.Tensor" for tensor in plan.spec.tensors]
    for numbers in groups.values():
        if len(numbers) == 1:
            continue
        first = plan.cases[numbers[0]].spec
        items = [promised(plan.spec, first, tensor) for tensor in plan.spec.tensors]
        says = f"cases {', '.join(str(number + 1) for number in numbers[:-1])} and {numbers[-1] + 1}"
        text = KnownText(variables.free("known_tensors"), says, parameters, items)
        found |= dict.fromkeys(numbers, text)
    return found


def promises_more(spec: KernelSpec, own: KernelSpec) -> bool:
    """Whether a case knows more of some tensor than all do."""
    return any(promised(spec, own, tensor) != f"m{tensor.name}" for tensor in spec.tensors)


def promised(spec: KernelSpec, own: KernelSpec, tensor: Tensor) -> Item:
    """A tensor with what its case knows of it."""
    name, align = f"m{tensor.name}", own.tensor(tensor.name).align or 1
    shape = [_extent(spec, own, tensor, mode) for mode in tensor.shape]
    changed = [i for i, extent in enumerate(shape) if extent != f"{name}.shape[{i}]"]
    if not changed and align <= (tensor.align or 1):
        return name
    sizes: Item = ("(", shape, ",)" if len(shape) == 1 else ")") if changed else f"{name}.shape"
    return "_promised(", [name, sizes, str(align)], ")"


def _extent(spec: KernelSpec, own: KernelSpec, tensor: Tensor, mode: str) -> str:
    """The size of a mode of a tensor, with what a case knows of it."""
    size = f"m{tensor.name}.shape[{tensor.shape.index(mode)}]"
    if mode in own.static and mode not in spec.static:
        return str(own.static[mode])
    step = own.divisible.get(mode, 1)
    if mode not in spec.static and step != spec.divisible.get(mode, 1):
        return f"cute.assume({size}, divby={step})"
    return size
