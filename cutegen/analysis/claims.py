"""Proofs of a plan for every size that it takes: each element is covered exactly once, and no access is out of bounds.

No claim relies on how the plan was made: each is checked by enumerating the layouts that the kernel is printed with.
The plan is proved, not the printed text. The family says what is claimed; this module does the counting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.analysis.asked import family_of
from cutegen.analysis.claim import Claim
from cutegen.analysis.words import count
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan
from cutegen.planning.promises import known_divisor


def claims(plan: Plan) -> tuple[Claim, ...]:
    """Returns the family's claims about a plan: coverage first, then the bounds of every mode, then the order of warps.

    A kernel that runs in several ways has claims about each way; their text names every way but the first.
    """
    return tuple(claim for kernel in plan.kernels for claim in _of_kernel(kernel))


def _of_kernel(plan: Plan) -> Iterator[Claim]:
    for number, way in enumerate(plan.ways):
        said = ": ".join([*([plan.case] if plan.case else []), *([way.way] if number else [])])
        for claim in family_of(way.spec).claims(way):
            yield replace(claim, text=f"{said}: {claim.text}") if said else claim


def compact(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tile whose elements are numbered 0, 1, ..., first mode fastest."""
    return tuple(prod(shape[:i]) for i in range(len(shape)))


def sides_text(shape: Sequence[int]) -> str:
    """The sides of a tile as text, such as `32 x 8`."""
    return " x ".join(map(str, shape))


def covered_once(
    what: str, layout: Layout, shape: Sequence[int], path: Path, threads: int, wrong: Iterable[str] = ()
) -> Claim:
    """The claim that (thread, value) meets each element of a tile of that shape exactly once, for `threads` threads.

    `wrong` is what else does not fit, in words.
    """
    counted, values = layouts.mode_sizes(layout)
    elements = prod(shape)
    missing, twice = layouts.coverage(layout, elements)
    dealt = f"{count(counted, 'thread')} * {count(values, 'value')} = {counted * values}"
    because = [f"{dealt}, and {sides_text(shape)} = {elements}"]
    found = [] if counted == threads else [f"{count(threads, 'thread')} run{'s' * (threads == 1)}"]
    for label, places in (("never met", missing), ("met twice or outside", twice)):
        if places:
            found.append(f"{label}: {', '.join(str(layouts.coordinates(p, shape)) for p in places)}")
    found += wrong
    return Claim("coverage", what, (*because, *found), not found, path)


def are_runs(layout: Layout, shape: Sequence[int], axis: int, vector: int) -> bool:
    """Whether every access of `vector` values is a run along `axis` that starts at a multiple of `vector`."""
    if vector == 1:
        return True
    step = compact(shape)[axis]
    threads, values = (layouts.offsets(mode) for mode in layouts.modes_of(layout))
    if len(values) % vector:
        return False
    starts = values[::vector]
    if any(values[i * vector + j] != start + j * step for i, start in enumerate(starts) for j in range(vector)):
        return False
    return all(layouts.coordinates(t + v, shape)[axis] % vector == 0 for t in threads for v in starts)


def mode_in_bounds(
    spec: KernelSpec, name: str, mode: str, tile: int, masked: bool, vector: int, runs: bool, padded: int | None = None
) -> Claim:
    """The claim that accesses of `vector` elements along a mode stay in bounds, given that they are aligned `runs`.

    `padded` is what the rows of a workspace are padded to, where a workspace is what is accessed.
    """
    known, path = known_divisor(spec, mode), ("schedule", "predication", mode)
    strange = () if runs else ("not every access is an aligned run along one mode, behind one predicate",)
    if not masked:
        because = (f"the host takes multiples of {known} only, and the tile has {tile}", *strange)
        return Claim("bounds", f"{name}{mode}: no predicate is needed", because, runs and known % tile == 0, path)
    if vector == 1:
        text = f"{name}{mode}: an access is made only if its coordinate is below {mode}"
        return Claim("bounds", text, ("one element along it at a time", *strange), runs, path)
    size = mode
    if padded is not None:
        known, size = padded, f"{mode} of the workspace"
    text = f"{name}{mode}: an access of {vector} is made only if its first coordinate is below {size}"
    because = (
        f"tiles of {tile} and accesses both start at multiples of {vector}",
        f"{size} is a multiple of {known}, so that it never ends inside an access",
        *strange,
    )
    return Claim("bounds", text, because, runs and tile % vector == 0 and known % vector == 0, path)
