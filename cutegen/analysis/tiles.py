"""The tiles that the blocks of a kernel take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tiles:
    """The tiles that blocks take one after the other: `count` tiles, each computed by `blocks` blocks together. At most
    `most` blocks are launched; None: there is no limit.
    """

    count: int
    blocks: int = 1
    most: int | None = None
