"""What each GPU target offers. Figures: CUDA C++ Programming Guide, table of compute capabilities."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One compilation target. Shared memory in bytes a block, the opt-in maximum."""

    name: str
    capability: tuple[int, int]
    smem_per_block: int
    atoms: frozenset[str] = frozenset({"universal", "cp_async", "fma"})
    threads_per_block: int = 1024
    grid_y: int = 65535


TARGETS = {
    target.name: target
    for target in (
        Target("sm_80", (8, 0), 163 * 1024),
        Target("sm_86", (8, 6), 99 * 1024),
        Target("sm_89", (8, 9), 99 * 1024),
        Target("sm_90a", (9, 0), 227 * 1024),
        Target("sm_100a", (10, 0), 227 * 1024),
        Target("sm_103a", (10, 3), 227 * 1024),
        Target("sm_120a", (12, 0), 99 * 1024),
    )
}
DEFAULT_TARGETS = ("sm_80", "sm_90a")
MAX_VECTOR_BITS = 128
WARP = 32
