"""Text to a schedule that names no mma atom: one of each family that has its words and is meant for the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cutegen.choosing.choices import Choices
from cutegen.choosing.meant import families_meant, is_named
from cutegen.expressions.tree import Compute
from cutegen.language.context import Context
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.model import Schedule, Tensor
from cutegen.language.tuning import read_schedule, tune
from cutegen.registry import family_of_choices

_NAMES = {"CG111", "CG113"}  # of kernels, and of tensors and scalars


def read_choices(
    ctx: Context, op: str, tensors: Mapping[str, Tensor], compute: Compute | None, *, tuned: bool = False
) -> tuple[Schedule, dict[str, tuple[Any, ...]]]:
    """The schedule as written, and if it is `tuned` the values that `tune` tries: of the family of its mma atom, else
    of each that has its words and is meant for what is computed.

    Where there is none, what the last of them has against it is said. So is what a faster one than those has against
    names alone: what a tensor is called does not choose what multiplies.
    """
    written = ctx.data.get("schedule", {})
    read: list[_Read] = []
    for family in families_meant(op, written):
        own = Context(ctx.variant)
        schedule = read_schedule(own, family, tensors, compute)
        values = tune(own, family, tensors, compute) if tuned else {}
        why = family.unmeant(schedule, tensors, compute) if compute is not None else None
        runs = not family.only_targets or not {*family.only_targets}.isdisjoint(_targets(ctx, family.only_targets))
        unmeant = why and f"not {family.atoms[0]}: {why}"
        read.append(_Read(schedule, values, own.found, unmeant, runs))
    right = [one for one in read if not one.found]
    options = [one for one in right if one.unmeant is None] or right
    first = next((one for one in options if one.runs), options[0] if options else None)
    faster = read[: read.index(first)] if first is not None else []
    misnamed = next((one for one in faster if one.is_misnamed), None)
    if not right or misnamed:
        refused = misnamed or read[-1]
        ctx.found += refused.found
        return refused.schedule, refused.values
    if is_named(op, written):
        return right[0].schedule, right[0].values
    family_of_choices()
    others = [one.unmeant for one in read if one.unmeant and one not in options]
    values = options[0].values if first is None else first.values
    return Choices(tuple(one.schedule for one in options), tuple(others)), values


class _Read(NamedTuple):
    """A written schedule as one family reads it, with its diagnostics, and why it is not meant for that family."""

    schedule: Schedule
    values: dict[str, tuple[Any, ...]]
    found: list[Diagnostic]
    unmeant: str | None
    runs: bool  # on one of the targets

    @property
    def is_misnamed(self) -> bool:
        """Whether it would do, but for names that its kernel has."""
        return self.runs and self.unmeant is None and bool(self.found) and {d.code for d in self.found} <= _NAMES


def _targets(ctx: Context, default: tuple[str, ...]) -> tuple[str, ...]:
    """The targets of the spec, as written; `default` where none are."""
    written = ctx.data.get("targets")
    return tuple(map(str, written)) if isinstance(written, list) else default
