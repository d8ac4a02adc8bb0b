"""Runs a program: all its blocks, in batches of lanes (`schedule.py` runs one), in the order that a seed stands for.

Seed 0 runs blocks side by side and warps in step, in the order of their numbers. Any other seed deals the blocks into
groups at random, and the warps of a block into parts between any two barriers: a group, or a part, goes as far as it
can before the next one starts. Seeds 2n - 1 and 2n take the same groups and parts in opposite orders, so that what two
of them could do to each other happens both ways round. Races are found in any order (`races.py`, `ordering.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cutegen.emulator.access import GlobalAccess
from cutegen.emulator.lanes import Array
from cutegen.emulator.memory import GlobalMemory
from cutegen.emulator.program import Program
from cutegen.emulator.schedule import Schedule
from cutegen.emulator.shared import SharedMemory
from cutegen.emulator.state import Lanes
from cutegen.emulator.warps import WARP

Triple = tuple[int, int, int]
_LANES = 8192  # at once: about what a core's second-level cache holds of a matrix product
_GROUPS = 4  # of the blocks, one after the other, with a seed


class Machine:
    """One launch. `limit` is the most instructions that a thread may execute; raises `Stop` for the first fault.

    `instructions` counts those of all lanes together.
    """

    def __init__(
        self,
        program: Program,
        grid: Triple,
        block: Triple,
        parameters: bytes,
        memory: GlobalMemory,
        shared: int,
        *,
        seed: int,
        limit: int,
        lanes: int = _LANES,
    ) -> None:
        self.program, self.grid, self.block = program, grid, block
        self.parameters, self.memory = parameters, memory
        self.dynamic, self.seed, self.limit = shared, seed, limit
        self.threads = prod(block)
        self.at_once = max(1, lanes // self.threads)
        self.instructions = 0
        self.numbers: Array = np.zeros(0, np.int64)
        self.chance = self._drawn()

    def run(self) -> None:
        blocks: Array = np.arange(prod(self.grid))
        size = self.at_once
        if self.seed:
            blocks = self._drawn().permutation(blocks)
            size = min(size, -(-len(blocks) // _GROUPS))
        for start in self.in_turn(range(0, len(blocks), size)):
            self.chance = self._drawn(start)  # of the group, whether it comes first or last
            self._batch(blocks[start : start + size])

    def in_turn(self, parts: Sequence[int]) -> Sequence[int]:
        """Every other seed takes them from the last to the first."""
        return parts[::-1] if self.seed and self.seed % 2 == 0 else parts

    def _drawn(self, *what: int) -> np.random.Generator:
        """The chance that two seeds, opposite to each other, share."""
        return np.random.default_rng(((self.seed + 1) // 2, *what))

    def place(self, lane: tuple[int, int]) -> tuple[Triple, Triple]:
        """Block and thread of a lane of the batch that ran last."""
        return _coordinates(int(self.numbers[lane[1]]), self.grid), _coordinates(lane[0], self.block)

    # ---------------------------------------------------------------------------------------------------- a batch

    def _batch(self, numbers: Array) -> None:
        self.numbers = numbers
        shape = (self.threads, len(numbers))
        self.epochs: Array = np.zeros((1, shape[1]), np.int32)
        placement = self.program.placement
        size, variables = placement.dynamic + self.dynamic, placement.shared(self.dynamic)
        shared = SharedMemory(size, self.program.shared_unit, shape, variables)
        ids = numbers[None, :].astype(np.int64) * self.threads + np.arange(self.threads)[:, None]
        access = GlobalAccess(self.memory, ids, self.threads, lambda: self.epochs)
        lanes = Lanes(list(self.program.widths), shape, shared, access, self.parameters, self._specials(numbers))

        def underflow(kind: str, flag: int) -> None:
            lanes.underflow = True

        with np.errstate(all="ignore"), np.errstate(under="call", call=underflow):
            Schedule(self, lanes).run()
        shared.barrier()

    def _specials(self, numbers: Array) -> dict[str, Array]:
        def fixed(value: int) -> Array:
            return np.asarray(value, np.uint32)

        thread = np.arange(self.threads, dtype=np.uint32)[:, None]
        number = numbers[None, :].astype(np.uint32)
        specials: dict[str, Array] = {}
        for axis, name in enumerate("xyz"):
            inner_t, inner_g = prod(self.block[:axis]), prod(self.grid[:axis])
            specials[f"%tid.{name}"] = thread // np.uint32(inner_t) % np.uint32(self.block[axis])
            specials[f"%ctaid.{name}"] = number // np.uint32(inner_g) % np.uint32(self.grid[axis])
            specials[f"%ntid.{name}"], specials[f"%nctaid.{name}"] = fixed(self.block[axis]), fixed(self.grid[axis])
            specials[f"%clusterid.{name}"] = specials[f"%ctaid.{name}"]
            specials[f"%nclusterid.{name}"] = specials[f"%nctaid.{name}"]
            specials[f"%cluster_ctaid.{name}"], specials[f"%cluster_nctaid.{name}"] = fixed(0), fixed(1)
            for which in (f"%tid.{name}", f"%ctaid.{name}"):
                if (self.block if "tid." in which and "cta" not in which else self.grid)[axis] == 1:
                    specials[which] = fixed(0)
        specials["%cluster_ctarank"], specials["%cluster_nctarank"] = fixed(0), fixed(1)
        lane = thread % np.uint32(WARP)
        one = np.uint32(1)
        equal = one << lane
        specials |= {
            "%laneid": lane,
            "%warpid": thread // np.uint32(WARP),
            "%nwarpid": fixed(-(-self.threads // WARP)),
            "%lanemask_eq": equal,
            "%lanemask_lt": equal - one,
            "%lanemask_le": equal - one | equal,
            "%lanemask_ge": ~(equal - one),
            "%lanemask_gt": ~(equal - one | equal),
            "%dynamic_smem_size": fixed(self.dynamic),
            "%total_smem_size": fixed(self.program.placement.static + self.dynamic),
        }
        return specials


def _coordinates(number: int, extents: Triple) -> Triple:
    x, rest = number % extents[0], number // extents[0]
    return x, rest % extents[1], rest // extents[1]
