"""A worker's preparation for the verification of a kernel, before the kernel is compiled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType

from cutegen.compiling.tools import toolchain
from cutegen.emulator.native.building import core_folder, is_lacking
from cutegen.hostchecks import workspaces_of
from cutegen.verification.agenda import Agenda, agenda_of
from cutegen.verification.executors import make_executor
from cutegen.verification.given import MadeAhead
from cutegen.verifying.jobs import Job
from cutegen.verifying.kernel import loaded

_SOON = 0.05  # seconds


class Prepared:
    """The module and the agenda of a job, each None until it is there, and what its first cases are given."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.module: ModuleType | None = None
        self.agenda: Agenda | None = None
        self.ahead = MadeAhead()

    def is_for(self, job: Job) -> bool:
        """Whether it is of that job: the same file, whose folder is of one build only, and as much of its cases."""
        return (job.module, job.on, job.extent) == (self._job.module, self._job.on, self._job.extent)

    def steps(self) -> Iterator[None]:
        """Prepares the job, and pauses after each part. What fails is left to the verification, which tells it."""
        with suppress(Exception):
            executor = make_executor(self._job.on)
            yield
            module = loaded(self._job.plan, self._job.module, executor)
            self.module = module if isinstance(module, ModuleType) else None
            yield
            self.agenda = agenda_of(self._job.plan, self._job.extent, executor.element_limit)
            yield
            with suppress(Exception):
                workspaces_of(self._job.plan)  # which are kept, too
            yield
            toolchain()  # which is kept, and by which what is compiled is found
            while is_lacking(core_folder()):  # its compiler has the processor that the kernel's compiler leaves
                time.sleep(_SOON)
                yield
            yield from self.ahead.make(self.agenda, executor.device)
