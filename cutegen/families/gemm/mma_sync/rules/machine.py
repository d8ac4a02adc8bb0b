"""Rules about what registers and shared memory hold, and advice on how a kernel fills its tiles."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.families.common.rules import machine
from cutegen.families.common.rules.candidates import halved_in_tiler
from cutegen.families.gemm.mma_sync.plan import MmaSyncPlan
from cutegen.families.gemm.mma_sync.product import (
    LEAST_STEPS,
    PAIR,
    ROWS,
    accumulators,
    depth_of,
    operand_bytes,
    sides_of,
    smem_bytes,
    staged_bytes,
    threads_of,
)
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.staged.rules import pipeline
from cutegen.families.gemm.staged.rules.machine import accumulated
from cutegen.families.gemm.words import tile_of
from cutegen.lint.rule import Accesses, Finding, Say
from cutegen.lint.trial import first_that_works

BESIDE = 64  # registers of a thread besides its accumulators: fragments of two steps, and addresses


def registers(spec: Spec, say: Say) -> None:
    """A thread's accumulators and fragments should fit its registers."""
    count, take = accumulators(spec), f"fragments and addresses take some {BESIDE} more"
    accumulated(spec, say, threads_of(spec.schedule), count + BESIDE, f"{count} accumulators", take, PAIR)


def shared_memory(spec: Spec, say: Say) -> None:
    """The stages of A and B, and the tile of sums that takes their place, fit what a block can have on every target."""
    k, count = product_of(spec).k, spec.schedule.pipeline.stages or 2

    def help() -> str | None:
        least = LEAST_STEPS * depth_of(product_of(spec).a)
        trials = [*pipeline.with_stages(spec, range(count - 1, 1, -1))]
        trials += halved_in_tiler(spec, k, tile_of(spec.schedule, k), least=least)
        for mode in product_of(spec).sides:
            trials += halved_in_tiler(spec, mode, tile_of(spec.schedule, mode), least=16)
        return first_that_works(say.code, trials)

    notes = (
        *(f"{name}: {count} stages take {size}" for name, size in operand_bytes(spec).items()),
        f"the tile of sums, which takes their place: {staged_bytes(spec, sides_of(spec))}",
    )
    pipeline.shared_memory(spec, say, smem_bytes(spec), notes, help)


def unfilled_tiles(spec: Spec, plan: MmaSyncPlan, _: Accesses) -> Iterator[Finding]:
    """Sizes that are fixed fill their tiles."""
    least = {plan.m: ROWS, plan.n: PAIR}
    return machine.unfilled_tiles(
        spec, plan, lambda mode: halved_in_tiler(spec, mode, plan.tile[mode], least=least[mode])
    )
