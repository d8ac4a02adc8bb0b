"""Rules about one access of a thread to global memory: its width, its alignment and its atom."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutegen import layouts
from cutegen.analysis.words import count
from cutegen.families.common.rules import accesses
from cutegen.families.common.rules.candidates import in_tiler
from cutegen.families.elementwise.schedule import ElementwiseSchedule, Spec
from cutegen.families.elementwise.tiles import contiguous_run, vector_of, whole_tensors, widest_bits, widest_tensor
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, nearest_first

BITS = ("schedule", "copy", "bits")


def _better_bits(spec: Spec, code: str) -> str | None:
    return first_that_works(code, _other_bits(spec))


def _other_bits(spec: Spec) -> Iterator[Candidate]:
    """Changed kernels with another width of accesses, the nearest first."""

    def text(resolved: Spec) -> str:
        return f"write `bits: {resolved.schedule.copy.bits}`"

    given = spec.schedule.copy.bits
    assert given is not None
    return ((text, changed(spec, {"copy.bits": bits})) for bits in nearest_first((128, 64, 32, 16, 8), given))


def access(spec: Spec, say: Say) -> None:
    """`bits` is the width of one access to the widest tensor: at least one of its elements, at most 128 bits."""
    bits = spec.schedule.copy.bits
    assert bits is not None
    accesses.access(say, widest_tensor(spec), bits, BITS, partial(_better_bits, spec, say.code))


def run(spec: Spec, say: Say) -> None:
    """One access moves neighbours in memory, so a thread must own that many in a row along the contiguous mode."""
    schedule, output = spec.schedule, spec.lead
    if schedule.partition == "inner_outer":
        _whole_runs(spec, schedule, say)
        return
    vector, found = vector_of(spec), contiguous_run(spec, schedule)
    if found % vector == 0:
        return
    reason = {
        "inner": "the largest power of two that divides the tiler's extent there",
        "thread_value": "neighbours in the order of the value layout, in aligned powers of two",
    }[schedule.partition or "thread_value"]
    say(
        f"an access has {vector} elements, and a thread has {found} neighbours along {output.major}",
        *BITS,
        notes=(f"{schedule.copy.bits} bits / {widest_bits(spec)} bits = {vector} elements", f"{found}: {reason}"),
        help=partial(_better_bits, spec, say.code),
    )


def _whole_runs(spec: Spec, schedule: ElementwiseSchedule, say: Say) -> None:
    """Each thread has a whole number of accesses along a row, which are what the threads of inner_outer deal out."""
    assert schedule.tiler is not None and schedule.thread_layout is not None and schedule.copy.bits is not None
    mode, vector = str(spec.lead.major), vector_of(spec)
    index = spec.lead.shape.index(mode)
    extent, threads = schedule.tiler[mode], layouts.mode_sizes(schedule.thread_layout)[index]
    share = extent // threads
    if extent % threads or share % vector == 0:  # the first is a finding of its own
        return
    full = -(-extent // (threads * vector)) * threads * vector
    say(
        f"an access of {vector} elements, and a row of the tiler has {share} for each of {count(threads, 'thread')}",
        *BITS,
        notes=(
            f"{schedule.copy.bits} bits / {widest_bits(spec)} bits = {vector} elements",
            f"{extent} / {threads} = {share}, and {share} = {share // vector} * {vector} + {share % vector}",
        ),
        help=partial(first_that_works, say.code, (in_tiler(spec, mode, full), *_other_bits(spec))),
    )


def aligned(spec: Spec, say: Say) -> None:
    """Every access is aligned to its own width, which is what a tensor's `align` promises."""
    vector = vector_of(spec)
    for tensor in whole_tensors(spec):
        if tensor.major == spec.lead.major:
            accesses.aligned(spec, say, tensor, vector, BITS, partial(_better_bits, spec, say.code))


def atom(spec: Spec, say: Say) -> None:
    """An elementwise kernel copies through registers: its atom is `universal`."""
    if spec.schedule.copy.atom != "universal":
        message = f"`{spec.schedule.copy.atom}` cannot copy to registers"
        notes = ("it copies from global to shared memory, and an elementwise kernel has none",)
        say(message, "schedule", "copy", "atom", notes=notes, help="write `atom: universal`")
