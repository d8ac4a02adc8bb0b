"""Gemms of Hopper's units: loads by tensor maps, one producer warp, and warpgroups that multiply (wgmma)."""

from __future__ import annotations

from cutegen.families.gemm.wgmma.family import WgmmaFamily

FAMILY = WgmmaFamily()
