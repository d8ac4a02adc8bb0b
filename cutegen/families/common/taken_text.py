"""Text for tensors whose elements are taken `at` places that other tensors have: the places, and where accesses begin.

In `launch` such a tensor gets a layout along the modes that the kernel walks, with a stride of 0 along those of the
places and one mode more for each that is taken. The kernel keeps the strides of the latter as `step_W_V`, walks place
0, and moves each access by places times steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cutegen.families.common.pointwise import Operand, PointwisePlan
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.taken import indices


class PlacesText(NamedTuple):
    """A tensor of places: for each access of a thread one, or for each of its values."""

    tensor: Tensor
    values: str  # of a thread, in memory
    number: str  # of its places
    step: str  # values from one place to the next
    predicate: list[str]
    loading: list[str]  # arguments of the copy atom

    @property
    def registers(self) -> str:
        return f"{self.tensor.name}_at"


class LaidOutText(NamedTuple):
    """The layout that a tensor taken at places gets in `launch`."""

    name: str
    told: str  # `indexed by ids along V`
    last: str  # what V does: `comes last`, or of several modes `come last`
    shape: list[str]
    strides: list[str]


class TakenText(NamedTuple):
    """A tensor that is taken at places."""

    layout: LaidOutText
    steps: list[tuple[str, int]]  # variables of the strides along the modes that are taken, and where these stand
    walked: str  # the index that leaves the modes that the kernel walks
    accesses: str  # of a thread
    predicate: str  # of the access of number `vector`; nothing where no access is left out
    indent: str  # of what is done for an access
    offset: list[str]  # of that access: the terms of a sum, in elements


def laid_out(tensor: Tensor, walked: Sequence[str], strides: Sequence[str]) -> LaidOutText:
    """The layout of a tensor along the modes that the kernel walks, of the sizes `walked` with those strides, and then
    along each mode that is taken.
    """
    name, axes = tensor.name, [tensor.shape.index(mode) for mode, _ in tensor.at]
    return LaidOutText(
        name,
        "indexed by " + " and ".join(f"{index} along {mode}" for mode, index in tensor.at),
        "comes last" if len(axes) == 1 else "come last",
        [*walked, *(f"m{name}.shape[{axis}]" for axis in axes)],
        [*strides, *(f"m{name}.stride[{axis}]" for axis in axes)],
    )


def walked_text(spec: KernelSpec) -> str:
    """The shape that the kernel walks, in `launch`: that of the leading tensor, unless it is taken at places."""
    lead = spec.lead
    return "walked_shape" if spec.tensor(lead.name).at else f"m{lead.name}.shape"


def walked_sizes(spec: KernelSpec) -> list[str]:
    """The items of the tuple of sizes that the kernel walks, as other tensors have them, where the leading tensor is
    taken at places; none where it is not. A single one ends with the comma that makes it a tuple.
    """
    found: list[str] = []
    if not spec.tensor(spec.lead.name).at:
        return found
    for mode in spec.lead.shape:
        tensor = next(t for t in spec.tensors if mode in t.shape)
        found.append(f"m{tensor.name}.shape[{tensor.shape.index(mode)}]")
    return found if len(found) > 1 else [f"{found[0]},"]


def places_of(plan: PointwisePlan, width: str) -> list[PlacesText]:
    """The tensors of the places of operands, in the spec's order. `width` is the text of the elements of one access."""
    names, lead, length = _indices(plan), plan.spec.lead, values_taken(plan)
    predicate = f"t{plan.spec.output.name}p{lead.name}"
    found = []
    for tensor in plan.spec.tensors:
        if tensor.name not in names:
            continue
        each = _for_each_value(plan, tensor)
        suffix = "_1" if each and plan.pointwise.vector != 1 else ""
        masked = [f"pred={predicate}{suffix}"] if plan.pointwise.masked else []
        number, step = (length, "1") if each else (f"{length} // {width}", width)
        bits = f"num_bits_per_copy={tensor.dtype.bits}"
        atom = ["cute.nvgpu.CopyUniversalOp()", f"m{tensor.name}.element_type", bits]
        found.append(PlacesText(tensor, thread_values(plan, tensor), number, step, masked, atom))
    return found


def values_taken(plan: PointwisePlan) -> str:
    """How many values of a thread are computed together, as text."""
    return "SLICE" if plan.pointwise.sliced else "VALUES"


def thread_values(plan: PointwisePlan, tensor: Tensor) -> str:
    """The variable of those values of a tensor in memory."""
    return f"t{plan.spec.output.name}g{tensor.name}" + ("[None, part]" if plan.pointwise.sliced else "")


def _indices(plan: PointwisePlan) -> tuple[str, ...]:
    """The tensors of places at which operands are taken, by name."""
    return indices([o.tensor for o in plan.pointwise.operands])


def predicated(plan: PointwisePlan) -> list[Operand]:
    """The operands whose accesses have predicates: of places only those with one for each value."""
    names = _indices(plan)
    each = {t.name for t in plan.spec.tensors if t.name in names and _for_each_value(plan, t)}
    return [o for o in plan.pointwise.operands if o.read or o.write or o.tensor.name in each]


def taken_text(
    plan: PointwisePlan, o: Operand, own: str, width: str, strides: Sequence[str], predicate: str
) -> TakenText | None:
    """The text of an operand that is taken at places; None for others.

    `own` and `width` are the texts of how many elements an access of it has, and one of the widest; `strides` are those
    along the modes that the kernel walks; `predicate` is the last argument of its copies, nothing where none is masked.
    """
    spec, tensor = plan.spec, o.tensor
    if not tensor.at:
        return None
    name, steps, terms, rank = tensor.name, [], [], len(spec.lead.shape)
    for number, (mode, index) in enumerate(tensor.at):
        step = f"step_{name}_{mode}"
        steps.append((step, rank + number))
        each = _for_each_value(plan, spec.tensor(index))
        place = "vector" if each or own == width else f"vector * {own} // {width}"
        terms.append(f"cutlass.Int64(t{spec.output.name}r{index}_at[{place}]) * {step}")
    return TakenText(
        layout=laid_out(tensor, [f"*{walked_text(spec)}"], strides),
        steps=steps,
        walked=", ".join(["None"] * rank + ["0"] * len(tensor.at)),
        accesses=f"{values_taken(plan)} // {own}",
        predicate=f"{predicate.partition('=')[2]}[vector]" if predicate else "",
        indent=" " * (12 if predicate else 8),
        offset=terms,
    )


def _for_each_value(plan: PointwisePlan, index: Tensor) -> bool:
    """Whether neighbours of one access may have different places."""
    return plan.spec.lead.major in index.shape
