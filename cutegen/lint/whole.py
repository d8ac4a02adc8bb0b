"""Rules about the schedule as a whole: ranks, threads, values; and what is taken for granted of its layouts."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tensor_layouts import Layout, size

from cutegen.language.layouts import compact_like, format_layout
from cutegen.language.model import ElementwiseSchedule, GemmSchedule, KernelSpec, Path, ProbeSchedule
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, changed_mma, changed_tiler, first_that_works, say_layout, shrunk, written
from cutegen.planning import elementwise, gemm, layouts, sound
from cutegen.planning.targets import WARP

LIMITS = (sound.MAX_THREADS, sound.MAX_VALUES)
FULL = 128  # accumulators of a thread that still fit its registers with room to work
FULL_ELEMENTWISE = 64  # values of each of a few tensors


def layouts_of(spec: KernelSpec) -> Iterator[tuple[Path, Layout, int, int]]:
    """Every layout that deals something out: where, the layout, the rank it must have, the most it may number."""
    match spec.schedule:
        case ElementwiseSchedule() as schedule:
            rank = len(spec.output.shape)
            if schedule.thread_layout is not None:
                yield ("schedule", "thread_layout"), schedule.thread_layout, rank, sound.MAX_THREADS
            if schedule.value_layout is not None:
                yield ("schedule", "value_layout"), schedule.value_layout, rank, sound.MAX_VALUES
        case GemmSchedule() as schedule:
            if schedule.mma.thread_layout is not None:
                yield ("schedule", "mma", "thread_layout"), schedule.mma.thread_layout, 3, sound.MAX_THREADS
            for name, space in schedule.workspace.items():
                if space.thread_layout is not None:
                    yield ("schedule", "workspace", name, "thread_layout"), space.thread_layout, 2, sound.MAX_THREADS
            for name, copy in schedule.copies.items():
                where = ("schedule", "copies", name)
                if copy.thread_layout is not None:
                    yield (*where, "thread_layout"), copy.thread_layout, 2, sound.MAX_THREADS
                if copy.value_layout is not None:
                    yield (*where, "value_layout"), copy.value_layout, 2, sound.MAX_VALUES


def rank(spec: KernelSpec, say: Say) -> None:
    """A thread or value layout has one mode for every mode of what it deals out."""
    for path, layout, wanted, _ in layouts_of(spec):
        found = len(layouts.modes_of(layout))
        if found == wanted:
            continue
        of = _tile_of(spec, path)
        say(
            f"`{path[-1]}` has {found} mode{'s' * (found > 1)}, and {of} has {wanted}",
            *path,
            notes=(f"{format_layout(layout)} has the sizes {layouts.show(layouts.mode_sizes(layout))}",),
            help=say_layout(str(path[-1]), _with_rank(spec, path, layout, wanted)),
        )


def _tile_of(spec: KernelSpec, path: Path) -> str:
    if isinstance(spec.schedule, ElementwiseSchedule):
        return f"{spec.output.name} [{', '.join(spec.output.shape)}]"
    a, _, m, n, k = gemm.names(spec)
    if path[1] == "mma":
        return f"the product [{m}, {n}, {k}]"
    return f"a tile [{m if path[2] == a.name else n}, {k}]"


def _with_rank(spec: KernelSpec, path: Path, layout: Layout, wanted: int) -> Layout:
    """As many places in the right number of modes."""
    places = int(size(layout))
    if isinstance(spec.schedule, GemmSchedule):
        if path[1] == "mma":
            places = shrunk([places], sound.MAX_THREADS)[0]
            side = next(d for d in range(int(places**0.5), 0, -1) if places % d == 0)
            return Layout((side, places // side, 1), (1, side, 0))
        return Layout((places, 1), (1, 0))
    major = spec.output.shape.index(str(spec.output.major))
    shape = [1] * wanted
    shape[major] = places
    if path[-1] == "thread_layout" and places % WARP == 0 and wanted > 1:
        shape[major], shape[major - 1] = WARP, places // WARP
    return layouts.ordered(shape, major)


def threads(spec: KernelSpec, say: Say) -> None:
    """A thread block has at most 1024 threads."""
    schedule, limit = spec.schedule, sound.MAX_THREADS
    if isinstance(schedule, ProbeSchedule):
        if schedule.tv_layout is not None and layouts.mode_sizes(schedule.tv_layout)[0] > limit:
            count = layouts.mode_sizes(schedule.tv_layout)[0]
            message = f"the layout has {count} threads, and a block at most {limit}"
            say(message, "schedule", "tv_layout", notes=(f"{count} > {limit}",), help=_part(schedule.tv_layout))
        return
    if isinstance(schedule, ElementwiseSchedule) and schedule.partition == "inner":
        if (schedule.threads or 0) > limit:
            message = f"a block of {schedule.threads} threads, and the most is {limit}"
            notes = (f"{schedule.threads} > {limit}",)
            say(message, "schedule", "threads", notes=notes, help=f"write `threads: {limit}`")
        return
    for path, layout, _, most in layouts_of(spec):
        if path[-1] != "thread_layout" or int(size(layout)) <= limit:
            continue
        sizes = layouts.mode_sizes(layout)
        smaller = fewer(layout, most, flat_k=path[1] == "mma")
        say(
            f"`thread_layout` has {size(layout)} threads, and a block at most {limit}",
            *path,
            notes=(f"{' * '.join(map(str, sizes))} = {size(layout)} > {limit}",),
            help=say_layout("thread_layout", smaller),
        )


def fewer(layout: Layout, most: int, *, flat_k: bool = False) -> Layout:
    """A compact layout of at most `most` places, its modes in the order of the strides that were written.

    With `flat_k` the last of three modes gets size 1: an mma has no threads along k.
    """
    modes = layouts.modes_of(layout)
    steps = [min((step for extent, step in layouts.leaves(mode) if extent > 1 and step), default=0) for mode in modes]
    sizes = list(layouts.mode_sizes(layout))
    if flat_k and len(sizes) == 3:
        plane = compact_like(shrunk(sizes[:2], most), tuple(steps[:2]))
        return Layout((*plane.shape, 1), (*plane.stride, 0))
    if len(sizes) == 1:
        return Layout(shrunk(sizes, most)[0], 1)
    return compact_like(shrunk(sizes, most), tuple(steps))


def _part(layout: Layout) -> str:
    """A compact thread-value layout that is small enough to probe."""
    count, own = (min(extent, most) for extent, most in zip(layouts.mode_sizes(layout), LIMITS, strict=True))
    return f"probe a part of it, such as `tv_layout: ({count},{own}):({own},1)`"


def values(spec: KernelSpec, say: Say) -> None:
    """A thread has at most 1024 values."""
    schedule, limit = spec.schedule, sound.MAX_VALUES
    match schedule:
        case ElementwiseSchedule():
            _elementwise_values(spec, schedule, say)
        case GemmSchedule():
            _gemm_values(spec, schedule, say)
        case ProbeSchedule(tv_layout=Layout() as tv) if layouts.mode_sizes(tv)[1] > limit:
            count = layouts.mode_sizes(tv)[1]
            message = f"the layout has {count} values a thread, and {limit} are the most"
            say(message, "schedule", "tv_layout", notes=(f"{count} > {limit}",), help=_part(tv))


def _elementwise_values(spec: KernelSpec, schedule: ElementwiseSchedule, say: Say) -> None:
    count, limit = sound.values_of(schedule), sound.MAX_VALUES
    if count <= limit:
        return
    message = f"a thread has {count} values, and {limit} are the most"
    if schedule.partition == "thread_value":
        assert schedule.value_layout is not None
        sizes = layouts.mode_sizes(schedule.value_layout)
        notes = (f"{' * '.join(map(str, sizes))} = {count} > {limit}",)
        better = layouts.ordered(shrunk(sizes, FULL_ELEMENTWISE), len(sizes) - 1)
        say(message, "schedule", "value_layout", notes=notes, help=say_layout("value_layout", better))
        return
    assert schedule.tiler is not None
    modes = [m for m in spec.output.shape if m in schedule.tiler]
    extents = [schedule.tiler[m] for m in modes]
    sizes, run = (1,) * len(extents), elementwise.dealt_run(spec, schedule)
    if schedule.partition == "inner_outer" and schedule.thread_layout is not None:
        sizes = layouts.mode_sizes(schedule.thread_layout)
    of = f" / {prod(sizes)} threads" if prod(sizes) > 1 else ""
    notes = (f"{' * '.join(map(str, extents))}{of} = {count} > {limit}",)
    steps = [t * run if m == spec.output.major else t for m, t in zip(modes, sizes, strict=False)]
    shares = shrunk([-(-e // t) for e, t in zip(extents, steps, strict=False)], max(1, FULL_ELEMENTWISE // run))
    better_tiler = ", ".join(f"{m}: {t * s}" for m, t, s in zip(modes, steps, shares, strict=False))
    say(message, "schedule", "tiler", notes=notes, help=f"write `tiler: {{{better_tiler}}}`")


def _gemm_values(spec: KernelSpec, schedule: GemmSchedule, say: Say) -> None:
    if schedule.mma.thread_layout is None:
        return
    _, _, m, n, _ = gemm.names(spec)
    extents = {mode: gemm.tile_of(schedule, mode) for mode in (m, n)}
    count = -(-prod(extents.values()) // gemm.threads_of(schedule))
    limit = sound.MAX_VALUES
    if count <= limit:
        return
    sides = layouts.mode_sizes(schedule.mma.thread_layout)

    def help() -> str | None:
        if len(sides) < 2:
            return None
        shares = shrunk([-(-extents[mode] // side) for mode, side in zip((m, n), sides, strict=False)], FULL)
        smaller = {mode: share * side for mode, share, side in zip((m, n), shares, sides, strict=False)}
        text = ", ".join(f"{mode}: {extent}" for mode, extent in smaller.items())
        candidates = [(written(f"take {text} in the tiler"), changed_tiler(spec, **smaller))]
        return first_that_works("CG232", candidates)

    product = f"{extents[m]} * {extents[n]}"
    notes = (f"{product} / {gemm.threads_of(schedule)} threads = {count} > {limit}",)
    mode = max((m, n), key=lambda x: extents[x])
    message = f"a thread has {count} accumulators, and {limit} are the most"
    say(message, "schedule", "tiler", mode, notes=notes, help=help)


def require_numbering(spec: KernelSpec) -> None:
    """Raises ValueError for a layout of threads or values that does not number its places 0, 1, 2, ... once each.

    No rule says so, since reading a spec does (CG202, CG206): it is the mistake of a program that made a `KernelSpec`.
    Layouts that are too large to count through are left to `threads` and `values`.
    """
    numbered = [(path, layout, most) for path, layout, _, most in layouts_of(spec)]
    if isinstance(spec.schedule, GemmSchedule):
        for mode, layout in spec.schedule.mma.permutation.items():
            numbered.append((("schedule", "mma", "permutation", mode), layout, sound.MAX_EXTENT))
        for name, layout in spec.schedule.smem_layout.items():
            numbered.append((("schedule", "smem", name, "layout"), layout, sound.MAX_EXTENT))
    for path, layout, most in numbered:
        if int(size(layout)) > most or layouts.is_permutation(layout):
            continue
        missing, repeated = layouts.coverage(layout, int(size(layout)))
        raise ValueError(
            f"{spec.kernel}: {'.'.join(map(str, path))}: {format_layout(layout)} does not number {size(layout)} places "
            f"once each: it never meets {', '.join(map(str, missing))}, and meets twice or out of range "
            f"{', '.join(map(str, repeated))}; {format_layout(compact_like(layout.shape, layout.stride))} would"
        )


def warps(spec: KernelSpec, say: Say) -> None:
    """Threads run in warps of 32, and should fill the last one."""
    schedule = spec.schedule
    if isinstance(schedule, ElementwiseSchedule):
        count = sound.threads_of(schedule)
        path: Path = ("schedule", "threads" if schedule.partition == "inner" else "thread_layout")
    else:
        assert isinstance(schedule, GemmSchedule)
        _workspace_warps(schedule, say)
        count, path = gemm.threads_of(schedule), ("schedule", "mma", "thread_layout")
    if count % WARP == 0:
        return
    full = -(-count // WARP) * WARP

    def help() -> str | None:
        if path[-1] == "threads":
            return f"write `threads: {full}`"
        if path[1] == "mma":
            side = next(d for d in range(int(full**0.5), 0, -1) if full % d == 0)
            layout = Layout((side, full // side, 1), (1, side, 0))
            candidates = [(written(say_layout("thread_layout", layout)), changed_mma(spec, thread_layout=layout))]
            return first_that_works("CG260", candidates)
        layout = _with_rank(spec, path, Layout(full), len(spec.output.shape))
        candidates = [(written(say_layout("thread_layout", layout)), changed(spec, thread_layout=layout))]
        return first_that_works("CG260", candidates)

    message = f"a block of {count} threads leaves {full - count} lanes of its last warp idle"
    say(message, *path, notes=(f"{count} = {count // WARP} * {WARP} + {count % WARP}",), help=help)


def _workspace_warps(schedule: GemmSchedule, say: Say) -> None:
    """Of the kernels that fill workspaces."""
    for name, space in schedule.workspace.items():
        count = int(size(space.thread_layout)) if space.thread_layout is not None else WARP
        if count % WARP:
            full = -(-count // WARP) * WARP
            say(
                f"a block of {count} threads that fill the workspace of {name} leaves {full - count} lanes of its last "
                "warp idle",
                *("schedule", "workspace", name, "thread_layout"),
                notes=(f"{count} = {count // WARP} * {WARP} + {count % WARP}",),
                help=f"leave `thread_layout` of {name}'s workspace out",
            )
