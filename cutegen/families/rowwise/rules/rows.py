"""Rules about a row: how it lies in memory, and whether its threads hold it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cutegen.analysis.words import count
from cutegen.atoms.targets import TARGETS
from cutegen.families.common.rules.candidates import in_tiler
from cutegen.families.rowwise.planning import smem_bytes
from cutegen.families.rowwise.rows import (
    BULK,
    along,
    beside,
    cluster_of,
    has_bulk_copies,
    kept_in_smem,
    longest,
    program,
    row_of,
    stages_of,
    vector_of,
    whole_tensors,
)
from cutegen.families.rowwise.schedule import Spec
from cutegen.language.kinds import Path
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, first_written, written
from cutegen.views.cuts import argument_of

_KEEP = ("schedule", "keep")


def contiguous(spec: Spec, say: Say) -> None:
    """A row's elements are neighbours in memory."""
    row = row_of(spec)
    for tensor in along(spec):
        if tensor.major not in (None, row):
            help = f"write `major: {row}`, or transpose the tensor in a kernel before this one"
            if tensor.view is not None:
                help = f"give `{argument_of(tensor)}` the `major` along which `{tensor.name}` has {row}"
            say(
                f"{tensor.name} is contiguous along {tensor.major}, and rows lie along {row}",
                *("tensors", tensor.name, "major"),
                notes=(f"a thread reads neighbours along {row}, the reduced mode",),
                help=help,
            )


def held(spec: Spec, say: Say) -> None:
    """A row that is kept in registers fits the tile; of several lengths the shortest that has elements."""
    row, tiler = row_of(spec), spec.schedule.tiler or {}
    least = 0 if spec.schedule.longer == "reload" else spec.divisible.get(row, 1)
    size = spec.static.get(row, least)
    blocks = cluster_of(spec)
    if spec.schedule.keep != "registers" or size <= (held := tiler[row] * blocks):
        return
    message = f"a row has {size} elements{'' if row in spec.static else ' or more'}, and its threads hold {held}"
    again = (written("write `keep: reload`"), changed(spec, {"keep": "reload"}))
    whole = (written(f"leave `{row}` out of the tiler"), changed(spec, {f"tiler.{row}": None}))
    help = partial(first_that_works, say.code, [again, whole])
    note = f"{size} > {held}" if blocks == 1 else f"{size} > {held} = {blocks} * {tiler[row]}"
    say(message, *first_written(spec, ("schedule", "tiler", row), _KEEP), notes=(note,), help=help)


def in_shared_memory(spec: Spec, say: Say) -> None:
    """Rows that wait in shared memory are of one size, or bounded, each has its thread blocks to itself, and bulk
    copies, which all targets have, bring what is read of them to a block that has room for it.
    """
    if spec.schedule.keep != "smem":
        return
    if (first := next(_unkept(spec), None)) is not None:
        message, notes, path, candidates = first
        again = (written("write `keep: reload`"), changed(spec, {"keep": "reload"}))
        say(message, *path, notes=notes, help=partial(first_that_works, say.code, [*candidates, again]))


def _unkept(spec: Spec) -> Iterator[tuple[str, tuple[str, ...], Path, list[Candidate]]]:
    """Why rows cannot wait in shared memory: in words, with numbers, where it is written, and what would work."""
    schedule, row, mode = spec.schedule, row_of(spec), beside(spec)
    if (size := longest(spec)) is None:
        note = f'`static` fixes {row}, and a case of the schedule bounds it: `for: {{{row}: "<= 65536"}}`'
        yield f"shared memory has a fixed size, and {row} may have any length", (note,), _KEEP, []
        return
    if mode is not None and (several := (schedule.tiler or {})[mode]) > 1:
        message = f"a block keeps one row in shared memory, and the tiler has {several} of {mode}"
        yield message, (), ("schedule", "tiler", mode), [in_tiler(spec, mode, 1)]
    old = next((target for target in spec.targets if not has_bulk_copies(target)), None)
    if old is not None:
        able = [target for target in spec.targets if has_bulk_copies(target)] or ["sm_90a"]
        newer = (written(f"write `targets: [{', '.join(able)}]`"), replace(spec, targets=tuple(able)))
        message = f"rows go to shared memory by bulk copies, and {old} has none"
        path = first_written(spec, ("targets", spec.targets.index(old)), _KEEP)
        yield message, ("cp.async.bulk came with sm_90",), path, [newer]
    if not kept_in_smem(spec):
        bits = vector_of(spec) * max(t.dtype.bits for t in whole_tensors(spec) if t.reads)
        wide = (written("write `bits: 128`"), changed(spec, {"copy.bits": 128}))
        message = f"bulk copies move multiples of {BULK} bytes, and accesses to inputs have {bits} bits"
        yield message, (), first_written(spec, ("schedule", "copy", "bits"), _KEEP), [wide]
        return
    needed, blocks = smem_bytes(spec), cluster_of(spec)
    small = [target for target in spec.targets if TARGETS[target].smem_per_block < needed]
    if small:
        most = min(TARGETS[target].cluster for target in spec.targets)
        more = [2**i for i in range(1, 5) if blocks < 2**i <= most]
        shared = [
            (written(f"write `cluster: {{{row}: {count}}}`"), changed(spec, {f"cluster.{row}": count}))
            for count in more
        ]
        rows = f", {stages_of(spec)} rows at a time" if stages_of(spec) > 1 else ""
        notes = (f"{size} elements of {' and '.join(t.name for t in kept_in_smem(spec))}, {blocks} to share{rows}",)
        limits = ", ".join(f"{target} has {TARGETS[target].smem_per_block}" for target in small)
        message = f"the kernel needs {needed} bytes of shared memory, and {limits}"
        yield message, notes, first_written(spec, ("schedule", "cluster", row), _KEEP), shared


def one_size(spec: Spec, say: Say) -> None:
    """A row that is loaded whole without a predicate has the size of the tile, which must be known: it is never 0."""
    row, schedule = row_of(spec), spec.schedule
    if schedule.keep != "registers" or row in spec.static or schedule.predication.get(row) != "none":
        return
    extent = (schedule.tiler or {})[row] * cluster_of(spec)
    mask = (written(f"write `{row}: mask`"), changed(spec, {f"predication.{row}": "mask"}))
    say(
        f"without a predicate every row has the tile's {extent} elements, and {row} is not fixed",
        *("schedule", "predication", row),
        notes=("0 is a multiple of any tile, and rows of length 0 have nothing to load",),
        help=first_that_works(say.code, [mask]) or f"write `{row}: {extent}` under `static`",
    )


def whole_accesses(spec: Spec, say: Say) -> None:
    """The tile of a row is a whole number of accesses of each of its threads."""
    row, threads, vector = row_of(spec), spec.schedule.threads_per_row or 1, vector_of(spec)
    extent = (spec.schedule.tiler or {})[row]
    unit = threads * vector
    if extent % unit == 0:
        return
    say(
        f"{count(threads, 'thread')} with accesses of {vector} do not divide the tiler's {extent} of {row}",
        *first_written(spec, ("schedule", "tiler", row), ("schedule", "threads_per_row")),
        notes=(f"{threads} * {vector} = {unit}", f"{extent} = {extent // unit} * {unit} + {extent % unit}"),
        help=partial(first_that_works, say.code, [in_tiler(spec, row, -(-extent // unit) * unit)]),
    )


def ahead(spec: Spec, say: Say) -> None:
    """The next rows are loaded by blocks that have some, to registers or shared memory, which hold whole rows."""
    schedule, path = spec.schedule, ("schedule", "pipeline", "stages")
    stages = schedule.pipeline.stages
    if stages is None or stages == 1:
        return
    if stages != 2:
        notes = ("one tile of rows is in use while one is loaded",)
        say(
            f"a block has room for 1 or 2 tiles of rows, not {stages}",
            *path,
            notes=notes,
            help="write `stages: 2`",
        )
    elif schedule.scheduler.kind != "persistent":
        walking = (
            written("write `kind: persistent` in the scheduler"),
            changed(spec, {"scheduler.kind": "persistent"}),
        )
        help = partial(first_that_works, say.code, [] if spec.taken else [walking])
        say("a block has one tile of rows, and none to load ahead", *path, help=help)
    elif schedule.keep == "reload":
        message = "a row that is walked in pieces and read again is not loaded ahead"
        say(message, *path, help="write `stages: 1`, or leave it out")


def summed(spec: Spec, say: Say) -> None:
    """Outputs that are reduced over the rows are summed by blocks that walk the rows (`kind: persistent`)."""
    columns = program(spec).columns
    if spec.schedule.scheduler.kind == "persistent" or not columns:
        return
    say(
        f"{columns[0].tensor} is reduced over the rows, and each block has only some rows",
        *("schedule", "scheduler", "kind"),
        notes=("each block sums its rows; the partial sums are added in a fixed order",),
        help="write `kind: persistent`, or leave it out",
    )
