"""How fast generated kernels are on a GPU, side by side with their peers, in worker processes.

`Session.measure` runs in the parent and gives a `KernelResult`; `clock.interleaved` takes the times, in the worker.
"""

from __future__ import annotations

from cutegen.measuring.model import Failure, KernelResult, Limits, Machine, Measured, Request, Timing
from cutegen.measuring.session import Session

__all__ = ["Failure", "KernelResult", "Limits", "Machine", "Measured", "Request", "Session", "Timing"]
