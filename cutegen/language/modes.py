"""Modes that a spec declares by what they are to others: rows that are cut into segments, one for each place along
another mode.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import NamedTuple

from cutegen.language.kinds import Text, key


@dataclass(frozen=True)
class Mode:
    """A mode by name, and what it is to another mode."""

    name: str
    of: str = key(
        Text(), "The mode with one element for each segment that this one is cut into.", default=MISSING, required=True
    )
    offsets: str = key(
        Text(),
        "The tensor of i32 with the end of each segment: segment x has the places from the end of the one before up to "
        "its own, which it does not have.",
        default=MISSING,
        required=True,
    )


class Segments(NamedTuple):
    """A mode that is cut into segments: the elements of each lie in a row, and one place along the mode `of` belongs to
    them. The tensor `ends` has the end of each, in ascending order.
    """

    mode: str
    of: str
    ends: str
