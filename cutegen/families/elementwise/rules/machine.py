"""Advice on how a kernel fills the machine: tiles, occupancy, predicates and the grid."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutegen import layouts
from cutegen.atoms.targets import TARGETS, WARP
from cutegen.families.common.rules import machine
from cutegen.families.common.rules.candidates import halved_in_tiler, show_extents
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.elementwise.schedule import Spec
from cutegen.language.kinds import Path
from cutegen.lint.rule import Accesses, Candidate, Finding
from cutegen.lint.trial import changed, written

STREAMING = 0.5  # of an SM's warps, for a kernel that waits for memory
_THREADS: Path = ("schedule", "threads")
_THREAD_LAYOUT: Path = ("schedule", "thread_layout")


def unfilled_tiles(spec: Spec, plan: ElementwisePlan, _: Accesses) -> Iterator[Finding]:
    """Sizes that are fixed fill their tiles."""
    return machine.unfilled_tiles(spec, plan, partial(_smaller_tiles, spec), _THREAD_LAYOUT)


def _smaller_tiles(spec: Spec, mode: str) -> Iterator[Candidate]:
    """Smaller tiles along a mode, the nearest first; of layouts, those with the threads moved elsewhere."""
    schedule = spec.schedule
    if schedule.tiler is not None:
        yield from halved_in_tiler(spec, mode, schedule.tiler[mode])
    elif schedule.thread_layout is not None:
        i, shape = spec.lead.shape.index(mode), list(layouts.mode_sizes(schedule.thread_layout))
        major = spec.lead.shape.index(str(spec.lead.major))
        if len(shape) < 2:
            return
        while shape[i] > 1 and shape[i] % 2 == 0:
            shape[i] //= 2
            shape[i - 1] *= 2
            layout = layouts.row_major(shape, major)
            text = f'write `thread_layout: "{layouts.show(shape)}:{layouts.show(layout.stride)}"`'
            yield written(text), changed(spec, {"thread_layout": layout})


def low_occupancy(spec: Spec, plan: ElementwisePlan, _: Accesses) -> Iterator[Finding]:
    """An SM holds enough warps to hide what they wait for: half of what it can, to stream memory."""

    def wanted(target: str) -> int:
        return int(STREAMING * TARGETS[target].threads_per_sm) // WARP

    places = (_THREADS, _THREAD_LAYOUT, ("schedule", "tiler"))
    return machine.low_occupancy(spec, plan, wanted, lambda _: places, _larger_blocks(spec, plan))


def _larger_blocks(spec: Spec, plan: ElementwisePlan) -> Iterator[Candidate]:
    major = spec.lead.shape.index(str(spec.lead.major))
    for threads in (128, 256, 64):
        if plan.partition == "inner":
            yield written(f"write `threads: {threads}`"), changed(spec, {"threads": threads})
        elif threads % plan.threads == 0 and plan.thread_layout is not None:
            sides = layouts.mode_sizes(plan.thread_layout)
            shape = list(sides)
            shape[major - 1 if major else -1] *= threads // plan.threads
            layout = layouts.row_major(shape, major)
            text = f'write `thread_layout: "{layouts.show(layout.shape)}:{layouts.show(layout.stride)}"`'
            fields: dict[str, object] = {"thread_layout": layout}
            if plan.partition == "inner_outer":
                share = [extent // side for extent, side in zip(plan.tiler, sides, strict=True)]
                tiler = {m: s * n for m, s, n in zip(spec.lead.shape, share, shape, strict=True)}
                text += f" and `tiler: {{{show_extents(tiler)}}}`"
                fields["tiler"] = tiler
            yield written(text), changed(spec, fields)


def needless_predicate(spec: Spec, plan: ElementwisePlan, _: Accesses) -> Iterator[Finding]:
    """Coordinates are compared with a size only where a tile may reach beyond it."""
    walked_last = spec.lead.shape[plan.tile_order[-1]]  # tells threads beyond the last tile from the others
    needed = walked_last if plan.partition == "inner" else None
    return machine.needless_predicate(spec, plan, spec.schedule.predication, needed)


def small_grid(spec: Spec, plan: ElementwisePlan, _: Accesses) -> Iterator[Finding]:
    """Where all sizes are fixed, every SM of the chip has a block."""
    return machine.small_grid(spec, plan, _smaller_blocks(spec), _THREAD_LAYOUT)


def _smaller_blocks(spec: Spec) -> Iterator[Candidate]:
    if spec.schedule.partition == "inner":
        for threads in (128, 64):
            yield written(f"write `threads: {threads}`"), changed(spec, {"threads": threads})
