"""Rules about one access of a thread to global memory: its width, its alignment and its atom."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutegen.families.common.rules import accesses
from cutegen.families.rowwise.rows import vector_of, whole_tensors, widest_tensor
from cutegen.families.rowwise.schedule import Spec
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, nearest_first

BITS = ("schedule", "copy", "bits")


def better_bits(spec: Spec, code: str) -> str | None:
    """The words that suggest another width of accesses, the nearest one that breaks no rule."""
    return first_that_works(code, _other_bits(spec))


def _other_bits(spec: Spec) -> Iterator[Candidate]:
    def text(resolved: Spec) -> str:
        return f"write `bits: {resolved.schedule.copy.bits}`"

    given = spec.schedule.copy.bits
    assert given is not None
    return ((text, changed(spec, {"copy.bits": bits})) for bits in nearest_first((128, 64, 32, 16, 8), given))


def access(spec: Spec, say: Say) -> None:
    """`bits` is the width of one access to the widest tensor: at least one of its elements, at most 128 bits."""
    bits = spec.schedule.copy.bits
    assert bits is not None
    accesses.access(say, widest_tensor(spec), bits, BITS, partial(better_bits, spec, say.code))


def aligned(spec: Spec, say: Say) -> None:
    """Every access is aligned to its own width, which is what a tensor's `align` promises."""
    for tensor in whole_tensors(spec):
        accesses.aligned(spec, say, tensor, vector_of(spec), BITS, partial(better_bits, spec, say.code))


def atom(spec: Spec, say: Say) -> None:
    """A row kernel copies through registers: its atom is `universal`."""
    if spec.schedule.copy.atom != "universal":
        message = f"`{spec.schedule.copy.atom}` cannot copy to registers"
        notes = ("it copies from global to shared memory, and rows are kept in registers or reloaded",)
        say(message, "schedule", "copy", "atom", notes=notes, help="write `atom: universal`")
