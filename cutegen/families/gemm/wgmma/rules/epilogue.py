"""Rules about the accesses of the epilogue."""

from __future__ import annotations

from functools import partial

from cutegen.families.common.rules import accesses
from cutegen.families.gemm.wgmma.product import passing, product_of, vector_of
from cutegen.families.gemm.wgmma.schedule import Spec
from cutegen.language.kinds import Path
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, written

PAIR = 2  # neighbours along n that a thread has


def _path(spec: Spec) -> Path:
    return "schedule", "copies", spec.output.name, "bits"


def _better(spec: Spec, say: Say) -> str | None:
    """The widest access that works, in words."""
    name, bits = spec.output.name, spec.output.dtype.bits
    trials = ((written(f"write `bits: {n * bits}`"), changed(spec, {f"copies.{name}.bits": n * bits})) for n in (2, 1))
    return first_that_works(say.code, trials)


def access(spec: Spec, say: Say) -> None:
    """`bits` is the width of one access: at least an element, at most 128 bits."""
    bits = spec.schedule.copies[spec.output.name].bits
    assert bits is not None
    accesses.access(say, spec.output, bits, _path(spec), partial(_better, spec, say))


def run(spec: Spec, say: Say) -> None:
    """One access moves neighbours in memory, and a thread has pairs of them, along n."""
    output, vector = spec.output, vector_of(spec)
    found = PAIR if output.major == product_of(spec).n else 1
    if vector > found:
        say(
            f"an access has {vector} elements of {output.name}, and a thread has {found} neighbours along "
            f"{output.major}",
            *_path(spec),
            notes=(f"an accumulator of wgmma has pairs along {product_of(spec).n}",),
            help=partial(_better, spec, say),
        )


def aligned(spec: Spec, say: Say) -> None:
    """Every access is aligned to its own width, which is what a tensor's `align` promises."""
    if spec.output in passing(spec):
        return  # it is stored by tensor maps, as another rule has it
    accesses.aligned(spec, say, spec.output, vector_of(spec), _path(spec), partial(_better, spec, say))
