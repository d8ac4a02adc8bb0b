"""Rules about A and B: what the tensor cores of warps multiply, and where."""

from __future__ import annotations

from cutegen.dtypes import Dtype
from cutegen.families.gemm_multistage.mma_sync.product import product_of
from cutegen.families.gemm_multistage.mma_sync.schedule import Spec
from cutegen.lint.rule import Say

TYPES = (Dtype.bf16, Dtype.f16, Dtype.f32)


def multiplied(spec: Spec, say: Say) -> None:
    """A and B are of 16 bits, or f32 of which tf32 is multiplied."""
    a, b, *_ = product_of(spec)
    for tensor in (a, b):
        if tensor.dtype not in TYPES:
            *most, last = (dtype.value for dtype in TYPES)
            message = f"`{tensor.name}` is {tensor.dtype.value}, and mma_sync multiplies {', '.join(most)} or {last}"
            other = "{atom: wgmma}` for `targets: [sm_90a]" if tensor.dtype.is_f8 else "{atom: fma}"
            help = f"write `dtype: {TYPES[0].value}`, or `mma: {other}`"
            say(message, "tensors", tensor.name, "dtype", help=help)
    if a.dtype is not Dtype.f32 and spec.schedule.mma.operands is not None:
        message = f"`operands: tf32` has no effect: {a.name} and {b.name} are {a.dtype.value}"
        say(message, "schedule", "mma", "operands", help="remove `operands`")
