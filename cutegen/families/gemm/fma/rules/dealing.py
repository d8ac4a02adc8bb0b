"""Rules about how tiles are dealt out: the ranks of layouts, threads of a block, accumulators of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.atoms.targets import WARP
from cutegen.families.common.rules import dealing
from cutegen.families.common.rules.candidates import several_in_tiler
from cutegen.families.common.rules.dealing import Dealt, whole_warps
from cutegen.families.common.rules.limits import fewer, shrunk
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.words import MAX_EXTENT, tile_of
from cutegen.language.kinds import Path
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, say_layout, written
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES

FULL = 128  # accumulators of a thread that still fit its registers with room to work
MMA_THREADS: Path = ("schedule", "mma", "thread_layout")


def layouts_of(spec: Spec) -> Iterator[Dealt]:
    """Every layout that deals out the product, or a tile of an operand."""
    schedule, (a, _, m, n, k) = spec.schedule, gemm.product_of(spec)
    if schedule.mma.thread_layout is not None:
        yield Dealt(MMA_THREADS, schedule.mma.thread_layout, 3, MAX_THREADS, f"the product [{m}, {n}, {k}]")
    tiles = {name: f"a tile [{m if name == a.name else n}, {k}]" for name in (*schedule.workspace, *schedule.copies)}
    for name, space in schedule.workspace.items():
        if space.thread_layout is not None:
            path = ("schedule", "workspace", name, "thread_layout")
            yield Dealt(path, space.thread_layout, 2, MAX_THREADS, tiles[name])
    for name, copy in schedule.copies.items():
        for field, layout, most in (
            ("thread_layout", copy.thread_layout, MAX_THREADS),
            ("value_layout", copy.value_layout, MAX_VALUES),
        ):
            if layout is not None:
                yield Dealt(("schedule", "copies", name, field), layout, 2, most, tiles[name])


def numbered_layouts(spec: Spec) -> Iterator[tuple[Path, Layout, int]]:
    """Every layout that must number its places: where, the layout, the most places that are counted through."""
    for one in layouts_of(spec):
        yield one.path, one.layout, one.most
    for mode, permutation in spec.schedule.mma.permutation.items():
        yield ("schedule", "mma", "permutation", mode), permutation, MAX_EXTENT
    for name, smem in spec.schedule.smem.items():
        if smem.layout is not None:
            yield ("schedule", "smem", name, "layout"), smem.layout, MAX_EXTENT


def rank(spec: Spec, say: Say) -> None:
    """A thread or value layout has one mode for every mode of what it deals out."""
    dealing.rank(layouts_of(spec), say, _with_rank)


def _with_rank(one: Dealt) -> Layout:
    """A layout of as many places in the right number of modes."""
    places = int(size(one.layout))
    return square(shrunk([places], MAX_THREADS)[0]) if one.path == MMA_THREADS else Layout((places, 1), (1, 0))


def square(threads: int) -> Layout:
    """A layout of so many threads of an mma over m and n, about as many along both."""
    side = next(d for d in range(int(threads**0.5), 0, -1) if threads % d == 0)
    return Layout((side, threads // side, 1), (1, side, 0))


def threads(spec: Spec, say: Say) -> None:
    """A thread block has at most 1024 threads."""
    dealing.threads(layouts_of(spec), say, _smaller)


def _smaller(one: Dealt) -> Layout:
    return along_m_and_n(one.layout) if one.path == MMA_THREADS else fewer(one.layout, one.most)


def along_m_and_n(layout: Layout) -> Layout:
    """An mma's layout with no threads along k, and no more than a block can have."""
    modes = layouts.modes_of(layout)
    if len(modes) != 3:
        return fewer(layout, MAX_THREADS)
    sides = modes[:2]
    plane = fewer(Layout(tuple(x.shape for x in sides), tuple(x.stride for x in sides)), MAX_THREADS)
    return Layout((*plane.shape, 1), (*plane.stride, 0))


def values(spec: Spec, say: Say) -> None:
    """A thread has at most 1024 accumulators, and copies as many elements at most."""
    schedule = spec.schedule
    for one in layouts_of(spec):
        if one.name == "value_layout" and (count := int(size(one.layout))) > MAX_VALUES:
            message = f"`value_layout` has {count} values, and a thread copies at most {MAX_VALUES}"
            notes = (f"{' * '.join(map(str, layouts.mode_sizes(one.layout)))} = {count} > {MAX_VALUES}",)
            say(message, *one.path, notes=notes, help="leave it out: it follows from the threads and the access")
    if schedule.mma.thread_layout is None:
        return
    _, _, m, n, _ = gemm.product_of(spec)
    extents = {mode: tile_of(schedule, mode) for mode in (m, n)}
    count = -(-prod(extents.values()) // gemm.threads_of(schedule))
    limit = MAX_VALUES
    if count <= limit:
        return
    sides = layouts.mode_sizes(schedule.mma.thread_layout)

    def help() -> str | None:
        if len(sides) < 2:
            return None
        shares = shrunk([-(-extents[mode] // side) for mode, side in zip((m, n), sides, strict=False)], FULL)
        smaller = {mode: share * side for mode, share, side in zip((m, n), shares, sides, strict=False)}
        return first_that_works(say.code, [several_in_tiler(spec, smaller)])

    product = f"{extents[m]} * {extents[n]}"
    notes = (f"{product} / {gemm.threads_of(schedule)} threads = {count} > {limit}",)
    mode = max((m, n), key=lambda x: extents[x])
    message = f"a thread has {count} accumulators; the limit is {limit}"
    say(message, "schedule", "tiler", mode, notes=notes, help=help)


def warps(spec: Spec, say: Say) -> None:
    """Threads run in warps of 32, and should fill the last one; those that fill workspaces too."""
    for name, space in spec.schedule.workspace.items():
        count = int(size(space.thread_layout)) if space.thread_layout is not None else WARP
        path = ("schedule", "workspace", name, "thread_layout")
        left_out = f"leave `thread_layout` of {name}'s workspace out"
        dealing.warps(count, say, path, left_out, f" that fill the workspace of {name}")

    count = gemm.threads_of(spec.schedule)

    def help() -> str | None:
        layout = square(whole_warps(count))
        candidate = written(say_layout("thread_layout", layout)), changed(spec, {"mma.thread_layout": layout})
        return first_that_works(say.code, [candidate])

    dealing.warps(count, say, MMA_THREADS, help)
