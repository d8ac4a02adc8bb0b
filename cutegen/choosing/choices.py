"""A schedule that names no mma atom, where the words that it has are those of several families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutegen.language.model import KernelSpec, Schedule


@dataclass(frozen=True)
class Choices(Schedule):
    """A written schedule as read by each family that has all of its words, the fastest first. Planning takes one.

    `unmeant` says why other families that have the words are not options.
    """

    options: tuple[Schedule, ...] = ()
    unmeant: tuple[str, ...] = ()

    def as_data(self) -> Any:
        return self.options[-1].as_data()


Spec = KernelSpec[Choices]
