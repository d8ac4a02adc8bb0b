"""Candidates that tuning tries for a gemm on Hopper's tensor cores without `tune:`: tiles, each with a role of its
warps, and clusters in all combinations, then the walk and the pipeline one field at a time around the best
(`refinements`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from cutegen.families.gemm.wgmma.product import COLUMNS, product_of, sources
from cutegen.families.gemm.wgmma.schedule import Spec

if TYPE_CHECKING:
    from cutegen.tuning.choice import Choice

# Tiles along m and n that keep the tensor cores busy, with the warpgroups that have them
COOPERATIVE = ((128, 256), (256, 128), (256, 192), (128, 192), (128, 128), (64, 256), (64, 128), (64, 64))
PINGPONG = ((128, 192), (128, 128), (128, 160), (64, 256), (64, 128))
FEW_ROWS = ((16, 64), (32, 64), (64, 64), (64, 128), (128, 64), (128, 128))
"""Tiles along the output's own rows and columns for few rows, where columns of the output are rows of a product."""

CLUSTERS = ((2, 1, 1), (1, 2, 1), (1, 1, 1), (2, 2, 1), (1, 1, 2))  # blocks along m, n and k
BANDS = (1, 4, 8, 16)  # tiles
STORED = (32, 64)  # columns at a time


def axes(specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
    """The names and choices of what is combined, for resolved kernels that share their schedule."""
    chosen = product_of(specs[0])
    choices: list[Choice] = []
    for roles, tiles in (("cooperative", COOPERATIVE), ("pingpong", PINGPONG)):
        for m, n in tiles:
            n = n // len(chosen.b) // COLUMNS * COLUMNS  # of each of several products
            warps: dict[str, object] = {"roles": roles}
            if roles == "cooperative":
                warps["consumers"] = min(2, m // 64)
            choices.append({("tiler",): {chosen.m: m, chosen.n: n}, ("warps",): warps})
    own = specs[0].output.shape[-2:]
    for rows, columns in FEW_ROWS:
        mode = {"atom": "wgmma", "rows": own[1]}
        choices.append(
            {("mma",): mode, ("tiler",): {own[1]: columns, own[0]: rows}, ("warps",): {"roles": "cooperative"}}
        )
    yield "tiler", choices
    yield "cluster", [{("cluster",): dict(zip(chosen.modes, blocks, strict=True))} for blocks in CLUSTERS]


def refinements(spec: Spec) -> Iterator[Choice]:
    """Changes of one field each, to a resolved kernel."""
    stages = spec.schedule.pipeline.stages or 1
    for fewer in range(max(1, stages - 2), stages):
        yield {("pipeline", "stages"): fewer}
    if spec.schedule.warps.roles == "pingpong":
        yield {("warps", "turns"): "all", ("pipeline", "stages"): stages + 1}
    for columns in STORED:
        yield {("copies", spec.output.name): {"atom": "tma", "columns": columns}}
    for tensor in sources(spec):
        if not tensor.writes:
            yield {("copies", tensor.name): {"atom": "universal"}}
    for raster, band in product(spec.output.shape[-2:], BANDS):
        yield {("scheduler",): {"raster": raster, "swizzle": band}}
