"""Rules about the pipeline along k: stages and the shared memory that they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cutegen.atoms.targets import TARGETS
from cutegen.families.gemm.staged.product import product_of
from cutegen.language.model import KernelSpec
from cutegen.lint.rule import Candidate, Help, Say
from cutegen.lint.trial import changed, first_that_works, first_written, written

STAGES = (2, 32)
Spec = KernelSpec[Any]


def with_stages(spec: Spec, counts: Sequence[int]) -> Iterator[Candidate]:
    """Changed kernels with so many stages each."""
    for count in counts:
        yield written(f"write `stages: {count}`"), changed(spec, {"pipeline.stages": count})


def stages(spec: Spec, say: Say) -> None:
    """Between 2 and 32 stages: one tile is used while `stages` - 1 are on their way."""
    found, (least, most) = spec.schedule.pipeline.stages, STAGES
    if not least <= found <= most:
        counts = (least, 3) if found < least else range(most, least - 1, -1)  # the most that fit, as CG254 says too
        message = f"{found} stage{'s' * (found > 1)}, and there can be {least} to {most}"
        notes = (f"one tile is used while {found - 1} are in flight",)
        help = lambda: first_that_works(say.code, with_stages(spec, counts))  # noqa: E731
        say(message, "schedule", "pipeline", "stages", notes=notes, help=help)


def shared_memory(spec: Spec, say: Say, total: int, notes: tuple[str, ...], help: Help) -> None:
    """A block's `total` bytes of shared memory must be available on every target; `notes` say what takes them."""
    short = [t for t in spec.targets if t in TARGETS and TARGETS[t].smem_per_block < total]
    if short:
        limits = ", ".join(f"{t} has {TARGETS[t].smem_per_block}" for t in short)
        message = f"the kernel needs {total} bytes of shared memory, and {limits}"
        where = first_written(spec, ("schedule", "pipeline", "stages"), ("schedule", "tiler"))
        say(message, *where, notes=notes, help=help)


def k_predicate(spec: Spec, say: Say) -> None:
    """The summed mode is guarded by `residue_first` or not at all."""
    k = product_of(spec).k
    if spec.schedule.predication[k] == "mask":
        message = f"`mask` does not apply to `{k}`, which is summed over"
        say(message, "schedule", "predication", k, help="write `residue_first`")
