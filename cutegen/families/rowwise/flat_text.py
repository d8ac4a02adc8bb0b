"""Texts of `launch` and of the host about rows whose modes are one in the kernel."""

from __future__ import annotations

from typing import NamedTuple

from cutegen.codegen.formatting import Item
from cutegen.codegen.parts import Limit
from cutegen.codegen.views import size_texts
from cutegen.families.rowwise.flat import FlatSpec
from cutegen.families.rowwise.partial_text import PartsText
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.language.model import Tensor
from cutegen.views.sizes import solved


class FlatText(NamedTuple):
    """A tensor whose last modes become one: their names, and what makes its layout then."""

    name: str
    parts: str
    layout: Item


def flattened(plan: RowwisePlan) -> list[FlatText]:
    """The tensors that lie along the rows, of rows with several modes."""
    spec, found = plan.flat, list[FlatText]()
    if not isinstance(spec, FlatSpec):
        return found
    for tensor in spec.tensors:
        if spec.row not in tensor.shape:
            continue
        name, others = f"m{tensor.name}", range(len(tensor.shape) - 1)
        size = " * ".join(f"{name}.shape[{len(others) + i}]" for i in range(len(spec.parts)))
        end = ",)" if not others else ")"
        shape: Item = ("(", [*(f"{name}.shape[{i}]" for i in others), size], end)
        stride: Item = ("stride=(", [*(f"{name}.stride[{i}]" for i in others), "1"], end)
        found.append(FlatText(tensor.name, " and ".join(spec.parts), ("cute.make_layout(", [shape, stride], ")")))
    return found


def part_sizes(plan: RowwisePlan, parts: PartsText) -> list[str]:
    """The statements of `launch` that take the sizes of modes from a tensor before they become one."""
    lead = plan.spec.lead
    return [f"{variable} = m{lead.name}.shape[{lead.shape.index(mode)}]" for mode, variable in parts.dynamic.items()]


def row_size(plan: RowwisePlan, argument: str) -> str:
    """The text of the size of a row of the leading tensor, as the host has it of `row_source`."""
    lead, spec = plan.spec.lead.shape, plan.flat
    if plan.spec.lead.view is not None:
        text = size_texts(plan.spec.by_argument)[plan.row]
        return text.replace(f"{row_source(plan).argument}.shape", f"{argument}.shape")
    parts = spec.parts if isinstance(spec, FlatSpec) else (plan.row,)
    return " * ".join(f"{argument}.shape[{lead.index(part)}]" for part in parts)


def row_source(plan: RowwisePlan) -> Tensor:
    """The argument whose shape has the size of a row: the leading tensor, or one that tells the size of a view."""
    spec = plan.spec.by_argument
    if plan.spec.lead.view is None:
        return plan.spec.lead
    taken = {one.mode: one.argument for one in solved(spec.tensors, spec.static)[0]}
    plain = next((t for t in spec.tensors if t.reads and plan.row in t.shape), spec.inputs[0])
    return spec.tensor(taken[plan.row]) if plan.row in taken else plain


def row_limits(plan: RowwisePlan, held: str) -> tuple[Limit, ...]:
    """The limit on what the sizes of a row's modes come to, where they are not fixed."""
    spec = plan.flat
    if not isinstance(spec, FlatSpec) or spec.row in spec.static:
        return ()
    sizes = tuple(f'sizes["{part}"]' for part in spec.parts)
    holds = plan.walked or plan.longer is not None
    most = "2**31 - 2**21" if holds else held
    return (Limit("compute", sizes, f'f"{spec.row} of at most {{{most}}}"', f"tiles <= {most}"),)
