"""Advice on how a kernel fills the machine: tiles, occupancy, predicates and the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from cutegen.analysis.occupancy import Occupancy, occupancy
from cutegen.analysis.roofline import blocks_of
from cutegen.atoms.gpus import GPUS
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec
from cutegen.lint.rule import Candidate, Finding
from cutegen.lint.trial import changed, first_written, written
from cutegen.planning.plan import Plan
from cutegen.planning.promises import known_divisor

WASTE = 0.25  # of what the tiles cover, from which on it is worth a word
IDLE = 0.1  # excess of what only takes room or instructions


def unfilled_tiles(
    spec: KernelSpec, plan: Plan, smaller: Callable[[str], Iterable[Candidate]], *places: Path
) -> Iterator[Finding]:
    """Sizes that are fixed fill their tiles. `smaller` has smaller tiles along a mode, the nearest first; a tile's
    extent is decided at `tiler`, else at the `places`."""
    lost = {
        mode: 1 - spec.static[mode] / (-(-spec.static[mode] // plan.tile[mode]) * plan.tile[mode])
        for mode in spec.lead.shape
        if mode in spec.static and mode in plan.tile
    }
    for mode, share in lost.items():
        if share <= WASTE:
            continue
        size, tile = spec.static[mode], plan.tile[mode]
        tiles = -(-size // tile)
        yield Finding(
            f"{share:.0%} of the tiles' extent lies beyond {mode} = {size}; a tile has {tile}",
            first_written(spec, ("schedule", "tiler", mode), *places, ("static", mode)),
            (f"ceil({size} / {tile}) * {tile} = {tiles * tile}, of which {size} are used",),
            1 / (1 - share) - 1,
            smaller(mode),
        )


def low_occupancy(
    spec: KernelSpec,
    plan: Plan,
    wanted: Callable[[str], int],
    places: Callable[[Occupancy], Iterable[Path]],
    smaller: Iterable[Candidate],
) -> Iterator[Finding]:
    """An SM holds enough warps to hide what they wait for.

    `wanted` says how many those are on a target, `places` what decides on the occupancy that is found, and `smaller`
    has the same kernel with other blocks.
    """
    found = [occupancy(target, plan.threads, plan.smem_bytes) for target in spec.targets]
    few = [o for o in found if o.warps < wanted(o.target)]
    if not few:
        return
    worst = min(few, key=lambda o: o.warps / wanted(o.target))
    notes = [
        f"{o.target}: {o.text}; blocks by {', '.join(f'{name}: {blocks}' for name, blocks in o.limits.items())}"
        for o in few
    ]
    yield Finding(
        f"an SM of {worst.target} holds {worst.warps} warps; {wanted(worst.target)} are needed to hide latency",
        first_written(spec, *places(worst), ("op",)),
        tuple(notes),
        wanted(worst.target) / max(worst.warps, 1) - 1,
        smaller,
    )


def needless_predicate(
    spec: KernelSpec, plan: Plan, predication: Mapping[str, str], needed: str | None = None
) -> Iterator[Finding]:
    """Coordinates are compared with a size only where a tile may reach beyond it. `predication` is the schedule's;
    that of the mode `needed` also guards something else."""
    for mode, kind in predication.items():
        known = known_divisor(spec, mode)
        if kind == "none" or known % plan.tile[mode] or mode == needed:
            continue
        of = "" if mode in spec.static else "a multiple of "
        without = {**{m: p for m, p in predication.items() if m != mode}, mode: "none"}
        yield Finding(
            f"`{kind}` guards {mode}, whose tiles are always whole",
            ("schedule", "predication", mode),
            (f"{mode} is {of}{known} = {known // plan.tile[mode]} * {plan.tile[mode]}",),
            IDLE,
            ((written(f"write `{mode}: none`, or leave it out"), changed(spec, {"predication": without})),),
        )


def small_grid(spec: KernelSpec, plan: Plan, smaller: Iterable[Candidate], *places: Path) -> Iterator[Finding]:
    """Where all sizes are fixed, every SM of the chip has a block. `smaller` has smaller tiles; their extents are
    decided at `tiler`, else at the `places`."""
    if not all(mode in spec.static for mode in spec.lead.shape):
        return
    blocks = blocks_of(plan, spec.static)
    idle = [target for target in spec.targets if blocks < GPUS[target].sms]
    if not idle:
        return
    sizes = ", ".join(f"{mode} = {spec.static[mode]}" for mode in spec.lead.shape)
    notes = [f"ceil({spec.static[m]} / {plan.tile[m]}) tiles along {m}" for m in spec.lead.shape if m in plan.tile]
    notes += [f"{GPUS[t].name} ({t}) has {GPUS[t].sms} SMs; {GPUS[t].sms - blocks} stay idle" for t in idle]
    yield Finding(
        f"a grid of {blocks} block{'s' * (blocks != 1)} for {sizes} is smaller than the GPU",
        first_written(spec, ("schedule", "tiler"), *places, ("static", spec.lead.shape[0])),
        tuple(notes),
        max(1 - blocks / GPUS[t].sms for t in idle),
        smaller,
    )
