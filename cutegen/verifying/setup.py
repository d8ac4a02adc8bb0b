"""The setup of worker processes that verify kernels. This imports nothing heavy."""

from __future__ import annotations

import os
from pathlib import Path

from cutegen.compiling.environment import IMPORTS, clean_environment
from cutegen.workers import Setup, prepare, python_path, worker_command

_IMPORTS = (*IMPORTS, "cutegen.emulator.host.modules", "cutegen.verifying.kernel")
TIMEOUT = 600.0  # seconds a case or a check


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


def begin_imports() -> None:
    """Begins to import what workers need that compile, and those that verify on the CPU, in the process that both are
    forked from.
    """
    prepare(worker_setup("cpu"))
