"""Rules on registers, and advice on how a kernel fills the machine: tiles, occupancy, and arithmetic for its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cutegen.analysis.occupancy import Occupancy
from cutegen.analysis.roofline import arithmetic
from cutegen.atoms.gpus import GPUS
from cutegen.families.common.rules import machine
from cutegen.families.common.rules.candidates import halved_in_tiler, several_in_tiler
from cutegen.families.gemm.fma.rules.dealing import FULL, MMA_THREADS
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.families.gemm.staged.rules.machine import accumulated
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.words import tile_of
from cutegen.language.kinds import Path
from cutegen.lint.rule import Accesses, Candidate, Finding, Say
from cutegen.lint.trial import changed, first_written, written

SCHEDULERS = 4  # of an SM
WARPS_A_SCHEDULER = 2  # that hide an arithmetic instruction's latency in code with independent instructions


def registers(spec: Spec, say: Say) -> None:
    """A thread's accumulators should fit its registers."""
    (_, _, m, n, _), threads, dtype = (
        gemm.product_of(spec),
        gemm.threads_of(spec.schedule),
        spec.schedule.mma.accumulator,
    )
    assert dtype is not None
    count = tile_of(spec.schedule, m) * tile_of(spec.schedule, n) // threads
    needed = count * dtype.bytes // 4
    what, take = f"{count} accumulators of {dtype.value}", f"they take {needed} registers"
    accumulated(spec, say, threads, needed, what, take, 1)


def unfilled_tiles(spec: Spec, plan: GemmPlan, _: Accesses) -> Iterator[Finding]:
    """Sizes that are fixed fill their tiles."""
    return machine.unfilled_tiles(spec, plan, lambda mode: halved_in_tiler(spec, mode, plan.tile[mode]))


def low_occupancy(spec: Spec, plan: GemmPlan, _: Accesses) -> Iterator[Finding]:
    """An SM holds enough warps to hide what they wait for: two a scheduler, for independent arithmetic."""

    def places(found: Occupancy) -> Iterator[Path]:
        if "shared memory" in found.binds:
            yield ("schedule", "pipeline", "stages")
        yield MMA_THREADS
        yield ("schedule", "tiler")

    wanted = SCHEDULERS * WARPS_A_SCHEDULER
    return machine.low_occupancy(spec, plan, lambda _: wanted, places, _smaller_blocks(spec, plan))


def _smaller_blocks(spec: Spec, plan: GemmPlan) -> Iterator[Candidate]:
    for stages in range(plan.stages - 1, 1, -1):
        yield written(f"write `stages: {stages}`"), changed(spec, {"pipeline.stages": stages})
    yield from halved_in_tiler(spec, plan.k, plan.tile[plan.k], least=4)


def low_intensity(spec: Spec, plan: GemmPlan, _: Accesses) -> Iterator[Finding]:
    """A tile does enough arithmetic on each byte that it reads."""
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
        f"the tile does {found:.3g} operations per byte of A and B; {short[0]} could do "
        f"{GPUS[short[0]].balance(dtype):.3g} while its memory delivers one",
        first_written(spec, ("schedule", "tiler"), ("op",)),
        (*notes, "the rest must come from the L2 cache"),
        max(GPUS[t].balance(dtype) for t in short) / found - 1,
        _larger_tiles(spec, plan),
    )


def _intensity(plan: GemmPlan) -> float:
    """The operations for each byte of A and B, of one tile for one k."""
    m, n = plan.tile[plan.m], plan.tile[plan.n]
    return 2 * m * n / (m * plan.a.tensor.dtype.bytes + n * plan.b.tensor.dtype.bytes)


def _larger_tiles(spec: Spec, plan: GemmPlan) -> Iterator[Candidate]:
    tile = {plan.m: plan.tile[plan.m], plan.n: plan.tile[plan.n]}
    while max(tile.values()) < 256:
        small = min(tile, key=lambda mode: tile[mode])
        tile = {**tile, small: tile[small] * 2}
        if prod(tile.values()) // plan.threads <= FULL:
            yield several_in_tiler(spec, tile)
