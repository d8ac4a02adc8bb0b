"""The data that an agent holds as it goes through statements: in registers, in sums, and in the cells of shared memory
that it filled itself.

All agents of a role do the same, each with its part of every tile. So the content that an agent brought to a cell is
what the whole cell must hold when the agent reads it, and proofs check that the other agents brought the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from cutegen.parts.acts import Cell, Content

Step: TypeAlias = "tuple[Content, int]"
"""A step of a sum: a tile's content, and the place along k in it."""


@dataclass
class Held:
    cells: dict[Cell, Content] = field(default_factory=dict)
    tiles: dict[str, Content] = field(default_factory=dict)  # on their way through registers, by those
    fragments: dict[tuple[str, int], Step | None] = field(default_factory=dict)  # registers of each k; None: nothing
    sums: dict[str, Counter[Step]] = field(default_factory=dict)  # how often each step was added
