"""Rows of several modes as rows of one: what inference, rules and plan see of a kernel that reduces along all of them.

A row that goes along C and HW is one of the mode `C*HW`, in tensors where these stand one behind the other. A tensor
that has only some of them, such as a weight of each C, keeps its modes, and is read at the place that they have in the
row. All else of cutegen speaks of the modes as they were written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import gcd, lcm, prod

from cutegen.expressions.places import joined
from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.tree import Cast, Expr, Reduce, Typed
from cutegen.families.rowwise.schedule import RowwiseSchedule, Spec
from cutegen.language.kinds import MAX_INT
from cutegen.language.model import KernelSpec, Tensor
from cutegen.ops.row_modes import row_modes
from cutegen.planning.promises import known_divisor


@dataclass(frozen=True, kw_only=True)
class FlatSpec(KernelSpec[RowwiseSchedule]):
    """A spec whose rows have one mode instead of `parts`; `written` is the one that has these."""

    written: Spec
    parts: tuple[str, ...]

    @property
    def row(self) -> str:
        """The name of the one mode."""
        return joined(self.parts)

    @cached_property
    def lead(self) -> Tensor:
        return self.tensor(self.written.lead.name)


def parts_of(spec: Spec) -> tuple[str, ...]:
    """The modes of a row."""
    return spec.parts if isinstance(spec, FlatSpec) else row_modes(spec.compute, spec.tensors)


def flat(spec: Spec) -> Spec:
    """The spec with a row of one mode: the spec itself, where a row has no more."""
    if isinstance(spec, FlatSpec):
        return spec
    parts = row_modes(spec.compute, spec.tensors)
    if len(parts) == 1:
        return spec
    row = joined(parts)
    own = {field.name: getattr(spec, field.name) for field in fields(spec)}
    own["tensors"] = tuple(_with_row(tensor, parts, row) for tensor in spec.tensors)
    if all(part in spec.static for part in parts):
        own["static"] = {**spec.static, row: prod(spec.static[part] for part in parts)}
    elif (divisor := prod(known_divisor(spec, part) for part in parts)) > 1:
        own["divisible"] = {**spec.divisible, row: min(divisor, MAX_INT)}
    if any(part in spec.within for part in parts):
        bounds = [(spec.static[p],) * 2 if p in spec.static else spec.sizes_of(p) for p in parts]
        low, high = (prod(bound[i] for bound in bounds) for i in (0, 1))
        own["within"] = {**spec.within, row: (low, min(high, MAX_INT))}
    return FlatSpec(**own, written=spec, parts=parts)


def _with_row(tensor: Tensor, parts: tuple[str, ...], row: str) -> Tensor:
    if not all(part in tensor.shape for part in parts):
        return tensor
    others = tuple(mode for mode in tensor.shape if mode not in parts)
    return replace(tensor, shape=(*others, row), major=row if tensor.major == parts[-1] else tensor.major)


def as_written(spec: Spec) -> Spec:
    """The spec with the modes that were written, and all else as it is in one whose rows have one mode."""
    if not isinstance(spec, FlatSpec):
        return spec
    before = spec.written
    tensors = tuple(_with_parts(tensor, before.tensor(tensor.name), spec) for tensor in spec.tensors)
    divisible = {mode: number for mode, number in spec.divisible.items() if mode != spec.row}
    wanted, known = spec.divisible.get(spec.row, 1), prod(known_divisor(before, part) for part in spec.parts)
    last = next((part for part in reversed(spec.parts) if part not in spec.static), None)
    if known % wanted and last is not None:
        divisible[last] = lcm(divisible.get(last, 1), wanted // gcd(wanted, known // known_divisor(before, last)))
    return replace(
        before, schedule=spec.schedule, targets=spec.targets, tensors=tensors, divisible=divisible, source=spec.source
    )


def _with_parts(tensor: Tensor, before: Tensor, spec: FlatSpec) -> Tensor:
    if spec.row not in tensor.shape:
        return tensor
    major = spec.parts[-1] if tensor.major == spec.row else tensor.major
    return replace(tensor, shape=before.shape, major=major, dense=spec.parts)


def partial_tensors(spec: Spec) -> list[Tensor]:
    """The tensors that have some of a row's modes, and not all: each of their elements is read at several places."""
    return [tensor for tensor in spec.tensors if is_partial(spec, tensor)]


def is_partial(spec: Spec, tensor: Tensor) -> bool:
    """Whether a tensor has some of a row's modes, and not all."""
    return isinstance(spec, FlatSpec) and any(part in tensor.shape for part in spec.parts)


def along_row(spec: Spec, modes: Sequence[str]) -> tuple[str, ...]:
    """The modes of a tensor with that of the row instead of those that are parts of it."""
    if not isinstance(spec, FlatSpec):
        return tuple(modes)
    return tuple(dict.fromkeys(spec.row if mode in spec.parts else mode for mode in modes))


def flat_sizes(spec: Spec, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """The sizes of all modes with that of the row."""
    if not isinstance(spec, FlatSpec):
        return sizes
    return {**sizes, spec.row: prod(sizes[part] for part in spec.parts)}


def parted(spec: Spec, extents: Mapping[str, int]) -> dict[str, int]:
    """Returns a block's extents by mode, with the extent along the row split among the modes that a row is made of.
    Modes of fixed size get all of it, the last of the others gets the rest, rounded up, and any before it get 1.
    """
    if not isinstance(spec, FlatSpec) or spec.row not in extents:
        return dict(extents)
    found = {mode: extent for mode, extent in extents.items() if mode != spec.row}
    found |= {part: spec.static.get(part, 1) for part in spec.parts}
    last = next((part for part in reversed(spec.parts) if part not in spec.static), None)
    if last is not None:
        found[last] = -(-extents[spec.row] // max(1, prod(found[p] for p in spec.parts if p != last)))
    return found


def along_one_mode(spec: Spec, statements: Sequence[Typed]) -> tuple[Typed, ...]:
    """The statements in which a reduction along all modes of a row is one along that of the row."""
    if not isinstance(spec, FlatSpec):
        return tuple(statements)
    row, parts = spec.row, {*spec.parts}

    def put(node: Expr) -> Expr:
        if isinstance(node, Reduce) and {one.mode for one in node.nested} == parts:
            return replace(node, x=put(node.nested[-1].x), mode=row)
        return rebuilt(node, put)

    found = []
    for typed in statements:
        value, stored = put(typed.value), typed.stored
        if stored is typed.value:
            stored = value
        elif stored is not None:
            stored = replace(stored, x=value) if isinstance(stored, Cast) and stored.x is typed.value else put(stored)
        found.append(replace(typed, value=value, stored=stored))
    return tuple(found)
