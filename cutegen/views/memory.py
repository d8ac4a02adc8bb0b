"""A tensor as far as its place in memory goes: an argument, or a view of one."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from cutegen.dtypes import Dtype


class Memory(Protocol):
    """An argument or a view; `cutegen.language.tensor.Tensor` documents its fields."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[str, ...]: ...

    @property
    def dtype(self) -> Dtype: ...

    @property
    def align(self) -> int | None: ...

    @property
    def major(self) -> str | None: ...

    @property
    def contiguous(self) -> str: ...

    @property
    def view(self) -> str | None: ...

    @property
    def views(self) -> tuple[Any, ...]: ...

    @property
    def reads(self) -> bool: ...


T = TypeVar("T", bound=Memory)
