"""A claim about a plan, with the arithmetic that shows whether it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cutegen.language.kinds import Path


@dataclass(frozen=True)
class Claim:
    """One thing that holds, or does not, with the arithmetic that shows it. `path` is what in the spec decides it."""

    kind: Literal["coverage", "bounds", "order"]
    text: str
    because: tuple[str, ...]
    holds: bool
    path: Path
