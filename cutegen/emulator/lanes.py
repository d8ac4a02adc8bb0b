"""Lanes: the threads of all blocks that run at once, as arrays of shape (threads of a block, blocks).

Values are arrays that broadcast to that shape: what is the same for every thread, or for every block, is computed once.
Masks are such arrays of bool; None stands for all lanes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.faults import Kind
from cutegen.emulator.types import Instruction

Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = "NDArray[np.bool_] | None"


class Stop(Exception):
    """A fault seen by a lane, before the machine adds where that is."""

    def __init__(
        self,
        kind: Kind,
        explanation: str,
        instruction: Instruction | None = None,
        lane: tuple[int, int] | None = None,
        *,
        address: int | None = None,
        tensor: str | None = None,
        element: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(explanation)
        self.kind, self.explanation, self.instruction, self.lane = kind, explanation, instruction, lane
        self.address, self.tensor, self.element = address, tensor, element


def both(a: Mask, b: Mask) -> Mask:
    """Lanes in both masks."""
    if a is None:
        return b
    return a if b is None else a & b


def first(bad: Array, shape: tuple[int, int]) -> tuple[int, int]:
    """The first lane of a mask, blocks before threads."""
    order = np.broadcast_to(bad, shape).T.reshape(-1)
    index = int(order.argmax())
    return index % shape[0], index // shape[0]


def at(value: Array, lane: tuple[int, int], shape: tuple[int, int]) -> int:
    """A lane's value as a number."""
    return int(np.broadcast_to(value, shape)[lane])
