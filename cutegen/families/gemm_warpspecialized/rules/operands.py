"""Rules about A and B: what tensor maps describe, and wgmma multiplies."""

from __future__ import annotations

from cutegen.dtypes import Dtype
from cutegen.families.gemm_warpspecialized.product import ALIGN, product_of
from cutegen.families.gemm_warpspecialized.schedule import Spec
from cutegen.lint.rule import Say

TYPES = (Dtype.bf16, Dtype.f16)
TARGET = "sm_90a"


def mapped(spec: Spec, say: Say) -> None:
    """A and B are of 16 bits, with rows at multiples of 16 bytes, and the target is Hopper."""
    for tensor, _ in product_of(spec).sides:
        if tensor.dtype not in TYPES:
            names = " or ".join(dtype.value for dtype in TYPES)
            message = f"`{tensor.name}` is {tensor.dtype.value}, and this kernel multiplies {names}"
            say(
                message,
                "tensors",
                tensor.name,
                "dtype",
                help=f"write `dtype: {TYPES[0].value}`, or `mma: {{atom: fma}}`",
            )
        elif tensor.align is not None and tensor.align % ALIGN:
            message = f"`{tensor.name}` stands at multiples of {tensor.align} bytes, and tensor maps take {ALIGN}"
            notes = ("its address and the distances of its rows are meant",)
            say(message, "tensors", tensor.name, "align", notes=notes, help=f"write `align: {ALIGN}`")
    for mode in product_of(spec)[2:]:
        if spec.static.get(mode) == 1:
            message = f"{mode} is fixed at 1, and the tensor maps of matrices have two modes"
            say(message, "static", mode, help=f"leave `{mode}` out of static: any size is taken")
    for number, target in enumerate(spec.targets):
        if target != TARGET:
            message = f"{target} has no wgmma, which is {TARGET}'s"
            say(message, "targets", number, help=f"write `targets: [{TARGET}]`")
