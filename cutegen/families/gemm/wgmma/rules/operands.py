"""Rules about A and B: what tensor maps describe, and wgmma multiplies."""

from __future__ import annotations

from cutegen.dtypes import Dtype
from cutegen.families.gemm.wgmma.product import ALIGN, TARGET, box_unit, is_sound, product_of, stands_anywhere
from cutegen.families.gemm.wgmma.schedule import Spec
from cutegen.lint.rule import Say

TYPES = (Dtype.bf16, Dtype.f16, Dtype.f8e4m3, Dtype.f8e5m2)


def _stacked(spec: Spec, say: Say) -> None:
    """Says how operands differ that are side by side in shared memory, and so multiplied as one."""
    first, *others = product_of(spec).stacked
    copies, smem = spec.schedule.copies, spec.schedule.smem
    for other in others:
        message = f"`{first.name}` and `{other.name}` are multiplied as one operand: both must"
        if other.major != first.major:
            help = f"write `major: {first.major}`"
            say(f"{message} have the same major mode", "tensors", other.name, "major", help=help)
        for field, words, word in (
            ("smem", smem, "swizzle"),
            ("copies", copies, "multicast"),
            ("copies", copies, "box"),
        ):
            own, wanted = (getattr(words.get(tensor.name), word, None) for tensor in (other, first))
            if own is not None and wanted is not None and own != wanted:
                where = ("schedule", field, other.name, word)
                say(f"{message} have the same {word}", *where, help=f"write `{word}: {wanted}`, or leave it out")


def _boxed(spec: Spec, say: Say) -> None:
    """Says what is wrong with the boxes that an operand is loaded in."""
    for tensor, mode in product_of(spec).sides:
        copy = spec.schedule.copies.get(tensor.name)
        block = (spec.schedule.tiler or {}).get(mode)
        if copy is None or copy.box is None or block is None or not is_sound(spec):
            continue  # CG302 says what is wrong with the tile
        where, unit = ("schedule", "copies", tensor.name, "box"), box_unit(spec, tensor)
        if copy.multicast == "cluster":
            message = f"`{tensor.name}` is loaded once for several blocks, which takes whole tiles"
            say(message, *where, help="leave `box` out, or write `multicast: none`")
        elif spec.schedule.predication.get(mode) == "none":
            message = f"no tile ends beyond `{tensor.name}`, since predication of {mode} is none: it has no boxes"
            say(message, *where, help=f"leave `box` out, or write `predication: {{{mode}: mask}}`")
        elif block % copy.box or copy.box % unit:
            fitting = [str(box) for box in range(unit, block + 1, unit) if block % box == 0]
            message = f"a box of {copy.box} does not divide a tile of {block} in multiples of {unit}"
            help = f"write one of {', '.join(fitting)}, or leave it out" if fitting else "leave it out"
            say(message, *where, help=help)


def mapped(spec: Spec, say: Say) -> None:
    """A and B are of 16 bits, or of 8 and k-major, with rows at multiples of 16 bytes, and the target is Hopper."""
    k, batch = product_of(spec).k, product_of(spec).batch
    for tensor, _ in product_of(spec).sides:
        if tensor.dtype not in TYPES:
            *most, last = (dtype.value for dtype in TYPES)
            names = f"{', '.join(most)} or {last}"
            message = f"`{tensor.name}` is {tensor.dtype.value}, and this kernel multiplies {names}"
            say(
                message,
                "tensors",
                tensor.name,
                "dtype",
                help=f"write `dtype: {TYPES[0].value}`, or `mma: {{atom: mma_sync}}` or `fma` for f32",
            )
        elif tensor.align is not None and tensor.align % ALIGN and not stands_anywhere(spec, tensor):
            message = f"`{tensor.name}` is aligned to {tensor.align} bytes, and tensor maps need {ALIGN}"
            notes = ("this means its address and its row strides",)
            help = f"write `align: {ALIGN}`, or `misaligned: workspace` in its copy"
            say(message, "tensors", tensor.name, "align", notes=notes, help=help)
        if batch is not None and tensor.major == batch:
            message = f"`{tensor.name}` is contiguous along {batch}, the batch, and tensor maps load matrices"
            help = f"write `major: {k}`, or leave it out, and pass a tensor with this layout"
            say(message, "tensors", tensor.name, "major", help=help)
        elif tensor.dtype.is_f8 and tensor.major not in (None, k):
            kind = tensor.dtype.value
            message = f"`{tensor.name}` is contiguous along {tensor.major}, and wgmma of {kind} needs {k}"
            notes = ("it transposes elements of 16 bits only (PTX ISA 9.1, section 9.7.15.5.2)",)
            help = f"write `major: {k}`, and pass such a tensor; or `dtype: bf16`, or `mma: {{atom: mma_sync}}`"
            say(message, "tensors", tensor.name, "major", notes=notes, help=help)
    for mode in product_of(spec).modes:
        if spec.static.get(mode) == 1:
            message = f"{mode} is fixed at 1, and the tensor maps of matrices have two modes"
            say(message, "static", mode, help=f"leave `{mode}` out of static: any size is taken")
    _stacked(spec, say)
    _boxed(spec, say)
    for number, target in enumerate(spec.targets):
        if target != TARGET:
            message = f"{target} has no wgmma; {TARGET} has"
            say(message, "targets", number, help=f"write `targets: [{TARGET}]`")
