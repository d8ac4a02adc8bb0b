"""Advice on how a kernel fills the machine: threads, occupancy, grid, predicates, and what a tile demands of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod

from cutegen.analysis.gpus import GPUS
from cutegen.analysis.occupancy import occupancy
from cutegen.analysis.roofline import arithmetic, blocks_of
from cutegen.language.model import ElementwiseSchedule, GemmSchedule, KernelSpec
from cutegen.lint.gemm_dealing import schedule_of
from cutegen.lint.gemm_mma import STAGES
from cutegen.lint.performance_trial import first_better
from cutegen.lint.rule import Say
from cutegen.lint.trial import Candidate, as_written, changed, changed_tiler, first_written, written
from cutegen.planning import gemm, layouts
from cutegen.planning.common import known_divisor
from cutegen.planning.plan import ElementwisePlan, GemmPlan, Plan
from cutegen.planning.targets import TARGETS

WASTE = 0.25  # of a grid's threads that have nothing to do, from which on it is worth a word
SCHEDULERS = 4  # of an SM
WARPS_A_SCHEDULER = 2  # that hide an arithmetic instruction's latency in code with independent instructions
STREAMING = 0.5  # of an SM's warps, for a kernel that waits for memory


def wasted_threads(spec: KernelSpec, plan: Plan, say: Say) -> None:
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
        say(
            f"{share:.0%} of the threads have nothing to do: {mode} is {size}, and its tile {tile}",
            *first_written(spec, ("schedule", "tiler", mode), ("schedule", "thread_layout"), ("static", mode)),
            notes=(f"ceil({size} / {tile}) * {tile} = {tiles * tile}, of which {size} are used",),
            help=partial(_fuller, spec, mode, share),
        )


def _fuller(spec: KernelSpec, mode: str, share: float) -> str | None:
    def good(_: KernelSpec, other: Plan) -> bool:
        size, tile = spec.static[mode], other.tile[mode]
        return 1 - size / (-(-size // tile) * tile) < min(share, WASTE)

    return first_better(_smaller(spec, mode), good)


def _smaller(spec: KernelSpec, mode: str) -> Iterator[Candidate]:
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


def low_occupancy(spec: KernelSpec, plan: Plan, say: Say) -> None:
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
    say(
        f"an SM of {worst.target} holds {worst.warps} warps, and {_wanted(plan, worst.target)} hide what they wait for",
        *first_written(spec, path, ("schedule", "mma", "thread_layout"), ("schedule", "thread_layout"), ("schedule",)),
        notes=tuple(notes),
        help=partial(_more_warps, spec, plan),
    )


def _wanted(plan: Plan, target: str) -> int:
    """Warps of an SM: half of what it holds to stream memory, two a scheduler for a gemm's independent arithmetic."""
    if isinstance(plan, GemmPlan):
        return SCHEDULERS * WARPS_A_SCHEDULER
    return int(STREAMING * TARGETS[target].threads_per_sm) // 32


def _enough(spec: KernelSpec, plan: Plan) -> bool:
    smem = plan.smem_bytes if isinstance(plan, GemmPlan) else 0
    return all(occupancy(t, plan.threads, smem).warps >= _wanted(plan, t) for t in spec.targets)


def _more_warps(spec: KernelSpec, plan: Plan) -> str | None:
    return first_better(_roomier(spec, plan), _enough)


def _roomier(spec: KernelSpec, plan: Plan) -> Iterator[Candidate]:
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


def idle_stages(spec: KernelSpec, plan: Plan, say: Say) -> None:
    """Where k is fixed it has a tile for every stage of the pipeline."""
    assert isinstance(plan, GemmPlan)
    if plan.k_tiles is None:
        return
    useful = max(plan.k_tiles, STAGES[0])
    if plan.stages <= useful:
        return
    k, fewer = plan.k, replace(spec, schedule=replace(schedule_of(spec), stages=useful))
    say(
        f"{plan.stages} stages, and {k} has {plan.k_tiles} tile{'s' * (plan.k_tiles != 1)} to fill them",
        *first_written(spec, ("schedule", "pipeline", "stages"), ("static", k)),
        notes=(
            f"ceil({spec.static[k]} / {plan.tile[k]}) = {plan.k_tiles} < {plan.stages}",
            f"a block takes {plan.smem_bytes} bytes of shared memory, and {gemm.smem_bytes(fewer)[1]} would do",
        ),
        help=f"write `stages: {useful}`",
    )


# ----------------------------------------------------------------------------------------- predicates and grids


def needless_predicate(spec: KernelSpec, plan: Plan, say: Say) -> None:
    """Coordinates are compared with a size only where a tile may reach beyond it."""
    schedule = spec.schedule
    assert isinstance(schedule, (ElementwiseSchedule, GemmSchedule))
    for mode, kind in schedule.predication.items():
        known = known_divisor(spec, mode)
        if kind == "none" or known % plan.tile[mode]:
            continue
        if isinstance(plan, ElementwisePlan) and plan.partition == "inner" and _walked_last(plan) == mode:
            continue  # it tells threads beyond the last tile from the others
        say(
            f"`{kind}` guards {mode}, whose tiles are always whole",
            *("schedule", "predication", mode),
            notes=(f"{mode} is {'' if mode in spec.static else 'a multiple of '}{known} = {known // plan.tile[mode]} * "
                   f"{plan.tile[mode]}",),
            help=f"write `{mode}: none`, or leave it out",
        )  # fmt: skip


def _walked_last(plan: ElementwisePlan) -> str:
    return plan.spec.output.shape[plan.tile_order[-1]]


def small_grid(spec: KernelSpec, plan: Plan, say: Say) -> None:
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
    say(
        f"a grid of {blocks} block{'s' * (blocks != 1)} for {sizes} is smaller than the GPU",
        *first_written(spec, ("schedule", "tiler"), ("schedule", "thread_layout"), ("static", spec.output.shape[0])),
        notes=tuple(notes),
        help=partial(_more_blocks, spec, blocks),
    )


def _more_blocks(spec: KernelSpec, blocks: int) -> str | None:
    most = max(GPUS[target].sms for target in spec.targets)

    def good(other: KernelSpec, plan: Plan) -> bool:
        return blocks_of(plan, other.static) >= most

    def candidates() -> Iterator[Candidate]:
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

    return first_better(candidates(), good)


# ---------------------------------------------------------------------------------------------------- intensity


def low_intensity(spec: KernelSpec, plan: Plan, say: Say) -> None:
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
    say(
        f"the tile does {found:.3g} operations on each byte of A and B, and {short[0]} could do "
        f"{GPUS[short[0]].balance(dtype):.3g} while its memory delivers one",
        *first_written(spec, ("schedule", "tiler"), ("schedule",)),
        notes=(*notes, "what is missing has to come from the second-level cache"),
        help=partial(_denser, spec, plan),
    )


def _intensity(plan: GemmPlan) -> float:
    """Operations a byte of A and B, of one tile for one k."""
    m, n = plan.tile[plan.m], plan.tile[plan.n]
    return 2 * m * n / (m * plan.a.tensor.dtype.bytes + n * plan.b.tensor.dtype.bytes)


def _denser(spec: KernelSpec, plan: GemmPlan) -> str | None:
    most = max(GPUS[target].balance(arithmetic(spec)) for target in spec.targets)

    def good(other: KernelSpec, better: Plan) -> bool:
        assert isinstance(better, GemmPlan)
        values = prod((better.tile[better.m], better.tile[better.n])) // better.threads
        return _intensity(better) >= most and values <= _VALUES

    def candidates() -> Iterator[Candidate]:
        tile = {plan.m: plan.tile[plan.m], plan.n: plan.tile[plan.n]}
        while max(tile.values()) < 256:
            narrow = min(tile, key=lambda mode: tile[mode])
            tile = {**tile, narrow: tile[narrow] * 2}
            text = ", ".join(f"{mode}: {extent}" for mode, extent in tile.items())
            yield written(f"take {text} in the tiler"), changed_tiler(spec, **tile)

    return first_better(candidates(), good)


_VALUES = 128  # accumulators of a thread that fit its registers
