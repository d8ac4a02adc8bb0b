"""The rule about what stages and sums take of shared memory."""

from __future__ import annotations

from cutegen.families.common.rules.candidates import halved_in_tiler
from cutegen.families.gemm.mma_sync.product import LEAST_STEPS, depth_of, operand_bytes, smem_bytes, staged_bytes
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.staged.rules import pipeline
from cutegen.families.gemm.words import tile_of
from cutegen.lint.rule import Say
from cutegen.lint.trial import first_that_works


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
        f"the tile of sums, which takes their place: {staged_bytes(spec)}",
    )
    pipeline.shared_memory(spec, say, smem_bytes(spec), notes, help)
