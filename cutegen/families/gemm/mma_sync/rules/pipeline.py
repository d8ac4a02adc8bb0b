"""Rules about the pipeline along k: stages, and the shared memory that they take."""

from __future__ import annotations

from cutegen.atoms.targets import TARGETS
from cutegen.families.common.rules.candidates import halved_in_tiler
from cutegen.families.gemm.mma_sync.product import (
    LEAST_STEPS,
    depth_of,
    operand_bytes,
    product_of,
    smem_bytes,
    staged_bytes,
    tile_of,
)
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.pipeline_rules import STAGES
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, first_written, written


def _with_stages(spec: Spec, count: int) -> Candidate:
    return written(f"write `stages: {count}`"), changed(spec, {"pipeline.stages": count})


def stages(spec: Spec, say: Say) -> None:
    """Between 2 and 32 stages: one tile is used while `stages` - 1 are on their way."""
    found, (least, most) = spec.schedule.pipeline.stages, STAGES
    assert found is not None
    if not least <= found <= most:
        counts = (least, 3) if found < least else range(most, least - 1, -1)
        message = f"{found} stage{'s' * (found > 1)}, and there can be {least} to {most}"
        notes = (f"one tile is used while {found - 1} are on their way",)

        def help() -> str | None:
            return first_that_works(say.code, (_with_stages(spec, c) for c in counts))

        say(message, "schedule", "pipeline", "stages", notes=notes, help=help)


def shared_memory(spec: Spec, say: Say) -> None:
    """The stages of A and B, and the tile of sums that takes their place, fit what a block can have on every target."""
    total, k = smem_bytes(spec), product_of(spec).k
    short = [t for t in spec.targets if t in TARGETS and TARGETS[t].smem_per_block < total]
    if not short:
        return
    count = spec.schedule.pipeline.stages or 2

    def help() -> str | None:
        least = LEAST_STEPS * depth_of(product_of(spec).a)
        trials: list[Candidate] = [_with_stages(spec, n) for n in range(count - 1, 1, -1)]
        trials += halved_in_tiler(spec, k, tile_of(spec.schedule, k), least=least)
        for mode in product_of(spec).sides:
            trials += halved_in_tiler(spec, mode, tile_of(spec.schedule, mode), least=16)
        return first_that_works(say.code, trials)

    limits = ", ".join(f"{t} has {TARGETS[t].smem_per_block}" for t in short)
    say(
        f"the kernel needs {total} bytes of shared memory, and {limits}",
        *first_written(spec, ("schedule", "pipeline", "stages"), ("schedule", "tiler")),
        notes=(
            *(f"{name}: {count} stages take {size}" for name, size in operand_bytes(spec).items()),
            f"the tile of sums, which takes their place: {staged_bytes(spec)}",
        ),
        help=help,
    )


def k_predicate(spec: Spec, say: Say) -> None:
    """The summed mode is guarded by `residue_first` or not at all."""
    k = product_of(spec).k
    if spec.schedule.predication[k] == "mask":
        message = f"`mask` is not known for `{k}`, which is summed over"
        say(message, "schedule", "predication", k, help="write `residue_first`")
