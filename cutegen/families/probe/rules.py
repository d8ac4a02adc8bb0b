"""The rules of probes, in the order of their codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.algebra import NotDefined
from cutegen.algebra.composition import composed_at_run_time
from cutegen.families.common.rules.candidates import in_tiler, show_extents
from cutegen.families.probe.schedule import Spec
from cutegen.lint.rule import Candidate, Rule, Say
from cutegen.lint.trial import changed, first_that_works, first_written, is_written, say_layout, written
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES

MAX_PLACES = MAX_THREADS * MAX_VALUES  # of a tile


def threads(spec: Spec, say: Say) -> None:
    """A thread block has at most 1024 threads."""
    layout, limit = spec.schedule.tv_layout, MAX_THREADS
    if layout is not None and (count := layouts.mode_sizes(layout)[0]) > limit:
        message = f"the layout has {count} threads, and a block at most {limit}"
        say(message, "schedule", "tv_layout", notes=(f"{count} > {limit}",), help=_part(layout))


def values(spec: Spec, say: Say) -> None:
    """A thread has at most 1024 values."""
    layout, limit = spec.schedule.tv_layout, MAX_VALUES
    if layout is not None and (count := layouts.mode_sizes(layout)[1]) > limit:
        message = f"the layout has {count} values a thread; the limit is {limit}"
        say(message, "schedule", "tv_layout", notes=(f"{count} > {limit}",), help=_part(layout))


def _part(layout: Layout) -> str:
    """A help with a compact thread-value layout that is small enough to probe."""
    threads, values = layouts.mode_sizes(layout)
    count, own = min(threads, MAX_THREADS), min(values, MAX_VALUES)
    return f'probe a part of it, such as `tv_layout: "({count},{own}):({own},1)"`'


def inside_tile(spec: Spec, say: Say) -> None:
    """A probe's layout stays inside its tile."""
    layout, tiler = spec.schedule.tv_layout, spec.schedule.tiler
    assert layout is not None and tiler is not None
    places, farthest = prod(tiler.values()), layouts.reach(layout)
    if farthest <= places:
        return
    last = max(tiler, key=lambda mode: tiler[mode])
    extent = -(-farthest // (places // tiler[last]))
    terms = [f"{e - 1} * {d}" for e, d in layouts.leaves(layout) if e > 1]

    def help() -> str | None:
        return first_that_works(say.code, [_sized_anew(in_tiler(spec, last, extent))])

    say(
        f"the layout reaches place {farthest - 1}, and the tile has {places}",
        *first_written(spec, ("schedule", "tiler", last), ("schedule", "tv_layout")),
        notes=(
            f"{' + '.join(terms)} = {farthest - 1}",
            f"{' * '.join(map(str, tiler.values()))} = {places}, the last is {places - 1}",
        ),
        help=help,
    )


def _sized_anew(candidate: Candidate) -> Candidate:
    """A candidate without the sizes that followed from the tiler and the layout before."""
    text, spec = candidate
    static = {mode: size for mode, size in spec.static.items() if is_written(spec, "static", mode)}
    return text, replace(spec, static=static)


def composes(spec: Spec, say: Say) -> None:
    """A probe's layout composes with its tile, for all strides of the tensor."""
    layout, tiler = spec.schedule.tv_layout, spec.schedule.tiler
    assert layout is not None and tiler is not None
    sizes = tuple(tiler.values())
    if layouts.reach(layout) > prod(sizes):
        return  # `inside_tile` says so
    try:
        composed_at_run_time(layouts.row_major(sizes, 0), layout)
    except NotDefined as error:
        why = error.message
    else:
        return

    def candidates() -> Iterator[Candidate]:
        still = Layout(layout.shape, layouts.still(layout.shape, layout.stride))
        if still != layout:
            yield written(say_layout("tv_layout", still)), changed(spec, {"tv_layout": still})
        first, *others = tiler
        flat = {first: prod(sizes), **dict.fromkeys(others, 1)}
        fields: dict[str, Any] = {f"tiler.{mode}": extent for mode, extent in flat.items()}
        text = f"write `tiler: {{{show_extents(flat)}}}`"
        yield written(f"{text}: any layout composes with one mode"), changed(spec, fields)
        both = f"{text} and {say_layout('tv_layout', still).removeprefix('write ')}"
        yield written(both), changed(spec, {**fields, "tv_layout": still})

    say(
        f"the layout does not compose with a tile of {' x '.join(map(str, sizes))}",
        *("schedule", "tv_layout"),
        notes=(why, "it counts the tile's places with the first mode fastest, in steps that each mode must take whole"),
        help=lambda: first_that_works(say.code, map(_sized_anew, candidates())),
    )


def tile_size(spec: Spec, say: Say) -> None:
    """A probe's tile has at most 2^20 elements, as many as a layout can read: all of them are drawn."""
    tiler = spec.schedule.tiler
    assert tiler is not None
    if (places := prod(tiler.values())) > MAX_PLACES:
        mode = max(tiler, key=lambda mode: tiler[mode])
        notes = (f"{' * '.join(map(str, tiler.values()))} = {places} > {MAX_PLACES}",)
        fits = MAX_PLACES // (places // tiler[mode])
        message = f"the tile has {places} elements; the limit is {MAX_PLACES}"
        say(message, "schedule", "tiler", mode, notes=notes, help=f"`{mode}: {fits}` is the most" if fits else None)


RULES: tuple[Rule, ...] = (
    Rule("CG231", threads, basic=True),
    Rule("CG232", values, basic=True),
    Rule("CG257", composes),
    Rule("CG258", inside_tile),
    Rule("CG259", tile_size),
)
