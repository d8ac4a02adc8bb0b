"""A GPU of each target to judge balance and grids by: figures of NVIDIA's datasheets, at the boost clock they assume.

These are the datasheets of the A100, the RTX A6000, the L40S, the H200 (and the H100, which has the same SMs), and of
HGX B200 and B300, which say what eight GPUs do, and of sparse products, twice as many; and the whitepaper of RTX
Blackwell.

Where a datasheet gives no rate for f64, it is 1/64 of that for f32, as the architecture's whitepaper says (GA102,
AD102, GB202). Tensor cores: products without sparsity; those of tf32 at half the rate of 16 bits. The SMs of B200 and
B300 are what their driver reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cutegen.dtypes import Dtype

Unit = Literal["cuda_cores", "tensor_cores"]


@dataclass(frozen=True)
class Arithmetic:
    """A kind of arithmetic, for which a GPU has a rate: the unit that does it, and the type that it computes in."""

    unit: Unit
    dtype: Dtype


CUDA_F32, CUDA_F64 = Arithmetic("cuda_cores", Dtype.f32), Arithmetic("cuda_cores", Dtype.f64)
TENSOR_16 = Arithmetic("tensor_cores", Dtype.bf16)
"""Products of bf16 or f16 with sums in f32, with dense operands."""
TENSOR_32 = Arithmetic("tensor_cores", Dtype.f32)
"""Products of tf32, which are those of f32, likewise."""
TENSOR_8 = Arithmetic("tensor_cores", Dtype.f8e4m3)
"""Products of f8e4m3 or f8e5m2, likewise; of GPUs that kernels with such products are for."""


@dataclass(frozen=True)
class Gpu:
    """`flops`: operations per second by kind of arithmetic, a multiply-add counting as two; `bandwidth` of its memory
    in bytes a second.
    """

    name: str
    sms: int
    flops: Mapping[Arithmetic, float]
    bandwidth: float

    def balance(self, arithmetic: Arithmetic) -> float:
        """Operations a byte at which that arithmetic takes as long as the memory."""
        return self.flops[arithmetic] / self.bandwidth


def _gpu(
    name: str, sms: int, f32: float, f64: float, bandwidth: float, tensor_16: float, tensor_8: float | None = None
) -> Gpu:
    flops = {CUDA_F32: f32 * 1e12, CUDA_F64: f64 * 1e12, TENSOR_16: tensor_16 * 1e12, TENSOR_32: tensor_16 / 2 * 1e12}
    if tensor_8 is not None:
        flops[TENSOR_8] = tensor_8 * 1e12
    return Gpu(name, sms, flops, bandwidth * 1e9)


GPUS: Mapping[str, Gpu] = {
    "sm_80": _gpu("A100-SXM4-80GB", 108, 19.5, 9.7, 2039, 312),
    "sm_86": _gpu("RTX A6000", 84, 38.7, 38.7 / 64, 768, 154.8),
    "sm_89": _gpu("L40S", 142, 91.6, 91.6 / 64, 864, 362, 733),
    "sm_90a": _gpu("H200 SXM", 132, 67, 34, 4800, 989.5, 1979),
    "sm_100a": _gpu("HGX B200", 148, 75, 37, 7700, 2250, 4500),
    "sm_103a": _gpu("HGX B300", 148, 75, 1.25, 8000, 2250, 4500),
    "sm_120a": _gpu("GeForce RTX 5090", 170, 104.8, 104.8 / 64, 1792, 209.5, 419),
}

_CALLED: Mapping[str, tuple[str, ...]] = {
    "sm_80": (*("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB"),),
    "sm_86": ("NVIDIA RTX A6000",),
    "sm_89": ("NVIDIA L40S",),
    "sm_90a": ("NVIDIA H200", "NVIDIA H100 80GB HBM3"),
    "sm_100a": ("NVIDIA B200",),
    "sm_103a": ("NVIDIA B300 SXM6 AC",),
    "sm_120a": ("NVIDIA GeForce RTX 5090",),
}
"""Names that drivers report for GPUs whose tensor cores are as fast as those of the target's GPU: data sheets give the
same rates for products on an H100 SXM as on an H200, and on every A100. Other GPUs of a target are slower, by their
clock or number of tensor cores."""
_RATES = {name: GPUS[target].flops for target, names in _CALLED.items() for name in names}


def tensor_rate(name: str, arithmetic: Arithmetic) -> float | None:
    """Operations a second of the tensor cores of the GPU of that name, as drivers call it, by its data sheet.

    None for other arithmetic, and for a GPU whose data sheet is not among these.
    """
    return _RATES.get(name, {}).get(arithmetic) if arithmetic.unit == "tensor_cores" else None
