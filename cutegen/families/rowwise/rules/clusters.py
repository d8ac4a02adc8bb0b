"""Rules about the thread blocks that share a row."""

from __future__ import annotations

from functools import partial

from cutegen.analysis.words import count
from cutegen.atoms.targets import TARGETS, WARP
from cutegen.families.rowwise.rows import MAX_CLUSTER, cluster_of, program, row_of
from cutegen.families.rowwise.schedule import Spec
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, first_written, written

_CLUSTER = ("schedule", "cluster")


def size(spec: Spec, say: Say) -> None:
    """The blocks of a cluster are a power of two, of the largest clusters at most."""
    blocks, row = cluster_of(spec), row_of(spec)
    if blocks & (blocks - 1) == 0 and blocks <= MAX_CLUSTER:
        return
    below = min(MAX_CLUSTER, 1 << (blocks.bit_length() - 1))
    why = f"{blocks} is not a power of two" if blocks <= MAX_CLUSTER else f"{MAX_CLUSTER} are the most that a GPU has"
    message = f"a cluster of {blocks} thread blocks shares a row: {why}"
    notes = ("the results of all warps are reduced in pairs",)
    say(message, *_CLUSTER, row, notes=notes, help=f"write `cluster: {{{row}: {below}}}`")


def possible(spec: Spec, say: Say) -> None:
    """The targets have clusters as large, whole warps share a row that is longer than what one block has, and
    persistent blocks make whole clusters.
    """
    blocks, row = cluster_of(spec), row_of(spec)
    if blocks == 1:
        return
    scans = program(spec).scans
    if scans:
        message = f"{blocks} thread blocks share a row, and `{scans[0].function}` goes along it from its start"
        notes = ("the blocks of a cluster have pieces of a row in turns, and carry nothing to each other",)
        say(message, *_CLUSTER, row, notes=notes, help="leave `cluster` out: one block walks a long row in pieces")
    small = [target for target in spec.targets if TARGETS[target].cluster < blocks]
    if small:
        most = TARGETS[small[0]].cluster
        able = [target for target in spec.targets if target not in small]
        has = "no clusters" if most == 1 else f"clusters of {count(most, 'thread block')} at most"
        help = f"write `targets: [{', '.join(able or ['sm_90a'])}]`"
        message = f"{small[0]} has {has}, and {blocks} share a row"
        path = first_written(spec, ("targets", spec.targets.index(small[0])), (*_CLUSTER, row))
        say(message, *path, notes=("clusters came with sm_90",) if most == 1 else (), help=help)
    threads = spec.schedule.threads_per_row or 1
    if threads < WARP:
        more = (written(f"write `threads_per_row: {WARP}`"), changed(spec, {"threads_per_row": WARP}))
        message = f"{count(threads, 'thread')} of each block share a row; blocks exchange the results of whole warps"
        path = first_written(spec, ("schedule", "threads_per_row"), (*_CLUSTER, row))
        say(message, *path, help=partial(first_that_works, say.code, [more]))
    length, share = spec.static.get(row), (spec.schedule.tiler or {})[row]
    if spec.schedule.keep == "registers" and length is not None and length <= share:
        message = f"{blocks} thread blocks share a row of {length}; one block has {share}"
        help = f"write `cluster: {{{row}: 1}}`, or leave it out"
        say(message, *_CLUSTER, row, notes=("the others would have no element",), help=help)
    walkers = spec.schedule.scheduler.blocks
    if walkers is not None and walkers % blocks:
        near = max(1, walkers // blocks) * blocks
        message = f"{walkers} blocks are not a multiple of the cluster's {blocks}"
        say(message, "schedule", "scheduler", "blocks", help=f"write `blocks: {near}`")
