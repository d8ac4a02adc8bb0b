"""Rules about the accesses of the epilogue."""

from __future__ import annotations

from functools import partial

from cutegen.families.common.rules import accesses
from cutegen.families.gemm.tcgen05.product import product_of, slice_of, vector_of
from cutegen.families.gemm.tcgen05.schedule import Spec
from cutegen.language.kinds import Path
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, written

WIDTHS = (8, 4, 2, 1)  # elements


def _path(spec: Spec) -> Path:
    return "schedule", "copies", spec.output.name, "bits"


def _better(spec: Spec, say: Say) -> str | None:
    """The widest access that works, in words."""
    name, bits = spec.output.name, spec.output.dtype.bits
    trials = ((written(f"write `bits: {n * bits}`"), changed(spec, {f"copies.{name}.bits": n * bits})) for n in WIDTHS)
    return first_that_works(say.code, trials)


def access(spec: Spec, say: Say) -> None:
    """`bits` is the width of one access: at least an element, at most 128 bits."""
    bits = spec.schedule.copies[spec.output.name].bits
    assert bits is not None
    accesses.access(say, spec.output, bits, _path(spec), partial(_better, spec, say))


def run(spec: Spec, say: Say) -> None:
    """One access moves neighbours in memory, and a thread has them along n."""
    output, vector, n = spec.output, vector_of(spec), product_of(spec).n
    found = slice_of(spec) if output.major == n else 1
    if vector > found:
        say(
            f"an access has {vector} elements of {output.name}, and a thread has {found} neighbours along "
            f"{output.major}",
            *_path(spec),
            notes=(f"a lane of tensor memory has a row of the tile, along {n}",),
            help=partial(_better, spec, say),
        )


def aligned(spec: Spec, say: Say) -> None:
    """Every access is aligned to its own width, which is what a tensor's `align` promises."""
    accesses.aligned(spec, say, spec.output, vector_of(spec), _path(spec), partial(_better, spec, say))
