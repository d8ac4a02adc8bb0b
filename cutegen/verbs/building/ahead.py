"""The part of a verification that a build does while it compiles, if a processor would be idle then."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from types import TracebackType

from cutegen.project.sources import Unit
from cutegen.verbs.building import verification
from cutegen.verification import Extent
from cutegen.verifying.ahead import Ahead
from cutegen.verifying.jobs import Job
from cutegen.workers import processors


class Meanwhile:
    """Prepares the verification of a build's only kernel on the CPU emulator, from the moment of the request.

    It is a context manager, which ends the preparation. `jobs` is how many processes there are at most, None one a
    processor.
    """

    def __init__(self, units: Sequence[Unit], jobs: int | None, extent: Extent) -> None:
        self._units, self._workers, self._extent = units, jobs or processors(), extent
        self._open = ExitStack()
        self.ahead: Ahead | None = None

    def begin(self, compiling: int) -> None:
        """Begins beside so many compiles, if they leave a process for it."""
        if len(self._units) == 1 and compiling < self._workers and _on_emulator():
            (unit,) = self._units
            with suppress(OSError):  # which the verification tells, if it lasts
                (file,) = self._open.enter_context(verification.module_files(self._units))
                job = Job(unit.module.plan, file, "cpu", self._extent)
                self.ahead = self._open.enter_context(Ahead(job, self._workers))

    def __enter__(self) -> Meanwhile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


def _on_emulator() -> bool:
    """Whether kernels are verified on the CPU emulator here."""
    from cutegen.verification import gpu_missing

    return gpu_missing() is not None and verification.emulator_missing() is None
