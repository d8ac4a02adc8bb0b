"""Families of kernels, a folder each: whoever looks for what one of them knows finds it there.

Families do not import each other; what two of them share stands in `common`. Rooms do not import families: they ask
`cutegen.registry` for them.
"""

from __future__ import annotations

from cutegen.families import elementwise, gemm_multistage, gemm_warpspecialized, probe, rowwise
from cutegen.families.gemm_multistage import mma_sync
from cutegen.family import AnyFamily

FAMILIES: tuple[AnyFamily, ...] = (
    elementwise.FAMILY,
    rowwise.FAMILY,
    gemm_multistage.FAMILY,
    mma_sync.FAMILY,
    gemm_warpspecialized.FAMILY,
    probe.FAMILY,
)
