"""Rules about the pipeline along k: the depth of a tile, shared memory, and what stores and stages are of use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cutegen.families.common.rules.candidates import halved_in_tiler, in_tiler, show_extents
from cutegen.families.common.rules.machine import IDLE
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.families.gemm.staged.product import LEAST_DEPTH
from cutegen.families.gemm.staged.rules import pipeline
from cutegen.families.gemm.staged.rules.pipeline import STAGES, with_stages
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.staged.shared_memory import smem_bytes, smem_products
from cutegen.families.gemm.words import tile_of
from cutegen.language.edits import with_value
from cutegen.lint.rule import Accesses, Finding, Say
from cutegen.lint.trial import changed, first_that_works, first_written, written


def depth(spec: Spec, say: Say) -> None:
    """A tile is at least 2 deep along k: the next step is read while one is multiplied."""
    k = gemm.product_of(spec).k
    found = tile_of(spec.schedule, k)
    if found < LEAST_DEPTH:

        def help() -> str | None:
            return first_that_works(say.code, (in_tiler(spec, k, c) for c in (8, 16, 32, 4, 2)))

        notes = ("step k + 1 is read while step k is multiplied",)
        message = f"the tile is {found} deep along {k}, and {LEAST_DEPTH} is the least"
        say(message, "schedule", "tiler", k, notes=notes, help=help)


def shared_memory(spec: Spec, say: Say) -> None:
    """The stages of A and B together fit the shared memory that a block can have, on every target."""
    schedule, (_, _, m, n, k), (buffers, total) = spec.schedule, gemm.product_of(spec), smem_bytes(spec)

    def help() -> str | None:
        found = first_that_works(say.code, with_stages(spec, range((schedule.pipeline.stages or 2) - 1, 1, -1)))
        if found:
            return found
        smaller = [*halved_in_tiler(spec, k, tile_of(schedule, k), least=2)]
        side = 128
        while side >= 16:
            tile = {m: side, n: side, k: 8}
            fields = {f"tiler.{mode}": extent for mode, extent in tile.items()}
            smaller.append((written(f"write `tiler: {{{show_extents(tile)}}}`"), changed(spec, fields)))
            side //= 2
        return first_that_works(say.code, smaller)

    notes = (*smem_products(spec), f"{' + '.join(str(x) for x in buffers.values())} = {total}")
    pipeline.shared_memory(spec, say, total, notes, help)


def store(spec: Spec, say: Say) -> None:
    """`store` is a step of the tile along k, and something that travels through registers is stored there."""
    schedule, (a, b, *_, k) = spec.schedule, gemm.product_of(spec)
    found, depth, where = schedule.pipeline.store, tile_of(schedule, k), ("schedule", "pipeline", "store")
    if found is None:
        return
    if all(schedule.copies[x.name].atom != "universal" for x in (a, b)):
        message = f"`store: {found}` has no effect: {a.name} and {b.name} travel by cp.async, past the registers"
        help = f"remove `store`, or write `atom: universal` for {a.name} or {b.name}"
        say(message, *where, help=help)
    elif found >= depth:
        notes = (f"the steps of a tile {depth} deep are 0 to {depth - 1}",)
        say(f"stored before step {found} of {depth}", *where, notes=notes, help=f"write `store: {depth - 1}`")


def idle_stages(spec: Spec, plan: GemmPlan, _: Accesses) -> Iterator[Finding]:
    """Where k is fixed it has a tile for every stage but one: all are on their way before the first one is used."""
    if plan.k_tiles is None:
        return
    useful = max(plan.k_tiles + 1, STAGES[0])
    if plan.stages <= useful:
        return
    k, fewer = plan.k, replace(spec, schedule=with_value(spec.schedule, ("pipeline", "stages"), useful))
    yield Finding(
        f"{plan.stages} stages, and {k} has {plan.k_tiles} tile{'s' * (plan.k_tiles != 1)} to fill them",
        first_written(spec, ("schedule", "pipeline", "stages"), ("static", k)),
        (
            f"ceil({spec.static[k]} / {plan.tile[k]}) = {plan.k_tiles}, and {plan.stages} - 1 are copied ahead",
            f"a block takes {plan.smem_bytes} bytes of shared memory instead of {smem_bytes(fewer)[1]}",
        ),
        IDLE * (plan.stages - useful),
        with_stages(spec, [useful]),
    )
