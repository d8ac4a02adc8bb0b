"""Rules about tiles: those that warps can make, and how they lie in shared memory."""

from __future__ import annotations

from functools import partial

from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.analysis.words import count
from cutegen.atoms.targets import WARP
from cutegen.families.gemm.mma_sync.product import (
    COLUMNS,
    LEAST_STEPS,
    PAIR,
    ROWS,
    contiguous,
    depth_of,
    is_plain,
    is_sound,
    warps_of,
)
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.words import MAX_EXTENT, SWIZZLES, tile_of
from cutegen.language.model import Tensor
from cutegen.layouts import format_layout
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, written
from cutegen.planning.sound import MAX_THREADS

MOST_WARPS = MAX_THREADS // WARP


def made(spec: Spec, say: Say) -> None:
    """Warps share the tile in units of 16 rows and 16 columns, and multiply 32 bytes along k, twice at least."""
    schedule, product = spec.schedule, product_of(spec)
    tiler, atoms = schedule.tiler or {}, schedule.mma.atom_layout
    for mode, extent in tiler.items():
        if extent > MAX_EXTENT:
            message = f"the tile has {extent} elements along {mode}, and no shared memory holds more than {MAX_EXTENT}"
            say(message, "schedule", "tiler", mode, help=partial(_with, spec, say, mode, (64, 32, 16)))
            return
    depth, unit = tiler.get(product.k), depth_of(product.a)
    if depth is not None and (depth % unit or depth < LEAST_STEPS * unit):
        near = max(LEAST_STEPS, -(-depth // unit)) * unit
        say(
            f"the tile is {depth} deep along {product.k}; products of {product.a.dtype.value} are {unit} deep, and a "
            f"tile has {LEAST_STEPS} of them or more",
            *("schedule", "tiler", product.k),
            notes=("the fragments of the next product are read while one is made",),
            help=lambda: _with(spec, say, product.k, (near, 4 * unit)),
        )
    if atoms is not None and not _are_warps(spec, say, atoms):
        return
    counts = (1, 1) if atoms is None else warps_of(schedule)
    for mode, rows, warps in zip(product.sides, (ROWS, PAIR), counts, strict=True):
        each, own = rows * warps, tiler.get(mode)
        if own is not None and own % each:
            near = -(-own // each) * each
            say(
                f"the tile has {own} elements along {mode}, and must have a multiple of {each}",
                *("schedule", "tiler", mode),
                notes=(f"{count(warps, 'warp')} along it, and each takes {rows} at a time",),
                help=partial(_with, spec, say, mode, (near, 128, 64)),
            )


def _are_warps(spec: Spec, say: Say, atoms: Layout) -> bool:
    """Whether a layout is one of the warps of a block; says why where it is not."""
    path = ("schedule", "mma", "atom_layout")
    shown = format_layout(atoms)
    if not is_plain(atoms):
        message = f"{shown} is not a layout of warps over M, N and K, one extent along each and 1 along K"
        say(message, *path, help=partial(_other_warps, spec, say))
    elif int(size(atoms)) > MOST_WARPS:
        message = f"{shown} has {count(int(size(atoms)), 'warp')}, and a block has {MOST_WARPS} at most"
        say(message, *path, help=partial(_other_warps, spec, say))
    elif sorted(layouts.offsets(atoms)) == list(range(int(size(atoms)))):
        return True
    return False  # what does not number its places is said of all layouts


def _other_warps(spec: Spec, say: Say) -> str | None:
    trials: list[Candidate] = [(written("leave `atom_layout` out"), changed(spec, {"mma.atom_layout": None}))]
    return first_that_works(say.code, trials)


def _shared_in_runs(spec: Spec, say: Say, tensor: Tensor, mode: str, rows: int, run: int) -> None:
    """Says where warps share a mode in steps that neither divide a row of shared memory nor are whole rows of it."""
    schedule, product = spec.schedule, product_of(spec)
    if schedule.mma.atom_layout is None or tensor.major == product.k or rows == 1:
        return
    side = product.sides.index(mode)
    warps = warps_of(schedule)[side]
    step = (ROWS, COLUMNS)[side] * warps
    if step % run and run % step:
        say(
            f"{count(warps, 'warp')} along {mode} share `{tensor.name}` in steps of {step}, and a row of its shared "
            f"memory has {run} elements",
            *("schedule", "mma", "atom_layout"),
            notes=(f"{tensor.name} is contiguous along {mode}; one must be a multiple of the other",),
            help=partial(_other_warps, spec, say),
        )


def _with(spec: Spec, say: Say, mode: str, extents: tuple[int, ...]) -> str | None:
    """The first of some extents of a tile along a mode that works, in words."""
    trials: list[Candidate] = [(written(f"write `{mode}: {x}`"), changed(spec, {f"tiler.{mode}": x})) for x in extents]
    trials.append((written("leave `atom_layout` out"), changed(spec, {"mma.atom_layout": None})))
    return first_that_works(say.code, trials)


def swizzled(spec: Spec, say: Say) -> None:
    """The tile of an operand is whole rows of its swizzle along the mode in which it is contiguous."""
    schedule, (a, b, m, n, k) = spec.schedule, product_of(spec)
    if not is_sound(spec) or any(mode not in (schedule.tiler or {}) for mode in (m, n, k)):
        return
    for tensor, mode in ((a, m), (b, n)):
        extent, own = contiguous(spec, tensor, mode)[0] * tensor.dtype.bytes, schedule.smem.get(tensor.name)
        wanted = own.swizzle if own is not None and own.swizzle else SWIZZLES[-1]
        if extent % wanted == 0:
            _shared_in_runs(spec, say, tensor, mode, extent // wanted, wanted // tensor.dtype.bytes)
            continue
        fitting = [width for width in SWIZZLES if extent % width == 0]
        message = f"the tile of `{tensor.name}` has {extent} bytes along {tensor.major}, not a multiple of {wanted}"
        if fitting:
            say(message, "schedule", "smem", tensor.name, "swizzle", help=f"write `swizzle: {fitting[0]}`")
        else:
            along, unit = (k if tensor.major == k else mode), SWIZZLES[-1] // tensor.dtype.bytes
            near = -(-tile_of(schedule, along) // unit) * unit
            help = partial(_with, spec, say, along, tuple(near + i * unit for i in range(4)))
            say(message, "schedule", "tiler", along, help=help)
