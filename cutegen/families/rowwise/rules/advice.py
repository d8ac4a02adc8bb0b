"""Advice on the speed of row kernels: accesses to global memory, and how the kernel fills the machine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutegen.analysis import Access
from cutegen.atoms.targets import TARGETS, WARP
from cutegen.families.common.rules import global_memory, machine
from cutegen.families.common.rules.candidates import in_tiler
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rules.accesses import BITS
from cutegen.families.rowwise.schedule import Spec
from cutegen.language.kinds import Path
from cutegen.lint.rule import Accesses, Candidate, Finding
from cutegen.lint.trial import changed, first_written, is_written, written

STREAMING = 0.5  # of an SM's warps, for a kernel that waits for memory
_THREADS: Path = ("schedule", "threads_per_row")


def uncoalesced(spec: Spec, plan: RowwisePlan, made: Accesses) -> Iterator[Finding]:
    """A warp's instruction touches no more sectors of global memory than its bytes fill."""
    return global_memory.uncoalesced(spec, made, lambda _: _other_threads(spec, plan))


def _other_threads(spec: Spec, plan: RowwisePlan) -> Iterator[Candidate]:
    for threads in (WARP, 16, 8, 64):
        if threads != plan.threads_per_row:
            yield written(f"write `threads_per_row: {threads}`"), changed(spec, {"threads_per_row": threads})


def narrow(spec: Spec, plan: RowwisePlan, made: Accesses) -> Iterator[Finding]:
    """An access is as wide as the alignment and 128 bits allow."""

    def place(access: Access, asked: bool) -> Path:
        return first_written(spec, BITS, ("schedule", "tiler", plan.row), ("tensors", access.tensor))

    return global_memory.narrow(spec, made, partial(_wider, spec), lambda _: True, place)


def _wider(spec: Spec, access: Access) -> Iterator[Candidate]:
    for bits in (128, 64, 32, 16):
        text = f"write `bits: {bits}`" if is_written(spec, *BITS) else f"write `copy: {{bits: {bits}}}`"
        yield written(text), changed(spec, {"copy.bits": bits})


def unfilled_tiles(spec: Spec, plan: RowwisePlan, _: Accesses) -> Iterator[Finding]:
    """Sizes that are fixed fill their tiles."""
    return machine.unfilled_tiles(spec, plan, partial(_smaller_tiles, spec, plan), _THREADS)


def _smaller_tiles(spec: Spec, plan: RowwisePlan, mode: str) -> Iterator[Candidate]:
    extent, unit = plan.tile[mode], plan.threads_per_row * plan.vector if mode == plan.row else 1
    while (extent := extent // 2) >= unit:
        yield in_tiler(spec, mode, extent)
    if mode == plan.row and plan.threads_per_row > 1:
        fewer = plan.threads_per_row // 2
        yield written(f"write `threads_per_row: {fewer}`"), changed(spec, {"threads_per_row": fewer})


def low_occupancy(spec: Spec, plan: RowwisePlan, _: Accesses) -> Iterator[Finding]:
    """An SM holds enough warps to hide what they wait for: half of what it can, to stream memory."""

    def wanted(target: str) -> int:
        return int(STREAMING * TARGETS[target].threads_per_sm) // WARP

    places: tuple[Path, ...] = (_THREADS, ("schedule", "tiler"))
    return machine.low_occupancy(spec, plan, wanted, lambda _: places, _larger_blocks(spec, plan))


def _larger_blocks(spec: Spec, plan: RowwisePlan) -> Iterator[Candidate]:
    for threads in (128, 256, 64):
        if plan.beside is not None and threads % plan.threads_per_row == 0:
            yield in_tiler(spec, plan.beside, threads // plan.threads_per_row)


def needless_predicate(spec: Spec, plan: RowwisePlan, _: Accesses) -> Iterator[Finding]:
    """Coordinates are compared with a size only where a tile may reach beyond it."""
    needed = plan.beside if plan.fewer_threads else None  # along which a block has several short rows
    return machine.needless_predicate(spec, plan, spec.schedule.predication, needed)


def small_grid(spec: Spec, plan: RowwisePlan, _: Accesses) -> Iterator[Finding]:
    """Where all sizes are fixed, every SM of the chip has a block."""
    return machine.small_grid(spec, plan, _smaller_blocks(spec, plan), _THREADS)


def _smaller_blocks(spec: Spec, plan: RowwisePlan) -> Iterator[Candidate]:
    if plan.beside is not None and plan.rows > 1:
        yield in_tiler(spec, plan.beside, plan.rows // 2)
