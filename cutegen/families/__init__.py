"""Families of kernels, a folder each: whoever looks for what one of them knows finds it there.

Families do not import each other; what two of them share stands in `common`. Rooms do not import families: they ask
`cutegen.registry` for them.
"""

from __future__ import annotations

from cutegen.families import elementwise, probe, rowwise
from cutegen.families.attention import mma_sync as attention_mma_sync
from cutegen.families.attention import wgmma as attention_wgmma
from cutegen.families.gemm import fma, mma_sync, tcgen05, wgmma
from cutegen.family import AnyFamily

FAMILIES: tuple[AnyFamily, ...] = (
    elementwise.FAMILY,
    rowwise.FAMILY,
    fma.FAMILY,
    mma_sync.FAMILY,
    tcgen05.FAMILY,
    wgmma.FAMILY,
    attention_mma_sync.FAMILY,
    attention_wgmma.FAMILY,
    probe.FAMILY,
)
