"""A schedule that names no mma atom, where the words that it has are those of several families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutegen.language.model import KernelSpec, Schedule


@dataclass(frozen=True)
class Choices(Schedule):
    """What was written as a schedule of each family that has the words, the fastest first. Planning takes one.

    `unmeant` says of the families that have the words, too, why they are no options.
    """

    options: tuple[Schedule, ...] = ()
    unmeant: tuple[str, ...] = ()

    def as_data(self) -> Any:
        return self.options[-1].as_data()


Spec = KernelSpec[Choices]
