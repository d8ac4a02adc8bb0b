"""Jobs for workers that verify kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cutegen.planning.plan import Plan
from cutegen.verification.agenda import UNTIL_FAILURE, Extent
from cutegen.verification.kept import Kept
from cutegen.verifying.setup import TIMEOUT


@dataclass(frozen=True)
class Job:
    """One kernel to verify, as far as `extent` says: its plan and its file; `on` and `kept` are as for `make_executor`.

    So many `processes` share it, each of which has `patience` seconds for a case or a check; where one has not done it
    then, one process does all. One `to_come` is prepared only, as it is not compiled yet.
    """

    plan: Plan
    module: Path
    on: str = "gpu"
    extent: Extent = UNTIL_FAILURE
    processes: int = 1
    patience: float = TIMEOUT / 2
    kept: Kept = field(default_factory=Kept)
    to_come: bool = False
