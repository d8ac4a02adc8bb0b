"""The reader of values that the schema alone cannot validate: layouts and counts."""

from __future__ import annotations

from typing import Any, Protocol

from tensor_layouts import Layout

from cutegen.language.counts import Count


class ValueReader(Protocol):
    """Reads a value that stands at a path, and says what is wrong with it. A `Context` does."""

    def layout(self, value: Any, *path: str | int, injective: bool = True) -> Layout | None: ...

    def count(self, value: int | str, *path: str | int) -> Count: ...
