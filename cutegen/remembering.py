"""Results of functions that are asked again about the same object, which is told by identity and not by its parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

_Asked = TypeVar("_Asked")
_Found = TypeVar("_Found")


def remembers(most: int) -> Callable[[Callable[[_Asked], _Found]], Callable[[_Asked], _Found]]:
    """A decorator for functions of one object that never changes: the results for the last `most` objects are kept.

    For objects whose comparison would take longer than a lookup, or that have no hash, as specs.
    """

    def decorate(function: Callable[[_Asked], _Found]) -> Callable[[_Asked], _Found]:
        kept: dict[int, tuple[_Asked, _Found]] = {}  # with the object itself, whose id no other one has meanwhile

        @wraps(function)
        def remembered(asked: _Asked) -> _Found:
            entry = kept.get(id(asked))
            if entry is None:
                entry = asked, function(asked)
                while len(kept) >= most:
                    kept.pop(next(iter(kept)), None)
                kept[id(asked)] = entry
            return entry[1]

        return remembered

    return decorate
