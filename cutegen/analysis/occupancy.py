"""How many blocks of a kernel a multiprocessor (SM) holds at once, and what limits it.

As NVIDIA's occupancy calculator counts (`cuda_occupancy.h`): registers are handed out to warps, 256 at a time, from the
quarter of the SM that the warp runs on; shared memory to blocks, 128 bytes at a time, besides what the system keeps for
each block.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from cutegen.atoms.targets import TARGETS, WARP, Target

Limit = Literal["threads", "blocks", "shared memory", "registers"]
REGISTER_UNIT, SMEM_UNIT, QUARTERS = 256, 128, 4


@dataclass(frozen=True)
class Occupancy:
    """How many blocks of a kernel an SM of `target` holds at once.

    `limits` has the blocks that each resource allows; `registers` is None where nothing was compiled yet.
    """

    target: str
    threads: int  # of a block
    shared_memory: int  # bytes a block, without what the system keeps
    registers: int | None  # a thread
    limits: dict[Limit, int]

    @property
    def blocks(self) -> int:
        return min(self.limits.values())

    @property
    def binds(self) -> tuple[Limit, ...]:
        """The resources that run out first."""
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)

    @property
    def warps(self) -> int:
        return self.blocks * -(-self.threads // WARP)

    @property
    def most_warps(self) -> int:
        return TARGETS[self.target].threads_per_sm // WARP

    @property
    def text(self) -> str:
        """The occupancy as text, such as `8 blocks an SM by threads (64 of 64 warps)`."""
        blocks = f"{self.blocks} block{'s' * (self.blocks != 1)}"
        return f"{blocks} an SM by {' and '.join(self.binds)} ({self.warps} of {self.most_warps} warps)"


def as_json(o: Occupancy) -> dict[str, Any]:
    """An occupancy as plain data."""
    told = {"blocks": o.blocks, "binds": list(o.binds), "warps": o.warps, "most_warps": o.most_warps}
    return {**asdict(o), **told}


def occupancy(target: str, threads: int, shared_memory: int = 0, registers: int | None = None) -> Occupancy:
    """The occupancy of a kernel on a target, with `shared_memory` in bytes a block and `registers` a thread.

    Raises KeyError for an unknown target.
    """
    chip = TARGETS[target]
    warps = -(-threads // WARP)
    limits: dict[Limit, int] = {
        "threads": chip.threads_per_sm // (warps * WARP),
        "blocks": chip.blocks_per_sm,
        "shared memory": chip.smem_per_sm // _rounded(shared_memory + chip.smem_reserved, SMEM_UNIT),
    }
    if registers is not None:
        limits["registers"] = _warps_by_registers(chip, registers) // warps
    return Occupancy(target, threads, shared_memory, registers, limits)


def most_registers(target: str, threads: int, blocks: int) -> int:
    """Registers that a thread may have so that `blocks` blocks of `threads` fit an SM; 0 if they do not anyway."""
    chip = TARGETS[target]
    warps = -(-threads // WARP)
    for registers in range(chip.registers_per_thread, 0, -1):
        if _warps_by_registers(chip, registers) // warps >= blocks:
            return registers
    return 0


def _warps_by_registers(chip: Target, registers: int) -> int:
    return chip.registers_per_sm // QUARTERS // _rounded(max(1, registers) * WARP, REGISTER_UNIT) * QUARTERS


def _rounded(number: int, unit: int) -> int:
    return -(-number // unit) * unit
