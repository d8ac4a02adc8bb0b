"""Chance that a seed decides: the spec of a number is the same one each time, and needs no other to be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")


class Chance(Random):
    """Random numbers, with what makers of specs ask for."""

    def odds(self, share: float) -> bool:
        """True in that share of calls."""
        return self.random() < share

    def weighted(self, weights: Mapping[T, float]) -> T:
        """A key, as often as its value is large."""
        return self.choices(list(weights), list(weights.values()))[0]

    def some(self, fields: Mapping[str, Any], share: float = 0.5) -> dict[str, Any]:
        """The entries, each of which stays in that share of calls."""
        return {key: value for key, value in fields.items() if self.odds(share)}

    def part(self, items: Sequence[T], least: int = 0) -> list[T]:
        """Some of the items, in their order."""
        kept = set(self.sample(range(len(items)), self.randint(min(least, len(items)), len(items))))
        return [item for i, item in enumerate(items) if i in kept]
