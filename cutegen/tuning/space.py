"""The candidates: every combination of the values that `tune:` names, or that are worth a try."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from cutegen import registry
from cutegen.language.model import KernelSpec
from cutegen.tuning.asked import Family, family_of
from cutegen.tuning.choice import Choice, Steps
from cutegen.tuning.schedules import changed

MOST = 4096  # combinations that are looked at; of more, a sample


@dataclass(frozen=True)
class Axis:
    """One field, or several that go together, and the values that may stand there."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Space:
    """The schedules that are tried. `schedule` is the spec's own, as it is written.

    `named` are the paths that the spec's `tune:` names; where there are none, the axes are inferred, and so are further
    changes to the best candidates.
    """

    family: Family
    output: str
    schedule: Mapping[str, Any]
    axes: tuple[Axis, ...]
    named: tuple[Steps, ...] = ()

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return prod(len(axis.choices) for axis in self.axes)

    def schedules(self, seed: int, most: int = MOST) -> Iterator[dict[str, Any]]:
        """The schedules in an order that the seed decides; a sample, if there are more than `most`."""
        order = random.Random(seed).sample(range(self.size), min(self.size, most))
        for number in order:
            choice: dict[Steps, Any] = {}
            for axis in self.axes:
                number, index = divmod(number, len(axis.choices))
                choice |= axis.choices[index]
            yield self.changed(self.schedule, choice)

    def changed(self, schedule: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
        """The schedule with a choice made."""
        return changed(schedule, choice, self.family, self.output, self.named)


def make_space(raw: Mapping[str, Any], specs: tuple[KernelSpec, ...]) -> Space:
    """The space of a document, which is plain data, with its resolved kernels."""
    tune: Mapping[str, list[Any]] = raw.get("tune", {})
    specs = tuple(spec.by_view for spec in specs)  # as families know them
    first = specs[0]
    schedule = _named(raw.get("schedule", {}), first)
    named = tuple(tuple(path.split(".")[1:]) for path in tune)
    if tune:
        lists = zip(named, tune.items(), strict=True)
        axes = [Axis(name, tuple({path: value} for value in values)) for path, (name, values) in lists]
    else:
        axes = [Axis(name, tuple(choices)) for name, choices in family_of(first).axes(specs)]
    return Space(family_of(first), first.output.name, schedule, tuple(axes), named)


def _named(schedule: Mapping[str, Any], spec: KernelSpec) -> Mapping[str, Any]:
    """The schedule as written, with the mma atom that it was given, so that no candidate is of another family. The op's
    first family needs none, as what is given to it no other takes.
    """
    mma = schedule.get("mma", {})
    if "atom" in mma or family_of(spec) is registry.family_of(spec.op, {}):
        return schedule
    return {**schedule, "mma": {"atom": family_of(spec).atoms[0], **mma}} if family_of(spec).atoms else schedule


def neighbours(space: Space, schedule: Mapping[str, Any], spec: KernelSpec) -> Iterator[dict[str, Any]]:
    """Schedules that differ from this one, which resolves to `spec`, in one field that the axes leave out.

    There are none where the spec says what to try.
    """
    if space.named:
        return
    for choice in space.family.refinements(spec.by_view):
        yield space.changed(schedule, choice)
