"""What each GPU target offers. Figures: CUDA C++ Programming Guide, table of compute capabilities."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One compilation target. Shared memory in bytes a block, the opt-in maximum."""

    name: str
    smem_per_block: int
    atoms: frozenset[str] = frozenset({"universal", "cp_async", "fma"})
    grid_y: int = 65535


TARGETS = {
    target.name: target
    for target in (
        Target("sm_80", 163 * 1024),
        Target("sm_86", 99 * 1024),
        Target("sm_89", 99 * 1024),
        Target("sm_90a", 227 * 1024),
        Target("sm_100a", 227 * 1024),
        Target("sm_103a", 227 * 1024),
        Target("sm_120a", 99 * 1024),
    )
}
DEFAULT_TARGETS = ("sm_80", "sm_90a")
MAX_VECTOR_BITS = 128
WARP = 32
