"""Tensors and coordinates with some of the modes that a row is made of, as the templates print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cutegen.codegen.variables import Variables
from cutegen.dtypes import Dtype
from cutegen.families.common.pointwise_text import unsigned_element
from cutegen.families.rowwise.flat import FlatSpec
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.language.model import Tensor
from cutegen.planning.promises import known_divisor


@dataclass(frozen=True)
class PartialText:
    """A tensor with only some modes of a row, so that each element applies to several places."""

    tensor: Tensor
    variable: str
    registers: str
    element: str  # their type
    index: str  # of the element for `place`
    shared: bool  # whether all places of an access have the same element
    held: str  # the values of its registers


@dataclass(frozen=True)
class PartText:
    """The coordinates of a thread's values along a mode that a row's is made of: variable, and text for `place`."""

    variable: str
    text: str


class PartsText:
    """The modes of a row as text: their sizes, and the coordinate along each that a place in the row has."""

    def __init__(self, plan: RowwisePlan, row_coordinates: Mapping[str, str], variables: Variables) -> None:
        self.plan, self.row_coordinates = plan, row_coordinates
        spec = plan.flat
        self.modes = spec.parts if isinstance(spec, FlatSpec) else ()
        self.coordinates = {mode: variables.free(f"coord_{mode}") for mode in self.modes}
        self.dynamic = {mode: variables.free(f"size_{mode}") for mode in self.modes[1:] if mode not in spec.static}

    def size(self, mode: str) -> str:
        """The text of the size of a mode; that of the first one, which no coordinate needs, is none of the kernel's."""
        return self.dynamic.get(mode) or str(self.plan.flat.static[mode])

    def coordinate(self, mode: str, place: str = "place") -> str:
        """The text of the coordinate along a mode at a place of the row."""
        number = self.modes.index(mode)
        inside = self._product(self.modes[number + 1 :])
        text = f"{place} // {inside}" if inside else place
        return f"{text} % {self.size(mode)}" if number else text

    def _product(self, modes: Sequence[str]) -> str:
        """The text of what the sizes of some modes come to; empty for 1."""
        fixed = prod(self.plan.flat.static[mode] for mode in modes if mode not in self.dynamic)
        factors = [*([str(fixed)] if fixed > 1 else []), *(self.dynamic[m] for m in modes if m in self.dynamic)]
        return factors[0] if len(factors) == 1 else f"({' * '.join(factors)})" if factors else ""

    def parts(self, modes: Sequence[str]) -> list[PartText]:
        """The texts of the coordinates along some modes."""
        return [PartText(self.coordinates[mode], self.coordinate(mode)) for mode in self.modes if mode in modes]

    def tensor(self, tensor: Tensor, converted: Dtype | None) -> PartialText:
        """The texts of a tensor that has some of the modes."""
        spec = self.plan.flat
        last = max(self.modes.index(mode) for mode in tensor.shape if mode in self.modes)
        run = prod(known_divisor(spec, mode) for mode in self.modes[last + 1 :])
        at = [self.coordinate(m) if m in self.modes else self.row_coordinates.get(m, "0") for m in tensor.shape]
        registers = f"t{spec.lead.name}r{tensor.name}"
        held = f"{registers}.load()"
        if tensor.dtype is Dtype.bool:
            held = f"{held} != 0" if converted is None else f"({held} != 0)"
        return PartialText(
            tensor=tensor,
            variable=tensor.argument,
            registers=registers,
            element=unsigned_element(tensor.dtype) or f"m{tensor.name}.element_type",
            index=", ".join(at),
            shared=run % self.plan.vector == 0,
            held=held if converted is None else f"{held}.to(cutlass.{converted.cutlass})",
        )
