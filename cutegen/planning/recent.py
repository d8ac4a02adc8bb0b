"""Results that are kept for the last few objects they were computed from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Results for the last `most` objects.

    Objects are compared by identity: specs and plans have no hash, and comparing two takes longer than a search.
    """

    def __init__(self, most: int) -> None:
        self._kept: deque[tuple[K, V]] = deque(maxlen=most)

    def of(self, one: K, make: Callable[[K], V]) -> V:
        """The result for an object, which `make` computes unless it is kept. Raises what `make` raises."""
        for known, result in tuple(self._kept):
            if known is one:
                return result
        result = make(one)
        self._kept.append((one, result))
        return result
