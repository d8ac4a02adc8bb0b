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


def read_choices(
    ctx: Context, op: str, tensors: Mapping[str, Tensor], compute: Compute | None, *, tuned: bool = False
) -> tuple[Schedule, dict[str, tuple[Any, ...]]]:
    """The schedule as written, and if it is `tuned` the values that `tune` tries: of the family of its mma atom, else
    of each that has its words and is meant for what is computed.

    Where there is none, what the last of them has against it is said.
    """
    written = ctx.data.get("schedule", {})
    read: list[_Read] = []
    for family in families_meant(op, written):
        own = Context(ctx.variant)
        schedule = read_schedule(own, family, tensors, compute)
        values = tune(own, family, tensors, compute) if tuned else {}
        why = family.unmeant(schedule, tensors, compute) if compute is not None else None
        read.append(_Read(schedule, values, own.found, why and f"not {family.atoms[0]}: {why}"))
    right = [one for one in read if not one.found]
    if not right:
        ctx.found += read[-1].found
        return read[-1].schedule, read[-1].values
    if is_named(op, written):
        return right[0].schedule, right[0].values
    family_of_choices()
    options = [one for one in right if one.unmeant is None] or right
    unmeant = [one.unmeant for one in right if one.unmeant and one not in options]
    return Choices(tuple(one.schedule for one in options), tuple(unmeant)), options[0].values


class _Read(NamedTuple):
    """What was written as a schedule of one family, with what is wrong with it, and why it is not meant for that."""

    schedule: Schedule
    values: dict[str, tuple[Any, ...]]
    found: list[Diagnostic]
    unmeant: str | None
