"""Runs generated kernels on shapes chosen to break them and judges every element against a float64 reference.

`derive_cases` plans, and `runner.verify_case` runs a case on an `Executor`. `cutegen.verifying` has kernels verified.
"""

from __future__ import annotations

from cutegen.verification.agenda import EVERYTHING, UNTIL_FAILURE, Extent
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import CannotRun, Executor
from cutegen.verification.gpu import GpuExecutor, gpu_available, gpu_missing
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, as_json, from_json

__all__ = [
    "EVERYTHING",
    "UNTIL_FAILURE",
    "CannotRun",
    "Case",
    "CaseReport",
    "Executor",
    "Extent",
    "GpuExecutor",
    "HostCheck",
    "KernelReport",
    "as_json",
    "derive_cases",
    "from_json",
    "gpu_available",
    "gpu_missing",
]
