"""A cache for functions of one object, whose key is the identity of the object and not its value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

_Asked = TypeVar("_Asked")
_Found = TypeVar("_Found")


def remembers(most: int) -> Callable[[Callable[[_Asked], _Found]], Callable[[_Asked], _Found]]:
    """A decorator that keeps a function's results for the last `most` objects that it was called with.

    The objects must be immutable. They need no hash, unlike those of `functools.lru_cache`, and are not compared.
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
