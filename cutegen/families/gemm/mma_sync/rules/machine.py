"""Rules about what a grid and registers hold, and advice on how a kernel fills the machine."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.families.common.rules import machine
from cutegen.families.common.rules.candidates import halved_in_tiler
from cutegen.families.common.rules.limits import register_limit
from cutegen.families.gemm.mma_sync.plan import MmaSyncPlan
from cutegen.families.gemm.mma_sync.product import PAIR, ROWS, accumulators, threads_of
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.staged.rules.machine import smaller_tiles
from cutegen.families.gemm.words import tile_of
from cutegen.lint.rule import Accesses, Finding, Say
from cutegen.lint.trial import first_that_works

BESIDE = 64  # registers of a thread besides its accumulators: fragments of two steps, and addresses


def registers(spec: Spec, say: Say) -> None:
    """A thread's accumulators and fragments should fit its registers."""
    _, _, m, n, _ = product_of(spec)
    count, threads = accumulators(spec), threads_of(spec.schedule)
    limit = register_limit(threads)
    if count + BESIDE <= limit:
        return
    tile = {mode: tile_of(spec.schedule, mode) for mode in (m, n)}
    say(
        f"{count} accumulators do not fit a thread's registers",
        *("schedule", "tiler"),
        notes=(
            f"{tile[m]} * {tile[n]} / {threads} threads = {count}",
            f"fragments and addresses take some {BESIDE} more, and a thread of {threads} has {limit}",
        ),
        help=lambda: first_that_works(say.code, smaller_tiles(spec, PAIR)),
    )


def unfilled_tiles(spec: Spec, plan: MmaSyncPlan, _: Accesses) -> Iterator[Finding]:
    """Sizes that are fixed fill their tiles."""
    least = {plan.m: ROWS, plan.n: PAIR}
    return machine.unfilled_tiles(
        spec, plan, lambda mode: halved_in_tiler(spec, mode, plan.tile[mode], least=least[mode])
    )
