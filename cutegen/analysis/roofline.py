"""Where a kernel stands between a GPU's memory and its arithmetic, for given sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.atoms.gpus import GPUS, Arithmetic
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan


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
    work = spec.operation.work(spec, sizes)
    return Roofline(
        target=target,
        gpu=gpu.name,
        sizes=dict(sizes),
        operations=work.operations,
        bytes=work.bytes,
        memory_seconds=work.bytes / gpu.bandwidth,
        compute_seconds=work.operations / gpu.flops[arithmetic(spec)],
        blocks=blocks_of(plan, sizes),
        sms=gpu.sms,
    )


def arithmetic(spec: KernelSpec) -> Arithmetic:
    """The kind of arithmetic whose rate bounds a resolved kernel."""
    return spec.family.arithmetic(spec)


def blocks_of(plan: Plan, sizes: Mapping[str, int]) -> int:
    """Thread blocks that the kernel is launched with for the size of every mode."""
    return plan.spec.family.blocks(plan, sizes)
