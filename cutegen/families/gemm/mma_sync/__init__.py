"""Multistage gemms on the tensor cores of single warps: cp.async, ldmatrix and mma.sync, from Ampere on."""

from __future__ import annotations

from cutegen.families.gemm.mma_sync.family import MmaSyncFamily

FAMILY = MmaSyncFamily()
