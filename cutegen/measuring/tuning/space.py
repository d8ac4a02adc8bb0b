"""The candidates: every combination of the values that `tune:` names, or that are worth a try."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from cutegen.language.model import KernelSpec, Op
from cutegen.measuring.tuning import inferred
from cutegen.measuring.tuning.schedules import Choice, Steps, changed

MOST = 4096  # combinations that are looked at; of more, a sample


@dataclass(frozen=True)
class Axis:
    """One field, or several that go together, and what may stand there."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Space:
    """`schedule` is the spec's own, as written. `named` are the paths that the spec's `tune:` names; without any, the
    axes are inferred, and so are further changes to the best candidates."""

    op: Op
    output: str
    schedule: Mapping[str, Any]
    axes: tuple[Axis, ...]
    named: tuple[Steps, ...] = ()

    @property
    def size(self) -> int:
        return prod(len(axis.choices) for axis in self.axes)

    def schedules(self, seed: int, most: int = MOST) -> Iterator[dict[str, Any]]:
        """The schedules in an order that the seed decides; of more than `most` a sample."""
        order = random.Random(seed).sample(range(self.size), min(self.size, most))
        for number in order:
            choice: dict[Steps, Any] = {}
            for axis in self.axes:
                number, index = divmod(number, len(axis.choices))
                choice |= axis.choices[index]
            yield self.changed(self.schedule, choice)

    def changed(self, schedule: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
        return changed(schedule, choice, self.op, self.output, self.named)


def make_space(raw: Mapping[str, Any], specs: tuple[KernelSpec, ...]) -> Space:
    """Of a document as plain data, and its resolved kernels."""
    tune: Mapping[str, list[Any]] = raw.get("tune", {})
    first = specs[0]
    schedule: Mapping[str, Any] = raw.get("schedule", {})
    named = tuple(tuple(path.split(".")[1:]) for path in tune)
    if tune:
        lists = zip(named, tune.items(), strict=True)
        axes = [Axis(name, tuple({path: value} for value in values)) for path, (name, values) in lists]
    else:
        axes = [Axis(name, tuple(choices)) for name, choices in inferred.axes(specs)]
    return Space(first.op, first.output.name, schedule, tuple(axes), named)


def neighbours(space: Space, schedule: Mapping[str, Any], spec: KernelSpec) -> Iterator[dict[str, Any]]:
    """Schedules that differ from this one, which resolves to `spec`, in one field that the axes leave out.

    None where the spec says what to try.
    """
    if space.named:
        return
    for choice in inferred.refinements(spec):
        yield space.changed(schedule, choice)
