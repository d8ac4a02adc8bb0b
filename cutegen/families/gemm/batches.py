"""Checks and claims for batches that the gemm families share. A batch is the first mode of the tensors that have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from math import prod

from cutegen.analysis.claim import Claim
from cutegen.expressions.tree import Compute
from cutegen.families.common.walks import Walk
from cutegen.language.context import Context
from cutegen.language.model import Tensor

MATRICES, ALONG = 2, 3  # in which a walk is tried, and tiles of theirs along the raster


def check_uncut(ctx: Context, tensors: Mapping[str, Tensor]) -> None:
    """Says that a family without a walk over segments has none (CG144)."""
    segments = next((one for tensor in tensors.values() for one in tensor.segments), None)
    if segments is not None:
        message = f"`{segments.mode}` is cut into segments, and only `wgmma` multiplies these"
        help = "write `mma: {atom: wgmma}` and `targets: [sm_90a]`"
        ctx.say("CG144", message, "modes", segments.mode, key=True, help=help)


def why_unplaced(tensors: Mapping[str, Tensor], moves: str) -> str | None:
    """Why a family that moves tensors as `moves` says is not meant for these; None where none is taken at places."""
    name = next((tensor.name for tensor in tensors.values() if tensor.at), None)
    return None if name is None else f"{moves}, and rows of {name} are taken at places"


def check_unplaced(ctx: Context, tensors: Mapping[str, Tensor], compute: Compute | None) -> None:
    """Says that a family which loads no rows at places has none (CG143), unless the places are wrong for all."""
    tensor = next((tensor for tensor in tensors.values() if tensor.at), None)
    if tensor is not None and compute is not None:
        message = f"`{tensor.name}` is taken at places, and only `mma_sync` multiplies such rows"
        help = "write `mma: {atom: mma_sync}`, or leave the atom out; or gather in an elementwise kernel before this"
        ctx.say("CG143", message, "tensors", tensor.name, "at", key=True, help=help)


def without_batch(ctx: Context, batch: str | None, names: Iterable[str] | None, field: str) -> list[str]:
    """The modes that a field of the schedule names, without that of the batch, which has no place there: it says so."""
    found = list(names or ())
    if batch in found:
        message = f"`{batch}` is the batch, and a tile has one matrix of it"
        ctx.say("CG203", message, "schedule", field, batch, key=True, help=f"leave `{batch}` out")
        found.remove(batch)
    return found


def in_matrices(output: Tensor, walk: Walk) -> Claim:
    """The claim that no tile goes beyond the matrices of a batch."""
    batch = output.shape[0]
    because = (f"a tile has {walk.tile[0]} of {batch}, along which as many are walked as there are",)
    text = f"{output.name}, {batch}: no predicate is needed"
    return Claim("bounds", text, because, walk.tile[0] == 1, ("tensors", output.name, "shape"))


def walked_once(output: Tensor, walk: Walk) -> Claim:
    """The claim that blocks take every tile once, of a batch those of every matrix, tried for every width of the last
    band.
    """
    wrong, most, batched = 0, 2 * walk.swizzle + 1, len(walk.order) > 2
    for across in range(1, most + 1):
        counts, sizes = (ALONG, across, *[MATRICES] * batched), [0] * len(walk.tile)
        for i, tiles in zip(walk.order, counts, strict=True):
            sizes[i] = tiles * walk.tile[i]
        over = walk.over(sizes)
        starts = product(*(range(0, size, extent) for size, extent in zip(sizes, walk.tile, strict=True)))
        wrong += sorted(over.block(start)[0] for start in starts) != list(range(prod(counts)))
    taken = f"every tile of every matrix of {output.shape[0]}" if batched else "every tile"
    text = f"{walk.taker.partition(' ')[0]}s take {taken} once: they have all numbers below that of tiles"
    where = f", in {MATRICES} matrices" * batched + f", in bands of {walk.swizzle}" * (walk.swizzle > 1)
    because = (f"tried of 1 to {most} tiles across the raster{where}: wrong in {wrong}",)
    return Claim("coverage", text, because, wrong == 0, ("schedule", "scheduler"))
