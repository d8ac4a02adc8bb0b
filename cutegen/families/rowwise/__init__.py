"""Row kernels: a row of the tensors is reduced by its own threads, and what comes of it is used along the row."""

from __future__ import annotations

from cutegen.families.rowwise.family import RowwiseFamily

FAMILY = RowwiseFamily()
