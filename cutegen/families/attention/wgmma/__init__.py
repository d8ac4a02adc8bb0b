"""The family of contractions on the tensor cores of warpgroups: `FAMILY`."""

from __future__ import annotations

from cutegen.families.attention.wgmma.family import WarpgroupAttentionFamily

FAMILY = WarpgroupAttentionFamily()
