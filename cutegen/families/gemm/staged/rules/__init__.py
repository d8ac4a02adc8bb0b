"""Rules that hold for all gemms whose operands travel through stages of shared memory."""

from __future__ import annotations

from cutegen.families.gemm.staged.rules import copies, machine, pipeline

__all__ = ["copies", "machine", "pipeline"]
