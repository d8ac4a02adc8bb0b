"""The family of contractions on the tensor cores of single warps: `FAMILY`."""

from __future__ import annotations

from cutegen.families.attention.mma_sync.family import AttentionFamily

FAMILY = AttentionFamily()
