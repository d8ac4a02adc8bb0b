"""Advice on how a kernel fills the machine: threads, occupancy, grid, predicates, and what a tile demands of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from cutegen.analysis.gpus import GPUS
from cutegen.analysis.occupancy import occupancy
from cutegen.analysis.roofline import arithmetic, blocks_of
from cutegen.language.model import ElementwiseSchedule, GemmSchedule, KernelSpec
from cutegen.lint.gemm_dealing import schedule_of
from cutegen.lint.gemm_mma import STAGES
from cutegen.lint.rule import Accesses, Candidate, Finding
from cutegen.lint.trial import as_written, changed, changed_tiler, first_written, written
from cutegen.lint.whole import FULL
from cutegen.planning import gemm, layouts
from cutegen.planning.common import known_divisor
from cutegen.planning.plan import ElementwisePlan, GemmPlan, Plan
from cutegen.planning.targets import TARGETS

WASTE = 0.25  # of what the tiles cover, from which on it is worth a word
SCHEDULERS = 4  # of an SM
WARPS_A_SCHEDULER = 2  # that hide an arithmetic instruction's latency in code with independent instructions
IDLE = 0.1  # excess of what only takes room or instructions
STREAMING = 0.5  # of an SM's warps, for a kernel that waits for memory


def unfilled_tiles(spec: KernelSpec, plan: Plan, _: Accesses) -> Iterator[Finding]:
    """Sizes that are fixed fill their tiles."""
    lost = {
        mode: 1 - spec.static[mode] / (-(-spec.static[mode] // plan.tile[mode]) * plan.tile[mode])
        for mode in spec.output.shape
        if mode in spec.static and mode in plan.tile
    }
    for mode, share in lost.items():
        if share <= WASTE:
            continue
        size, tile = spec.static[mode], plan.tile[mode]
        tiles = -(-size // tile)
        yield Finding(
            f"{share:.0%} of what the tiles cover lies beyond {mode}, which is {size}; a tile has {tile}",
            first_written(spec, ("schedule", "tiler", mode), ("schedule", "thread_layout"), ("static", mode)),
            (f"ceil({size} / {tile}) * {tile} = {tiles * tile}, of which {size} are used",),
            1 / (1 - share) - 1,
            _smaller_tiles(spec, mode),
        )


def _smaller_tiles(spec: KernelSpec, mode: str) -> Iterator[Candidate]:
    """Smaller tiles along a mode, the nearest first; of layouts, those with the threads or values moved elsewhere."""
    schedule = spec.schedule
    if isinstance(schedule, (ElementwiseSchedule, GemmSchedule)) and schedule.tiler is not None:
        extent = schedule.tiler[mode]
        while (extent := extent // 2) >= 1:
            yield written(f"write `{mode}: {extent}` in the tiler"), changed_tiler(spec, **{mode: extent})
        return
    if isinstance(schedule, ElementwiseSchedule) and schedule.thread_layout is not None:
        i, shape = spec.output.shape.index(mode), list(layouts.mode_sizes(schedule.thread_layout))
        major = spec.output.shape.index(str(spec.output.major))
        if len(shape) < 2:
            return
        while shape[i] > 1 and shape[i] % 2 == 0:
            shape[i] //= 2
            shape[i - 1] *= 2
            layout = layouts.ordered(shape, major)
            text = f"write `thread_layout: {layouts.show(shape)}:{layouts.show(layout.stride)}`"
            yield written(text), changed(spec, thread_layout=layout)


# ---------------------------------------------------------------------------------------------------- occupancy


def low_occupancy(spec: KernelSpec, plan: Plan, _: Accesses) -> Iterator[Finding]:
    """An SM holds enough warps to hide what they wait for."""
    smem = plan.smem_bytes if isinstance(plan, GemmPlan) else 0
    found = [occupancy(target, plan.threads, smem) for target in spec.targets]
    few = [o for o in found if o.warps < _wanted(plan, o.target)]
    if not few:
        return
    worst = min(few, key=lambda o: o.warps / _wanted(plan, o.target))
    notes = [
        f"{o.target}: {o.text}; blocks by {', '.join(f'{name}: {blocks}' for name, blocks in o.limits.items())}"
        for o in few
    ]
    path = ("schedule", "pipeline", "stages") if "shared memory" in worst.binds else ("schedule", "threads")
    paths = (path, ("schedule", "mma", "thread_layout"), ("schedule", "thread_layout"), ("schedule", "tiler"), ("op",))
    yield Finding(
        f"an SM of {worst.target} holds {worst.warps} warps, and {_wanted(plan, worst.target)} hide what they wait for",
        first_written(spec, *paths),
        tuple(notes),
        _wanted(plan, worst.target) / max(worst.warps, 1) - 1,
        _smaller_blocks(spec, plan),
    )


def _wanted(plan: Plan, target: str) -> int:
    """Warps of an SM: half of what it holds to stream memory, two a scheduler for a gemm's independent arithmetic."""
    if isinstance(plan, GemmPlan):
        return SCHEDULERS * WARPS_A_SCHEDULER
    return int(STREAMING * TARGETS[target].threads_per_sm) // 32


def _smaller_blocks(spec: KernelSpec, plan: Plan) -> Iterator[Candidate]:
    schedule = as_written(spec).schedule
    if isinstance(plan, GemmPlan):
        for stages in range(plan.stages - 1, 1, -1):
            yield written(f"write `stages: {stages}`"), changed(spec, stages=stages)
        extent = plan.tile[plan.k]
        while (extent := extent // 2) >= 4:
            yield written(f"write `{plan.k}: {extent}` in the tiler"), changed_tiler(spec, **{plan.k: extent})
    elif isinstance(schedule, ElementwiseSchedule) and isinstance(plan, ElementwisePlan):
        major = spec.output.shape.index(str(spec.output.major))
        for threads in (128, 256, 64):
            if plan.partition == "inner":
                yield written(f"write `threads: {threads}`"), changed(spec, threads=threads)
            elif threads % plan.threads == 0 and plan.thread_layout is not None:
                shape = list(layouts.mode_sizes(plan.thread_layout))
                shape[major - 1 if major else -1] *= threads // plan.threads
                layout = layouts.ordered(shape, major)
                text = f"write `thread_layout: {layouts.show(layout.shape)}:{layouts.show(layout.stride)}`"
                more = changed(spec, thread_layout=layout)
                if plan.partition == "inner_outer":
                    share = [e // s for e, s in zip(plan.tiler, layouts.mode_sizes(plan.thread_layout), strict=True)]
                    tiler = {m: s * n for m, s, n in zip(spec.output.shape, share, shape, strict=True)}
                    text += " and `tiler: {" + ", ".join(f"{m}: {e}" for m, e in tiler.items()) + "}`"
                    more = replace(more, schedule=replace(more.schedule, tiler=tiler))
                yield written(text), more


def idle_stages(spec: KernelSpec, plan: Plan, _: Accesses) -> Iterator[Finding]:
    """Where k is fixed it has a tile for every stage but one: all are on their way before the first one is used."""
    assert isinstance(plan, GemmPlan)
    if plan.k_tiles is None:
        return
    useful = max(plan.k_tiles + 1, STAGES[0])
    if plan.stages <= useful:
        return
    k, fewer = plan.k, replace(spec, schedule=replace(schedule_of(spec), stages=useful))
    yield Finding(
        f"{plan.stages} stages, and {k} has {plan.k_tiles} tile{'s' * (plan.k_tiles != 1)} to fill them",
        first_written(spec, ("schedule", "pipeline", "stages"), ("static", k)),
        (
            f"ceil({spec.static[k]} / {plan.tile[k]}) = {plan.k_tiles}, and {plan.stages} - 1 are copied ahead",
            f"a block takes {plan.smem_bytes} bytes of shared memory, and {gemm.smem_bytes(fewer)[1]} would do",
        ),
        IDLE * (plan.stages - useful),
        ((written(f"write `stages: {useful}`"), changed(spec, stages=useful)),),
    )


# ----------------------------------------------------------------------------------------- predicates and grids


def needless_predicate(spec: KernelSpec, plan: Plan, _: Accesses) -> Iterator[Finding]:
    """Coordinates are compared with a size only where a tile may reach beyond it."""
    schedule = spec.schedule
    assert isinstance(schedule, (ElementwiseSchedule, GemmSchedule))
    for mode, kind in schedule.predication.items():
        known = known_divisor(spec, mode)
        if kind == "none" or known % plan.tile[mode]:
            continue
        if isinstance(plan, ElementwisePlan) and plan.partition == "inner" and _walked_last(plan) == mode:
            continue  # it tells threads beyond the last tile from the others
        of = "" if mode in spec.static else "a multiple of "
        without = {**{m: p for m, p in schedule.predication.items() if m != mode}, mode: "none"}
        yield Finding(
            f"`{kind}` guards {mode}, whose tiles are always whole",
            ("schedule", "predication", mode),
            (f"{mode} is {of}{known} = {known // plan.tile[mode]} * {plan.tile[mode]}",),
            IDLE,
            ((written(f"write `{mode}: none`, or leave it out"), changed(spec, predication=without)),),
        )


def _walked_last(plan: ElementwisePlan) -> str:
    return plan.spec.output.shape[plan.tile_order[-1]]


def small_grid(spec: KernelSpec, plan: Plan, _: Accesses) -> Iterator[Finding]:
    """Where all sizes are fixed, every SM of the chip has a block."""
    if not all(mode in spec.static for mode in spec.output.shape):
        return
    blocks = blocks_of(plan, spec.static)
    idle = [target for target in spec.targets if blocks < GPUS[target].sms]
    if not idle:
        return
    sizes = ", ".join(f"{mode} = {spec.static[mode]}" for mode in spec.output.shape)
    notes = [f"ceil({spec.static[m]} / {plan.tile[m]}) tiles along {m}" for m in spec.output.shape if m in plan.tile]
    notes += [f"{GPUS[t].name} ({t}) has {GPUS[t].sms} SMs, of which {GPUS[t].sms - blocks} stay idle" for t in idle]
    yield Finding(
        f"a grid of {blocks} block{'s' * (blocks != 1)} for {sizes} is smaller than the GPU",
        first_written(spec, ("schedule", "tiler"), ("schedule", "thread_layout"), ("static", spec.output.shape[0])),
        tuple(notes),
        max(1 - blocks / GPUS[t].sms for t in idle),
        _more_blocks(spec),
    )


def _more_blocks(spec: KernelSpec) -> Iterator[Candidate]:
    schedule = spec.schedule
    if isinstance(schedule, GemmSchedule) and schedule.tiler is not None:
        tile = {mode: schedule.tiler[mode] for mode in spec.output.shape}
        while max(tile.values()) > 16:
            wide = max(tile, key=lambda mode: tile[mode])
            tile = {**tile, wide: tile[wide] // 2}
            text = ", ".join(f"{mode}: {extent}" for mode, extent in tile.items())
            yield written(f"take {text} in the tiler"), changed_tiler(spec, **tile)
    elif isinstance(schedule, ElementwiseSchedule) and schedule.partition == "inner":
        for threads in (128, 64):
            yield written(f"write `threads: {threads}`"), changed(spec, threads=threads)


# ---------------------------------------------------------------------------------------------------- intensity


def low_intensity(spec: KernelSpec, plan: Plan, _: Accesses) -> Iterator[Finding]:
    """A gemm's tile does enough arithmetic on each byte that it reads."""
    assert isinstance(plan, GemmPlan)
    found = _intensity(plan)
    dtype = arithmetic(spec)
    short = [t for t in spec.targets if GPUS[t].balance(dtype) > found]
    if not short:
        return
    m, n = plan.tile[plan.m], plan.tile[plan.n]
    a, b = plan.a.tensor.dtype.bytes, plan.b.tensor.dtype.bytes
    notes = [f"2 * {m} * {n} / ({m} * {a} + {n} * {b}) = {found:.3g} operations a byte"]
    notes += [
        f"{GPUS[t].name} ({t}): {GPUS[t].flops[dtype] / 1e12:.4g} TFLOP/s / {GPUS[t].bandwidth / 1e9:.0f} GB/s = "
        f"{GPUS[t].balance(dtype):.3g}"
        for t in short
    ]
    yield Finding(
        f"the tile does {found:.3g} operations on each byte of A and B, and {short[0]} could do "
        f"{GPUS[short[0]].balance(dtype):.3g} while its memory delivers one",
        first_written(spec, ("schedule", "tiler"), ("op",)),
        (*notes, "what is missing has to come from the second-level cache"),
        max(GPUS[t].balance(dtype) for t in short) / found - 1,
        _larger_tiles(spec, plan),
    )


def _intensity(plan: GemmPlan) -> float:
    """Operations a byte of A and B, of one tile for one k."""
    m, n = plan.tile[plan.m], plan.tile[plan.n]
    return 2 * m * n / (m * plan.a.tensor.dtype.bytes + n * plan.b.tensor.dtype.bytes)


def _larger_tiles(spec: KernelSpec, plan: GemmPlan) -> Iterator[Candidate]:
    tile = {plan.m: plan.tile[plan.m], plan.n: plan.tile[plan.n]}
    while max(tile.values()) < 256:
        small = min(tile, key=lambda mode: tile[mode])
        tile = {**tile, small: tile[small] * 2}
        if prod(tile.values()) // plan.threads <= FULL:
            text = ", ".join(f"{mode}: {extent}" for mode, extent in tile.items())
            yield written(f"take {text} in the tiler"), changed_tiler(spec, **tile)
