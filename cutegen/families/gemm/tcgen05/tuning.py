"""Candidates that tuning tries for a gemm on Blackwell's tensor cores without `tune:`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cutegen.families.gemm.tcgen05.product import ROWS, product_of
from cutegen.families.gemm.tcgen05.schedule import Spec

if TYPE_CHECKING:
    from cutegen.tuning.choice import Choice

COLUMNS = (256, 128, 64)


def axes(specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
    """The names and choices of what is combined, for resolved kernels that share their schedule."""
    product = product_of(specs[0])
    yield "tiler", [{("tiler",): {product.m: ROWS, product.n: columns}} for columns in COLUMNS]


def refinements(spec: Spec) -> Iterator[Choice]:
    """Changes of one field each, to a resolved kernel."""
    stages = spec.schedule.pipeline.stages or 1
    for other in (stages - 1, stages + 1):
        if other > 0:
            yield {("pipeline", "stages"): other}
    for raster in spec.output.shape:
        yield {("scheduler",): {"raster": raster}}
