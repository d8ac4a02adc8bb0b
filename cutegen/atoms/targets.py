"""The resources of each GPU target. Figures: CUDA C++ Programming Guide, table of compute capabilities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OLDEST = 80  # the first to have every copy and mma that a schedule can name: cp.async came with it


@dataclass(frozen=True)
class Target:
    """One compilation target. Shared memory in bytes: the opt-in maximum of a block, and of a multiprocessor (SM)."""

    name: str
    smem_per_block: int
    smem_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    cluster: int = 1  # thread blocks that share distributed shared memory, at most
    grid_y: int = 65535
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    smem_reserved: int = 1024  # bytes a block that the system keeps for itself

    def __post_init__(self) -> None:
        if self.number < OLDEST:
            raise ValueError(f"{self.name}: kernels copy with cp.async, which came with sm_{OLDEST}")

    @property
    def number(self) -> int:
        """Ten times the compute capability: 90 of sm_90a."""
        return int(self.name[3:].rstrip("a"))


KIB = 1024
TARGETS = {
    target.name: target
    for target in (
        Target("sm_80", 163 * KIB, 164 * KIB, threads_per_sm=2048, blocks_per_sm=32),
        Target("sm_86", 99 * KIB, 100 * KIB, threads_per_sm=1536, blocks_per_sm=16),
        Target("sm_89", 99 * KIB, 100 * KIB, threads_per_sm=1536, blocks_per_sm=24),
        Target("sm_90a", 227 * KIB, 228 * KIB, threads_per_sm=2048, blocks_per_sm=32, cluster=16),
        Target("sm_100a", 227 * KIB, 228 * KIB, threads_per_sm=2048, blocks_per_sm=32, cluster=16),
        Target("sm_103a", 227 * KIB, 228 * KIB, threads_per_sm=2048, blocks_per_sm=32, cluster=16),
        Target("sm_120a", 99 * KIB, 100 * KIB, threads_per_sm=1536, blocks_per_sm=24, cluster=8),
    )
}
DEFAULT_TARGETS = ("sm_80", "sm_90a")
F8_TARGETS = ("sm_89", "sm_90a")  # by default, where floats of 8 bits are converted or multiplied
CLUSTER_TARGETS = ("sm_90a",)  # by default, where thread blocks share a row
F8_CONVERSIONS = 89  # the first that converts from and to floats of 8 bits; CuTeDSL has no other way to
F8_PRODUCTS = 89  # the first that multiplies them on its tensor cores
MAX_VECTOR_BITS = 128
WARP = 32
SECTOR = 32  # bytes of global memory that move together
CACHE_LINE = 128  # bytes of it that a warp asks for at once
BANKS, BANK_BYTES = 32, 4  # of shared memory


def fitting(own: int, targets: Iterable[str]) -> str | None:
    """The one of the targets whose code a generated module runs on a device, `own` being ten times its compute
    capability; None if there is none.

    That is the target of the device's own architecture, or of an earlier one of the same generation.
    """

    def fits(target: Target) -> bool:
        earlier = not target.name.endswith("a") and target.number // 10 == own // 10
        return target.number == own or (earlier and target.number < own)

    found = [target for name in targets if fits(target := TARGETS[name])]
    return max(found, key=lambda target: target.number).name if found else None
