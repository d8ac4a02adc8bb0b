"""Rules about A and B: what tensor maps describe, and tcgen05 multiplies here."""

from __future__ import annotations

from cutegen.families.gemm.tcgen05.product import ALIGN, TARGET, TYPES, product_of, stands_anywhere
from cutegen.families.gemm.tcgen05.schedule import Spec
from cutegen.lint.rule import Say
from cutegen.planning.batches import batch_of


def mapped(spec: Spec, say: Say) -> None:
    """A and B are floats of 16 or 8 bits at multiples of 16 bytes, and the target has tensor memory."""
    product = product_of(spec)
    for tensor, _ in product.sides:
        if tensor.dtype not in TYPES:
            *most, last = (dtype.value for dtype in TYPES)
            message = f"`{tensor.name}` is {tensor.dtype.value}, and this kernel multiplies {', '.join(most)} or {last}"
            help = f"write `dtype: {TYPES[0].value}`, or `mma: {{atom: mma_sync}}`, or `fma` for f32"
            say(message, "tensors", tensor.name, "dtype", help=help)
        elif tensor.align is not None and tensor.align % ALIGN and not stands_anywhere(spec, tensor):
            message = f"`{tensor.name}` is aligned to {tensor.align} bytes, and tensor maps need {ALIGN}"
            help = f"write `align: {ALIGN}`, or `misaligned: workspace` in its copy"
            notes = ("this means its address and its row strides",)
            say(message, "tensors", tensor.name, "align", notes=notes, help=help)
    first, *others = product.b
    for other in others:
        for field in ("dtype", "major"):
            own, wanted = getattr(other, field), getattr(first, field)
            if own != wanted:
                shown = getattr(wanted, "value", wanted)
                message = f"`{first.name}` and `{other.name}` are multiplied by one instruction: both have one {field}"
                say(
                    message,
                    "tensors",
                    other.name,
                    field,
                    help=f"write `{field}: {shown}`, or a kernel for each product",
                )
    batch = batch_of(spec.output)
    for tensor in [*(tensor for tensor, _ in product.sides), *spec.outputs] if batch is not None else ():
        if tensor.major == batch:
            message = f"`{tensor.name}` is contiguous along {batch}, the batch, and blocks move matrices"
            help = f"write `major: {tensor.shape[-1]}`, or leave it out, and pass a tensor with this layout"
            say(message, "tensors", tensor.name, "major", help=help)
    for mode in product.modes:
        if spec.static.get(mode) == 1:
            message = f"{mode} is fixed at 1, and the tensor maps of matrices have two modes"
            say(message, "static", mode, help=f"leave `{mode}` out of static: any size is taken")
    for number, target in enumerate(spec.targets):
        if target != TARGET:
            message = f"{target} has no kernels with tcgen05 here; {TARGET} has"
            say(message, "targets", number, help=f"write `targets: [{TARGET}]`")
