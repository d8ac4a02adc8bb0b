"""Claims about an elementwise plan: each element of the tiles is covered exactly once, no access is out of bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import are_runs, compact, covered_once, mode_in_bounds, sides_text
from cutegen.analysis.words import count
from cutegen.families.common.claims import miscounted, not_stored, share_predicates
from cutegen.families.common.narrowing import interleaved
from cutegen.families.elementwise.last_block import astray, small_sizes
from cutegen.families.elementwise.partitions import thread_values
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.layouts import make_layout_tv

_SHOWN = 3  # threads that go wrong


def claims(plan: ElementwisePlan) -> Iterator[Claim]:
    """The claims on an elementwise plan: coverage first, then the bounds of every mode."""
    yield from _coverage(plan)
    yield from _bounds(plan)


def _coverage(plan: ElementwisePlan) -> Iterator[Claim]:
    """The claim that each element is covered once, for each output; it names the output only where
    there are several.
    """
    modes, outputs = ", ".join(plan.spec.lead.shape), plan.spec.outputs
    layout = thread_values(plan, compact(plan.tiler))
    for output in outputs:
        of = f"{output.name}: " if len(outputs) > 1 else ""
        wrong = (*miscounted(plan, layout), *not_stored(plan, output))
        if plan.partition == "inner":
            what = f"{of}each thread has every element of its own tile ({modes}) once"
            yield covered_once(what, _alone(layout), plan.tiler, ("schedule", "tiler"), 1, wrong)
        else:
            what = f"{of}the threads of a block have each element of its tile ({modes}) exactly once"
            wrong += (*_other_partition(plan),)
            yield covered_once(what, layout, plan.tiler, ("schedule", "thread_layout"), plan.threads, wrong)


def _alone(layout: Layout) -> Layout:
    """The part of a layout (thread, value) that the first thread has."""
    own = layouts.modes_of(layout)[1]
    return Layout((1, own.shape), (0, own.stride))


def _other_partition(plan: ElementwisePlan) -> Iterator[str]:
    """How the kernel's third layout differs from what its two layouts make, in words."""
    if plan.partition == "thread_value":
        assert plan.thread_layout is not None and plan.value_layout is not None and plan.tv_layout is not None
        tiler, layout = make_layout_tv(plan.thread_layout, plan.value_layout)
        made = [layout, interleaved(layout)] if plan.pointwise.vector == 1 else [layout]
        if tiler != plan.tiler or all(layouts.offsets(one) != layouts.offsets(plan.tv_layout) for one in made):
            yield f"thread_layout and value_layout make {layout} of a tile ({sides_text(tiler)})"
    elif plan.partition == "inner_outer":
        assert plan.thread_layout is not None
        run, vector = plan.run or (1,) * len(plan.tiler), plan.pointwise.vector
        for side, own, extent in zip(layouts.mode_sizes(plan.thread_layout), run, plan.tiler, strict=True):
            if extent % (side * own):
                each = f" with {count(own, 'element')} each" if own > 1 else ""
                yield f"{extent} is not a multiple of {count(side, 'thread')}{each}"
        if prod(run) not in (1, vector) and vector > 1:
            yield f"the threads deal out {count(prod(run), 'element')} at a time, and an access has {vector}"


def _bounds(plan: ElementwisePlan) -> Iterator[Claim]:
    output, vector = plan.spec.lead, plan.pointwise.vector
    layout = thread_values(plan, compact(plan.tiler))
    if plan.partition == "inner":  # all threads alike: their tiles start at multiples of the tile
        layout = _alone(layout)
    runs = are_runs(layout, plan.tiler, output.shape.index(str(output.major)), vector) and share_predicates(plan)
    for mode, tile in zip(output.shape, plan.tiler, strict=True):
        width = vector if mode == output.major else 1
        yield mode_in_bounds(plan.spec, "", mode, tile, mode in plan.pointwise.masked, width, runs)
    if plan.partition == "inner":
        yield _surplus(plan)


def _surplus(plan: ElementwisePlan) -> Claim:
    """The claim that the threads of the last block that have no tile make no access."""
    mode = plan.spec.lead.shape[plan.tile_order[-1]]
    tile, path = plan.tile[mode], ("schedule", "predication", mode)
    text, told = "threads beyond the last tile make no access", f"their coordinate is not below {mode}"
    if mode not in plan.pointwise.masked:
        because = f"the host takes whole blocks of {count(plan.threads, 'tile')} only"
        return Claim("bounds", text, (because,), plan.check_threads, path)
    one = plan.spec.static.get(mode, tile + 1) <= tile
    because = f"{mode} has one tile, which a thread's number is compared with" if one else told
    sizes = small_sizes(plan)
    wrong = tuple(itertools.islice(itertools.chain.from_iterable(astray(plan, given) for given in sizes), _SHOWN))
    walked = f"the last block's threads were walked through for {count(len(sizes), 'set')} of sizes"
    return Claim("bounds", text, (because, walked, *wrong), not wrong, path)
