"""Elementwise kernels: every thread or block has a tile of the outputs, by one of three partitions."""

from __future__ import annotations

from cutegen.families.elementwise.family import ElementwiseFamily

FAMILY = ElementwiseFamily()
