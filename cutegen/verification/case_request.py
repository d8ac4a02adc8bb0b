"""A case that a kernel is to be verified on, before its sizes are brought to allowed ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cutegen.verification.telling_scalars import Values

Layout = Literal["compact", "padded", "offset"]
Data = Literal["random", "integers", "special", "rows", "magnitudes", "peaks"]


@dataclass(frozen=True)
class CaseRequest:
    """A case before its sizes are brought to allowed ones. Modes that `wanted` leaves out get the tile's size.

    `scalars` has values of some scalars by name; the others follow from the case. The tensors `infinite` have
    infinities at some places of their last row. The rest is as for `Case`.
    """

    name: str
    why: str
    wanted: Mapping[str, int] = field(default_factory=dict)
    layout: Layout = "compact"
    data: Data = "random"
    exactly: bool = False  # the spec's own sizes are taken as they are
    scalars: Values = field(default_factory=dict)
    every_way: bool = False  # of running, of a kernel that has several, and not the first alone
    infinite: tuple[str, ...] = ()
    blocks: int | None = None  # of a persistent kernel, instead of its own number
    once: bool = False  # for the general kernels of a module only: it tests the statements, which all kernels share
    ends: tuple[int, ...] = ()  # of the segments of a mode, or its lengths; empty: they follow from the case
    form: bool = False  # for one of a module's kernels that differ in numbers alone: it tests what they share
