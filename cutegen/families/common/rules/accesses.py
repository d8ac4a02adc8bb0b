"""Rules about one access of a thread: which there are, and how they are aligned."""

from __future__ import annotations

from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Tensor
from cutegen.lint.rule import Help, Say
from cutegen.lint.trial import first_written


def access(say: Say, tensor: Tensor, bits: int, path: Path, help: Help) -> None:
    """`bits`, which stands at `path`, is the width of one access: at least an element, at most 128 bits."""
    if bits < tensor.dtype.bits:
        message = f"an access of {bits} bits is narrower than an element of {tensor.name}"
        notes = (f"{tensor.dtype.value} has {tensor.dtype.bits} bits",)
    elif bits > MAX_VECTOR_BITS or bits & (bits - 1):
        message, notes = f"no instruction moves {bits} bits", ("accesses have 8, 16, 32, 64 or 128 bits",)
    else:
        return
    say(message, *path, notes=notes, help=help)


def aligned(spec: KernelSpec, say: Say, tensor: Tensor, vector: int, bits: Path, help: Help) -> None:
    """An access of `vector` elements, which is as wide as what stands at `bits`, is aligned to its own width: that is
    what a tensor's `align` promises, unless there are accesses of one element for the rest."""
    need = vector * tensor.dtype.bytes
    if need > (tensor.align or 1) and not spec.schedule.narrows:
        say(
            f"an access of {vector} elements of {tensor.name} needs {need} bytes of alignment, and it has "
            f"{tensor.align}",
            *first_written(spec, bits, ("tensors", tensor.name, "align")),
            notes=(f"{vector} * {tensor.dtype.bytes} bytes = {need} > {tensor.align}",),
            help=help,
        )
