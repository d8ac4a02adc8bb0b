"""What a worker is given to verify, and what a worker is."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from cutegen.compiling.environment import IMPORTS, clean_environment
from cutegen.planning.plan import Plan
from cutegen.verification.agenda import UNTIL_FAILURE, Extent
from cutegen.verification.kept import Kept
from cutegen.workers import Setup, python_path, worker_command

_IMPORTS = (*IMPORTS, "cutegen.emulator.host.modules", "cutegen.verifying.kernel")
TIMEOUT = 600.0  # seconds a case or a check


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


def worker_setup(on: str, timeout: float = TIMEOUT) -> Setup:
    """Describes workers that verify, each with `timeout` seconds for a case or a check, and with `TIMEOUT` to start.

    On the CPU their environment is that of workers that compile.
    """

    def environment(folder: Path) -> dict[str, str]:
        # torch's threads wait for each other in a busy loop: on tensors of this size, beside anything else that runs,
        # they do so for several times as long as one thread needs
        given = clean_environment(os.environ, folder) if on == "cpu" else {"OMP_NUM_THREADS": "1", **os.environ}
        # The compiler leaves folders where temporary files go: there they end with the worker.
        return {**given, "PYTHONPATH": python_path(), "TMPDIR": str(folder)}

    command = worker_command("cutegen.verifying.worker")
    return Setup(command, environment, timeout, renewed=True, start_timeout=TIMEOUT, imports=_IMPORTS)
