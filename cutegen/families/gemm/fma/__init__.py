"""Gemms whose operands travel through stages of shared memory: the skeleton of CUTLASS's multistage gemm."""

from __future__ import annotations

from cutegen.families.gemm.fma.family import FmaFamily

FAMILY = FmaFamily()
