"""Gemms on Blackwell's tensor cores, whose sums stand in tensor memory (tcgen05)."""

from __future__ import annotations

from cutegen.families.gemm.tcgen05.family import Tcgen05Family

FAMILY = Tcgen05Family()
