"""Where a kernel stands between a GPU's memory and its arithmetic, for given sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from cutegen.analysis.gpus import GPUS
from cutegen.language.dtypes import Dtype
from cutegen.language.expressions import Binary, Call, walk
from cutegen.language.model import GemmSchedule, KernelSpec
from cutegen.planning.plan import ElementwisePlan, Plan


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
        """Operations a byte."""
        return self.operations / self.bytes if self.bytes else 0.0

    @property
    def bound(self) -> str:
        return "memory" if self.memory_seconds >= self.compute_seconds else "arithmetic"

    @property
    def seconds(self) -> float:
        return max(self.memory_seconds, self.compute_seconds)

    @property
    def waves(self) -> float:
        """Blocks for each SM."""
        return self.blocks / self.sms


def roofline(plan: Plan, target: str, sizes: Mapping[str, int]) -> Roofline:
    """Of a kernel on the GPU that stands for `target`, for the size of every mode. Raises KeyError for one left out.

    A function of the expression counts as one operation, a multiply-add of a matrix product as two.
    """
    spec, gpu = plan.spec, GPUS[target]
    elements = prod(sizes[mode] for mode in spec.output.shape)
    operations = elements * sum(isinstance(node, (Binary, Call)) for node in walk(spec.compute.value))
    product = spec.compute.matmul
    if product is not None:
        operations += 2 * elements * sizes[spec.tensor(product.a).shape[1]]
    moved = sum(prod(sizes[mode] for mode in t.shape) * t.dtype.bytes * (t.reads + t.writes) for t in spec.tensors)
    return Roofline(
        target=target,
        gpu=gpu.name,
        sizes=dict(sizes),
        operations=operations,
        bytes=moved,
        memory_seconds=moved / gpu.bandwidth,
        compute_seconds=operations / gpu.flops[arithmetic(spec)],
        blocks=blocks_of(plan, sizes),
        sms=gpu.sms,
    )


def arithmetic(spec: KernelSpec) -> Dtype:
    """The type whose rate bounds the kernel: f64 where it computes in that, else f32."""
    if isinstance(spec.schedule, GemmSchedule):
        return Dtype.f64 if spec.schedule.mma.accumulator is Dtype.f64 else Dtype.f32
    return Dtype.f64 if any(t.dtype is Dtype.f64 for t in spec.tensors) else Dtype.f32


def blocks_of(plan: Plan, sizes: Mapping[str, int]) -> int:
    """Blocks of the grid that the kernel is launched with."""
    tiles = prod(-(-sizes[mode] // plan.tile[mode]) for mode in plan.spec.output.shape if mode in plan.tile)
    if isinstance(plan, ElementwisePlan) and plan.partition == "inner":
        return -(-tiles // plan.threads)
    return tiles
