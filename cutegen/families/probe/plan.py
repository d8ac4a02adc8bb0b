"""The plan of a probe: every number and choice that its template prints."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.families.common.pointwise import PointwisePlan
from cutegen.language.model import Tensor


@dataclass(frozen=True, kw_only=True)
class ProbePlan(PointwisePlan):
    """A probe: the layout, and the tile that it reads."""

    source: Tensor
    tv_layout: Layout
    tiler: tuple[int, ...]
    values: int
