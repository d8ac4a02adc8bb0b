"""The verification of a kernel on the CPU, prepared while the kernel is compiled: what does not depend on its code."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from types import TracebackType

from cutegen.verification.sharing import deal
from cutegen.verifying.jobs import Job
from cutegen.verifying.setup import TIMEOUT, worker_setup
from cutegen.workers import Crew


class Ahead:
    """A worker that prepares a kernel's verification until `verify_all` has it verify the kernel.

    It is a context manager, which ends the worker. A thread starts the worker, whose imports may still be under way,
    and deals the kernel meanwhile. Where the worker cannot be started or ends before its time, nothing is prepared.
    """

    def __init__(self, job: Job, workers: int) -> None:
        """Begins to prepare a job for so many processes. Raises OSError where there are no more descriptors."""
        self.job = job
        self.crew = Crew(worker_setup("cpu", TIMEOUT))
        self._workers = workers
        self._turns: list[tuple[int, int]] | None = None
        self._beginning = threading.Thread(target=self._begin, daemon=True)
        self._beginning.start()

    def turns(self) -> list[tuple[int, int]]:
        """How the job is dealt, once its worker has it. From then on the crew is the caller's to use."""
        self._beginning.join()
        return self._turns or self._dealt()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.crew.close()
        self._beginning.join()

    def _begin(self) -> None:
        self._turns = self._dealt()
        with suppress(OSError, RuntimeError):  # no process, or the crew is closed
            for _ in self.crew.run([replace(self.job, module=self.job.module.resolve(), to_come=True)]):
                pass

    def _dealt(self) -> list[tuple[int, int]]:
        return deal([self.job.plan], self._workers, shares=True)
