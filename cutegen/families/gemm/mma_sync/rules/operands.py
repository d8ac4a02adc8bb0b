"""Rules about A and B: what the tensor cores of warps multiply, and where."""

from __future__ import annotations

from cutegen.atoms.targets import F8_PRODUCTS, F8_TARGETS, TARGETS
from cutegen.dtypes import Dtype
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.product import product_of
from cutegen.lint.rule import Say

TYPES = (Dtype.bf16, Dtype.f16, Dtype.f32, Dtype.f8e4m3, Dtype.f8e5m2)


def multiplied(spec: Spec, say: Say) -> None:
    """A and B have 16 bits, are f32 multiplied as tf32, or have 8 bits if all targets multiply these."""
    a, b, *_ = product_of(spec)
    for tensor in (a, b):
        if tensor.dtype not in TYPES:
            *most, last = (dtype.value for dtype in TYPES)
            message = f"`{tensor.name}` is {tensor.dtype.value}, and mma_sync multiplies {', '.join(most)} or {last}"
            help = f"write `dtype: {TYPES[0].value}`, or `mma: {{atom: fma}}`"
            say(message, "tensors", tensor.name, "dtype", help=help)
    if a.dtype is not Dtype.f32 and spec.schedule.mma.operands is not None:
        message = f"`operands: tf32` has no effect: {a.name} and {b.name} are {a.dtype.value}"
        say(message, "schedule", "mma", "operands", help="remove `operands`")
    if a.dtype.is_f8:
        _of_8_bits(spec, say)


def _of_8_bits(spec: Spec, say: Say) -> None:
    """Floats of 8 bits are multiplied with their own kind, from Ada on."""
    a, b, *_, k = product_of(spec)
    if b.dtype is not a.dtype:
        types = f"`{a.name}` is {a.dtype.value} and `{b.name}` {b.dtype.value}"
        message = f"{types}, and mma_sync multiplies like with like"
        notes = ("PTX has products of both, and CuTeDSL no atom for them: its `MmaFP8Op` has one type",)
        other = ", or `mma: {atom: wgmma}` for `targets: [sm_90a]`" if a.major == b.major == k else ""
        help = f"write `dtype: {a.dtype.value}`{other}"
        say(message, "tensors", b.name, "dtype", notes=notes, help=help)
    old = [name for name in spec.targets if name in TARGETS and TARGETS[name].number < F8_PRODUCTS]
    if old:
        message = f"{old[0]} has no product of {a.dtype.value}, which came with sm_{F8_PRODUCTS}"
        names = " and ".join(f"`{name}`" for name in old)
        help = f"leave {names} out" if len(old) < len(spec.targets) else f"write `targets: [{', '.join(F8_TARGETS)}]`"
        say(message, "targets", spec.targets.index(old[0]), help=help)
