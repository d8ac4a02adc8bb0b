"""Probes: one thread block that reads a tile by a thread-value layout, and writes what each thread read."""

from __future__ import annotations

from cutegen.families.probe.family import ProbeFamily

FAMILY = ProbeFamily()
