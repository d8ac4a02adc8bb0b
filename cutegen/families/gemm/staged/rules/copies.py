"""Rules about how tensors move: the atom, the width and the alignment of an access."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cutegen.atoms.copies import ATOMS
from cutegen.families.common.rules import accesses
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.words import vector_of
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Tensor
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, first_written, nearest_first, written

CP_ASYNC_BITS = ATOMS["cp_async"].bits
Spec = KernelSpec[Any]
Better = Callable[[Any, Tensor, str], str | None]  # of a spec, a tensor and a rule's code: a width that works, in words


def operands(spec: Spec) -> Iterator[tuple[Tensor, str, Any]]:
    """A and B, each with its own mode and its copy."""
    a, b, m, n, _ = product_of(spec)
    for tensor, mode in ((a, m), (b, n)):
        yield tensor, mode, spec.schedule.copies[tensor.name]


def moved(spec: Spec) -> tuple[Tensor, ...]:
    """A, B and the output."""
    return (*product_of(spec).operands, spec.lead)


def copy_path(tensor: str, *field: str) -> Path:
    """Where a spec says how a tensor is copied, or one field of that."""
    return ("schedule", "copies", tensor, *field)


def with_copy(spec: KernelSpec[Any], tensor: Tensor, **fields: object) -> KernelSpec[Any]:
    """The spec as it was written, with other fields of a tensor's copy; None leaves them to planning."""
    return changed(spec, {f"copies.{tensor.name}.{name}": value for name, value in fields.items()})


def with_bits(spec: Spec, tensor: Tensor, widths: tuple[int, ...], given: int) -> list[Candidate]:
    """Changed kernels with other widths of a tensor's accesses, the nearest to the given one first."""
    return [
        (written(f"write `bits: {bits}`"), with_copy(spec, tensor, bits=bits)) for bits in nearest_first(widths, given)
    ]


def access(spec: Spec, say: Say, better: Better) -> None:
    """`bits` is the width of one access: at least an element, at most 128 bits."""
    for tensor in moved(spec):
        bits = spec.schedule.copies[tensor.name].bits
        accesses.access(say, tensor, bits, copy_path(tensor.name, "bits"), partial(better, spec, tensor, say.code))


def aligned(spec: Spec, say: Say, better: Better) -> None:
    """Every access is aligned to its own width, which is what a tensor's `align` promises."""
    for tensor in moved(spec):
        vector, path = vector_of(spec.schedule.copies[tensor.name], tensor), copy_path(tensor.name, "bits")
        accesses.aligned(spec, say, tensor, vector, path, partial(better, spec, tensor, say.code))


def cp_async_bytes(spec: Spec, say: Say) -> None:
    """cp.async moves 4, 8 or 16 bytes."""
    for tensor, _, copy in operands(spec):
        if copy.atom == "cp_async" and copy.bits not in CP_ASYNC_BITS:
            universal = (written("write `atom: universal`"), with_copy(spec, tensor, atom="universal"))
            say(
                f"cp.async cannot move {copy.bits // 8} byte{'s' * (copy.bits != 8)}",
                *first_written(spec, copy_path(tensor.name, "bits"), copy_path(tensor.name, "atom")),
                notes=(f"{copy.bits} bits / 8 = {copy.bits // 8}; it moves 4, 8 or 16 bytes",),
                help=partial(
                    first_that_works, say.code, [*with_bits(spec, tensor, CP_ASYNC_BITS, copy.bits), universal]
                ),
            )


def atom(spec: Spec, say: Say) -> None:
    """The output is stored from registers: its atom is `universal`."""
    copy = spec.schedule.copies[spec.lead.name]
    if copy.atom != "universal":
        notes = ("it copies from global to shared memory, and the output goes the other way",)
        message = f"`{copy.atom}` cannot store {spec.lead.name}"
        say(message, *copy_path(spec.lead.name, "atom"), notes=notes, help="write `atom: universal`")


def unused(spec: Spec, say: Say) -> None:
    """`copies` holds the operands and the output, and layouts only for the operands."""
    output, known = spec.lead.name, [tensor.name for tensor in moved(spec)]
    for name, copy in spec.schedule.copies.items():
        if name not in known:
            message = f"`{name}` moves as the output `{output}` does: its copy would have no effect"
            say(message, *copy_path(name), help=f"remove `{name}` from copies")
        elif name == output:
            for field in ("thread_layout", "value_layout"):
                if getattr(copy, field, None) is not None:
                    message = f"`{field}` has no effect on `{name}`: the mma distributes it"
                    say(message, *copy_path(name, field), help=f"remove `{field}`")
