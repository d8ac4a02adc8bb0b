"""Where a kernel stands between a GPU's memory and its arithmetic, for given sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cutegen.analysis.asked import family_of, op_of
from cutegen.analysis.occupancy import occupancy
from cutegen.atoms.gpus import GPUS, Arithmetic
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan


@dataclass(frozen=True)
class Waves:
    """Tiles in waves of as many as a GPU works on at once."""

    tiles: int
    at_once: int
    blocks: int  # of a tile

    @property
    def count(self) -> int:
        return -(-self.tiles // self.at_once)

    @property
    def last(self) -> float:
        """The share of the last wave that has a tile."""
        return (self.tiles - (self.count - 1) * self.at_once) / self.at_once if self.tiles else 0.0

    @property
    def busy(self) -> float:
        """The share of all waves together that has a tile: of the time, where all tiles take the same."""
        return self.tiles / (self.count * self.at_once) if self.tiles else 0.0


@dataclass(frozen=True)
class Roofline:
    """The least time that a GPU needs: each tensor moved once, every operation at the peak rate."""

    target: str
    gpu: str
    sizes: Mapping[str, int]
    operations: int
    bytes: int
    memory_seconds: float
    compute_seconds: float
    blocks: int  # of the grid
    sms: int
    tiled: Waves | None = None  # of a family that tells its tiles

    @property
    def intensity(self) -> float:
        """Operations for each byte that is moved; 0 where nothing is moved."""
        return self.operations / self.bytes if self.bytes else 0.0

    @property
    def bound(self) -> str:
        return "memory" if self.memory_seconds >= self.compute_seconds else "arithmetic"

    @property
    def seconds(self) -> float:
        return max(self.memory_seconds, self.compute_seconds)

    @property
    def waves(self) -> float:
        """The number of blocks divided by the number of SMs."""
        return self.blocks / self.sms


def roofline(plan: Plan, target: str, sizes: Mapping[str, int]) -> Roofline:
    """The roofline of a kernel on the GPU that stands for `target`. Raises KeyError where `sizes` misses a mode."""
    spec, gpu = plan.spec, GPUS[target]
    work = op_of(spec).work(spec, sizes)
    return Roofline(
        target=target,
        gpu=gpu.name,
        sizes=dict(sizes),
        operations=work.operations,
        bytes=work.bytes,
        memory_seconds=work.bytes / gpu.bandwidth,
        compute_seconds=work.operations / gpu.flops[arithmetic(replace(spec, targets=(target,)))],
        blocks=blocks_of(plan, sizes),
        sms=gpu.sms,
        tiled=_waves(plan, target, sizes),
    )


def _waves(plan: Plan, target: str, sizes: Mapping[str, int]) -> Waves | None:
    """The waves of a kernel's tiles on the GPU that represents `target`; each of its multiprocessors has as many blocks
    as their threads and shared memory allow.
    """
    tiles = family_of(plan.spec).tiles(plan, sizes)
    if tiles is None:
        return None
    blocks = GPUS[target].sms * occupancy(target, plan.threads_on(target), plan.smem_on(target)).blocks
    at_once = min(blocks, tiles.most or blocks) // tiles.blocks
    return Waves(tiles.count, max(1, at_once), tiles.blocks)


def arithmetic(spec: KernelSpec) -> Arithmetic:
    """The kind of arithmetic whose rate bounds a resolved kernel."""
    return family_of(spec).arithmetic(spec)


def blocks_of(plan: Plan, sizes: Mapping[str, int]) -> int:
    """Thread blocks that the kernel is launched with for the size of every mode."""
    return family_of(plan.spec).blocks(plan, sizes)
