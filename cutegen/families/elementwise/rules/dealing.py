"""Rules about how a tile is dealt out: the ranks of layouts, threads of a block, values of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.atoms.targets import WARP
from cutegen.families.common.rules import dealing
from cutegen.families.common.rules.candidates import show_extents
from cutegen.families.common.rules.dealing import Dealt, whole_warps
from cutegen.families.common.rules.limits import fewer, most_computed, shrunk
from cutegen.families.elementwise.schedule import Spec
from cutegen.families.elementwise.tiles import dealt_run, threads_of, values_of
from cutegen.language.kinds import Path
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, say_layout, written
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES

FULL = 4  # of what a thread may have, one part in so many is for each of a few tensors that fit its registers


def layouts_of(spec: Spec) -> Iterator[Dealt]:
    """Every layout that deals a tile of the output out."""
    schedule, modes = spec.schedule, spec.lead.shape
    of = f"{spec.output.name} [{', '.join(modes)}]"
    if schedule.thread_layout is not None:
        yield Dealt(("schedule", "thread_layout"), schedule.thread_layout, len(modes), MAX_THREADS, of)
    if schedule.value_layout is not None:
        yield Dealt(("schedule", "value_layout"), schedule.value_layout, len(modes), MAX_VALUES, of)


def numbered_layouts(spec: Spec) -> Iterator[tuple[Path, Layout, int]]:
    """Every layout that must number its places: where, the layout, the most places that are counted through."""
    return ((one.path, one.layout, one.most) for one in layouts_of(spec))


def rank(spec: Spec, say: Say) -> None:
    """A thread or value layout has one mode for every mode of the output."""

    def with_rank(one: Dealt) -> Layout:
        return _with_rank(spec, int(size(one.layout)), one.name == "thread_layout")

    dealing.rank(layouts_of(spec), say, with_rank)


def _with_rank(spec: Spec, places: int, of_threads: bool) -> Layout:
    """A layout of so many places over the output's modes: whole warps of threads along the contiguous one, or all of
    them.
    """
    modes = spec.lead.shape
    major = modes.index(str(spec.lead.major))
    shape = [1] * len(modes)
    shape[major] = places
    if of_threads and places % WARP == 0 and len(modes) > 1:
        shape[major], shape[major - 1] = WARP, places // WARP
    return layouts.row_major(shape, major)


def threads(spec: Spec, say: Say) -> None:
    """A thread block has at most 1024 threads."""
    schedule, limit = spec.schedule, MAX_THREADS
    if schedule.partition != "inner":
        dealing.threads(layouts_of(spec), say, lambda one: fewer(one.layout, one.most))
    elif (schedule.threads or 0) > limit:
        message = f"a block of {schedule.threads} threads; the limit is {limit}"
        notes = (f"{schedule.threads} > {limit}",)
        say(message, "schedule", "threads", notes=notes, help=f"write `threads: {limit}`")


def values(spec: Spec, say: Say) -> None:
    """A thread has at most 256 values, or 128 of 8 bytes."""
    schedule = spec.schedule
    count, limit = values_of(schedule), most_computed(spec.tensors)
    if count <= limit:
        return
    message = f"a thread has {count} values; the limit is {limit}"
    if schedule.partition == "thread_value":
        assert schedule.value_layout is not None
        sizes = layouts.mode_sizes(schedule.value_layout)
        notes = (f"{' * '.join(map(str, sizes))} = {count} > {limit}",)
        better = layouts.row_major(shrunk(sizes, limit // FULL), len(sizes) - 1)
        say(message, "schedule", "value_layout", notes=notes, help=say_layout("value_layout", better))
        return
    assert schedule.tiler is not None
    modes = [m for m in spec.lead.shape if m in schedule.tiler]
    extents = [schedule.tiler[m] for m in modes]
    sizes, run = (1,) * len(extents), dealt_run(spec, schedule)
    if schedule.partition == "inner_outer" and schedule.thread_layout is not None:
        sizes = layouts.mode_sizes(schedule.thread_layout)
    of = f" / {prod(sizes)} threads" if prod(sizes) > 1 else ""
    notes = (f"{' * '.join(map(str, extents))}{of} = {count} > {limit}",)
    steps = [t * run if m == spec.lead.major else t for m, t in zip(modes, sizes, strict=False)]
    shares = shrunk([-(-e // t) for e, t in zip(extents, steps, strict=False)], max(1, limit // FULL // run))
    better_tiler = {m: t * s for m, t, s in zip(modes, steps, shares, strict=False)}
    say(message, "schedule", "tiler", notes=notes, help=f"write `tiler: {{{show_extents(better_tiler)}}}`")


def deals_evenly(spec: Spec, say: Say) -> None:
    """`inner_outer` deals the tile out, in elements or accesses: thread extents divide the tiler's, mode by mode."""
    schedule = spec.schedule
    if schedule.partition != "inner_outer" or schedule.tiler is None or schedule.thread_layout is None:
        return
    for mode, count in zip(spec.lead.shape, layouts.mode_sizes(schedule.thread_layout), strict=True):
        extent = schedule.tiler[mode]
        if extent % count:
            step = count * (dealt_run(spec, schedule) if mode == spec.lead.major else 1)
            near = max(1, round(extent / step)) * step
            say(
                f"{count} threads along {mode} do not divide the tiler's {extent}",
                *("schedule", "tiler", mode),
                notes=(f"{extent} = {extent // count} * {count} + {extent % count}",),
                help=f"write `{mode}: {near}` in the tiler",
            )


def warps(spec: Spec, say: Say) -> None:
    """Threads run in warps of 32, and should fill the last one."""
    name = "threads" if spec.schedule.partition == "inner" else "thread_layout"

    count = threads_of(spec.schedule)

    def help() -> str | None:
        if name == "threads":
            return f"write `threads: {whole_warps(count)}`"
        layout = _with_rank(spec, whole_warps(count), True)
        candidate = written(say_layout("thread_layout", layout)), changed(spec, {"thread_layout": layout})
        return first_that_works(say.code, [candidate])

    dealing.warps(count, say, ("schedule", name), help)
