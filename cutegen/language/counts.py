"""Bounds on numbers, as `expect` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Literal

_HOLDS = {"==": eq, "!=": ne, ">=": ge, "<=": le, ">": gt, "<": lt}


@dataclass(frozen=True)
class Count:
    """A bound on a number: `>= 512`, `== 4` (a plain `4`), `<= 2`, `> 0`, `< 9`, `!= 0`."""

    relation: Literal["==", "!=", ">=", "<=", ">", "<"]
    number: int

    def holds(self, found: int) -> bool:
        return bool(_HOLDS[self.relation](found, self.number))

    def __str__(self) -> str:
        return str(self.number) if self.relation == "==" else f"{self.relation} {self.number}"
