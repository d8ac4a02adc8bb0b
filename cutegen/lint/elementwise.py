"""Rules about elementwise kernels and probes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod

from cutegen.analysis.words import count
from cutegen.language.model import ElementwiseSchedule, KernelSpec, ProbeSchedule
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed_copy, changed_tiler, first_that_works, first_written, written
from cutegen.planning import elementwise, elementwise_plan, layouts
from cutegen.planning.probe import reach
from cutegen.planning.targets import MAX_VECTOR_BITS

BITS = ("schedule", "copy", "bits")
MAX_COUNT = 2**31 - 1


def deals_evenly(spec: KernelSpec, say: Say) -> None:
    """`inner_outer` deals the tile out, in elements or accesses: thread extents divide the tiler's, mode by mode."""
    schedule = spec.schedule
    assert isinstance(schedule, ElementwiseSchedule)
    if schedule.partition != "inner_outer" or schedule.tiler is None or schedule.thread_layout is None:
        return
    for mode, threads in zip(spec.output.shape, layouts.mode_sizes(schedule.thread_layout), strict=True):
        extent = schedule.tiler[mode]
        if extent % threads:
            step = threads * (elementwise.dealt_run(spec, schedule) if mode == spec.output.major else 1)
            near = max(1, round(extent / step)) * step
            say(
                f"{threads} threads along {mode} do not divide the tiler's {extent}",
                *("schedule", "tiler", mode),
                notes=(f"{extent} = {extent // threads} * {threads} + {extent % threads}",),
                help=f"write `{mode}: {near}` in the tiler",
            )


def _vector(spec: KernelSpec) -> int:
    return elementwise.vector_of(spec)


def _better_bits(spec: KernelSpec, code: str) -> str | None:
    return first_that_works(code, _other_bits(spec))


def _other_bits(spec: KernelSpec) -> Iterator[Candidate]:
    """The widest first: what is inferred, but for inner_outer, where that is a single element."""
    assert isinstance(spec.schedule, ElementwiseSchedule)

    def text(resolved: KernelSpec) -> str:
        assert isinstance(resolved.schedule, ElementwiseSchedule)
        return f"write `bits: {resolved.schedule.copy.bits}`"

    inferred = () if spec.schedule.partition == "inner_outer" else (None,)
    return ((text, changed_copy(spec, bits=bits)) for bits in (*inferred, 128, 64, 32, 16, 8))


def access(spec: KernelSpec, say: Say) -> None:
    """`bits` is the width of one access to the widest tensor: at least one of its elements, at most 128 bits."""
    schedule = spec.schedule
    assert isinstance(schedule, ElementwiseSchedule) and schedule.copy.bits is not None
    bits, widest = schedule.copy.bits, elementwise.widest_tensor(spec)
    if bits < widest.dtype.bits:
        say(
            f"an access of {bits} bits is narrower than an element of {widest.name}",
            *BITS,
            notes=(f"{widest.dtype.value} has {widest.dtype.bits} bits",),
            help=partial(_better_bits, spec, say.code),
        )
    elif bits > MAX_VECTOR_BITS or bits & (bits - 1):
        message = f"no instruction moves {bits} bits"
        say(message, *BITS, notes=("there are 8, 16, 32, 64 and 128",), help=partial(_better_bits, spec, say.code))


def run(spec: KernelSpec, say: Say) -> None:
    """One access moves neighbours in memory, so a thread must own that many in a row along the contiguous mode."""
    schedule, output = spec.schedule, spec.output
    assert isinstance(schedule, ElementwiseSchedule)
    if schedule.partition == "inner_outer":
        _whole_runs(spec, schedule, say)
        return
    vector, found = _vector(spec), elementwise.contiguous_run(spec, schedule)
    if found % vector == 0:
        return
    widest = elementwise.widest_tensor(spec).dtype.bits
    reason = {
        "inner": "the largest power of two that divides the tiler's extent there",
        "thread_value": "neighbours in the order of the value layout, in aligned powers of two",
    }[schedule.partition or "thread_value"]
    say(
        f"an access of {vector} elements, and a thread has {found} in a row along {output.major}",
        *BITS,
        notes=(f"{schedule.copy.bits} bits / {widest} bits = {vector} elements", f"{found}: {reason}"),
        help=partial(_better_bits, spec, say.code),
    )


def _whole_runs(spec: KernelSpec, schedule: ElementwiseSchedule, say: Say) -> None:
    """What the threads of inner_outer deal out is one access: each has a whole number of them along a row."""
    assert schedule.tiler is not None and schedule.thread_layout is not None and schedule.copy.bits is not None
    mode, vector = str(spec.output.major), _vector(spec)
    index = spec.output.shape.index(mode)
    extent, threads = schedule.tiler[mode], layouts.mode_sizes(schedule.thread_layout)[index]
    share = extent // threads
    if extent % threads or share % vector == 0:  # the first is a finding of its own
        return
    widest = elementwise.widest_tensor(spec).dtype.bits
    full = -(-extent // (threads * vector)) * threads * vector
    longer = (written(f"write `{mode}: {full}` in the tiler"), changed_tiler(spec, **{mode: full}))
    say(
        f"an access of {vector} elements, and a row of the tiler has {share} for each of {count(threads, 'thread')}",
        *BITS,
        notes=(
            f"{schedule.copy.bits} bits / {widest} bits = {vector} elements",
            f"{extent} / {threads} = {share}, and {share} = {share // vector} * {vector} + {share % vector}",
        ),
        help=partial(first_that_works, say.code, (longer, *_other_bits(spec))),
    )


def aligned(spec: KernelSpec, say: Say) -> None:
    """Every access is aligned to its own width, which is what a tensor's `align` promises."""
    vector, major = _vector(spec), spec.output.major
    for tensor in elementwise.whole_tensors(spec):
        need = vector * tensor.dtype.bytes
        if tensor.major == major and need > (tensor.align or 1):
            say(
                f"an access of {vector} elements of {tensor.name} needs {need} bytes of alignment, and it has "
                f"{tensor.align}",
                *first_written(spec, BITS, ("tensors", tensor.name, "align")),
                notes=(f"{vector} * {tensor.dtype.bytes} bytes = {need} > {tensor.align}",),
                help=partial(_better_bits, spec, say.code),
            )


def atom(spec: KernelSpec, say: Say) -> None:
    """An elementwise kernel copies through registers: its atom is `universal`."""
    assert isinstance(spec.schedule, ElementwiseSchedule)
    if spec.schedule.copy.atom != "universal":
        message = f"`{spec.schedule.copy.atom}` cannot copy to registers"
        notes = ("it copies from global to shared memory, and an elementwise kernel has none",)
        say(message, "schedule", "copy", "atom", notes=notes, help="write `atom: universal`")


def blocks(spec: KernelSpec, say: Say) -> None:
    """Fixed sizes need no more tiles than a grid and 32-bit coordinates can count."""
    tile = elementwise.block_tile(spec)
    if not all(mode in spec.static for mode in spec.output.shape):
        return
    counts = {mode: -(-spec.static[mode] // tile[mode]) for mode in spec.output.shape}
    if (total := prod(counts.values())) > MAX_COUNT:
        mode = max(counts, key=lambda m: counts[m])
        fits = MAX_COUNT // (total // counts[mode]) * tile[mode]
        say(
            f"the fixed sizes make {total} tiles, and {MAX_COUNT} are the most",
            *("static", mode),
            notes=(" * ".join(f"ceil({spec.static[m]} / {tile[m]})" for m in counts) + f" = {total}",),
            help=f"`{mode}: {fits}` is the most" if fits else None,
        )


def probe_reach(spec: KernelSpec, say: Say) -> None:
    """A probe's layout stays inside its tile."""
    schedule = spec.schedule
    assert isinstance(schedule, ProbeSchedule) and schedule.tv_layout is not None and schedule.tiler is not None
    places, farthest = prod(schedule.tiler.values()), reach(schedule.tv_layout)
    if farthest <= places:
        return
    last = max(schedule.tiler, key=lambda m: schedule.tiler[m] if schedule.tiler else 0)
    extent = -(-farthest // (places // schedule.tiler[last]))
    terms = [f"{e - 1} * {d}" for e, d in layouts.leaves(schedule.tv_layout) if e > 1]

    def help() -> str | None:
        candidate = changed_tiler(spec, **{last: extent})
        static = {m: s for m, s in candidate.static.items() if ("static", m) in spec.source.values}
        text = written(f"write `{last}: {extent}` in the tiler")
        return first_that_works(say.code, [(text, replace(candidate, static=static))])

    say(
        f"the layout reaches place {farthest - 1}, and the tile has {places}",
        *first_written(spec, ("schedule", "tiler", last), ("schedule", "tv_layout")),
        notes=(
            f"{' + '.join(terms)} = {farthest - 1}",
            f"{' * '.join(map(str, schedule.tiler.values()))} = {places}, the last is {places - 1}",
        ),
        help=help,
    )


def probe_size(spec: KernelSpec, say: Say) -> None:
    """A probe's tile has fewer than 2**31 elements: the places of a layout are 32-bit numbers."""
    schedule = spec.schedule
    assert isinstance(schedule, ProbeSchedule) and schedule.tv_layout is not None and schedule.tiler is not None
    if (places := prod(schedule.tiler.values())) > MAX_COUNT:
        mode = max(schedule.tiler, key=lambda m: schedule.tiler[m] if schedule.tiler else 0)
        notes = (f"{' * '.join(map(str, schedule.tiler.values()))} = {places} > {MAX_COUNT}",)
        fits = MAX_COUNT // (places // schedule.tiler[mode])
        message = f"the tile has {places} elements, and {MAX_COUNT} are the most"
        say(message, "schedule", "tiler", mode, notes=notes, help=f"`{mode}: {fits}` is the most" if fits else None)


def registers(spec: KernelSpec, say: Say) -> None:
    """A thread's values of all tensors, which are under way together, should fit its registers."""
    plan = elementwise_plan.plan(spec)
    point = plan.pointwise
    needed = sum(-(-point.values * o.tensor.dtype.bytes // 4) for o in point.operands)
    limit = register_limit(plan.threads)
    if needed <= limit:
        return
    notes = (
        " + ".join(f"{point.values} {o.tensor.dtype.value}" for o in point.operands) + f" take {needed} registers",
        f"a thread of {plan.threads} has {limit}",
    )
    path = {"thread_value": "value_layout"}.get(plan.partition, "tiler")
    fits = point.values * limit // needed
    help = f"{1 << max(0, fits.bit_length() - 1)} values a thread would fit"
    say(f"a thread's {point.values} values do not fit its registers", "schedule", path, notes=notes, help=help)


def register_limit(threads: int) -> int:
    """Registers of a thread: 65536 for all threads of a block, handed out 8 at a time, and at most 255."""
    return min(255, 65536 // max(32, -(-threads // 32) * 32) // 8 * 8)
