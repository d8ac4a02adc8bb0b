"""Rules about tiles: those that a product can make, and how they lie in shared memory."""

from __future__ import annotations

from functools import partial

from cutegen.analysis.words import count
from cutegen.atoms.targets import TARGETS
from cutegen.families.gemm.tcgen05 import allocation
from cutegen.families.gemm.tcgen05.product import (
    ROWS,
    UNIT,
    contiguous_bytes,
    is_sound,
    most_columns,
    product_of,
)
from cutegen.families.gemm.tcgen05.schedule import Spec
from cutegen.families.gemm.words import MAX_EXTENT, SWIZZLES, tile_of
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, written


def made(spec: Spec, say: Say) -> None:
    """A product has 128 rows, 16 to 256 columns in steps of 16, and 32 bytes of depth; operands are whole swizzles."""
    product, tiler = product_of(spec), spec.schedule.tiler or {}
    m, n, k = (tiler.get(mode) for mode in product.modes)
    if m is not None and m != ROWS:
        message = f"the tile has {m} rows, and a product of one block {ROWS} here: one for each lane of tensor memory"
        say(message, "schedule", "tiler", product.m, help=partial(_with, spec, say, product.m, (ROWS,)))
    most, several = most_columns(spec), len(product.b)
    if n is not None and (n % UNIT or not 0 < n <= most):
        near, whose = min(most, max(UNIT, -(-n // UNIT) * UNIT)), f" of each of {several} products" * (several > 1)
        message = f"the tile has {n} columns{whose}, and a product a multiple of {UNIT} from {UNIT} to {most}"
        say(message, "schedule", "tiler", product.n, help=partial(_with, spec, say, product.n, (near, 128)))
    if k is not None and (k % product.depth or not 0 < k <= MAX_EXTENT):
        near = min(MAX_EXTENT, max(product.depth, -(-k // product.depth) * product.depth))
        message = f"the tile is {k} deep along {product.k}, and a product of {product.a.dtype.value} is {product.depth}"
        say(message, "schedule", "tiler", product.k, help=partial(_with, spec, say, product.k, (near, 64, 32)))
    if is_sound(spec) and None not in (m, n, k):
        _swizzled(spec, say)


def _swizzled(spec: Spec, say: Say) -> None:
    """The tile of an operand is whole swizzles along the mode in which it is contiguous."""
    schedule, k = spec.schedule, product_of(spec).k
    for tensor, mode in product_of(spec).sides:
        extent, own = contiguous_bytes(spec, tensor, mode), schedule.smem.get(tensor.name)
        wanted = own.swizzle if own is not None and own.swizzle else SWIZZLES[-1]
        if extent % wanted == 0:
            continue
        along, fitting = k if tensor.major == k else mode, [width for width in SWIZZLES if extent % width == 0]
        message = f"the tile of `{tensor.name}` has {extent} bytes along {along}, not a multiple of {wanted}"
        if fitting:
            say(message, "schedule", "smem", tensor.name, "swizzle", help=f"write `swizzle: {fitting[0]}`")
        else:
            say(message, "schedule", "tiler", along, help=partial(_with, spec, say, along, (32, 64, 128)))


def _with(spec: Spec, say: Say, mode: str, extents: tuple[int, ...]) -> str | None:
    """The first of some extents of a tile along a mode that works, in words."""
    trials = ((written(f"write `{mode}: {x}`"), changed(spec, {f"tiler.{mode}": x})) for x in extents)
    return first_that_works(say.code, trials)


def shared_memory(spec: Spec, say: Say) -> None:
    """The stages of A and B together fit the shared memory that a block can have."""
    total, stages = allocation.smem_bytes(spec), spec.schedule.pipeline.stages or 1
    short = [t for t in spec.targets if t in TARGETS and TARGETS[t].smem_per_block < total]
    if not short:
        return
    product = product_of(spec)

    def help() -> str | None:
        fewer = range(stages - 1, 0, -1)
        trials = [(written(f"write `stages: {n}`"), changed(spec, {"pipeline.stages": n})) for n in fewer]
        depths = (d for d in (128, 64, 32) if d < tile_of(spec.schedule, product.k))
        trials += [
            (written(f"write `{product.k}: {d}` in the tiler"), changed(spec, {f"tiler.{product.k}": d}))
            for d in depths
        ]
        return first_that_works(say.code, trials)

    room = ", ".join(f"{t} has {TARGETS[t].smem_per_block}" for t in short)
    takes = f"{count(stages, 'stage')} take{'s' * (stages == 1)} {total} bytes of shared memory"
    say(f"{takes}, and a block of {room}", "schedule", "pipeline", "stages", help=help)
