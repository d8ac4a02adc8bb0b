"""Rules over a resolved spec, each with a stable code."""

from __future__ import annotations

from cutegen.language.model import KernelSpec
from cutegen.planning.report import Report


def check(spec: KernelSpec, report: Report) -> None:
    """Report every rule that the kernel breaks."""
