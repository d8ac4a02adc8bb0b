"""GPUs as timers: candidates run beside the incumbent in the worker process of a `Session`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cutegen.codegen import Module
from cutegen.codegen.render import code_hash
from cutegen.measuring.model import L2, KernelResult, Measured, Request
from cutegen.measuring.session import Session
from cutegen.tuning.model import Batch, Place, Shape, Time, Trouble, Verdict
from cutegen.tuning.pruning import body_hash

KINDS: Mapping[str, str] = {"wrong": "wrong", "spread": "unsteady", "crashed": "lost", "hung": "lost"}
UNAVAILABLE = "not available: "  # what a peer's absence begins with that could not run at all


class SessionTimer:
    """Takes times on one GPU, whose number `device` counts those that are visible.

    Candidates run beside the incumbent in the worker process of a `Session`.
    """

    def __init__(self, device: int, l2: L2 = "cold", note: Callable[[str], None] = lambda text: None) -> None:
        self._session = Session(device, note=note)
        self._session.__enter__()
        self._l2, self._closed = l2, False
        self._folder = tempfile.TemporaryDirectory(prefix="cutegen-tune-", ignore_cleanup_errors=True)

    def measure(self, batch: Batch) -> list[list[Verdict]]:
        """Times the modules of a batch: for each shape, the verdict on each module, in their order.

        Raises OSError where no worker process can be started, RuntimeError once the timer was closed.
        """
        if self._closed:
            raise RuntimeError("the timer is closed")
        incumbent, *others = batch.modules
        files = [self._file(module) for module in batch.modules]
        rivals = [f"{file}:{module.spec.kernel}" for file, module in zip(files[1:], others, strict=True)]
        result = self._session.measure(
            Request(
                plan=incumbent.plan,
                module=files[0],
                code_hash=code_hash(incumbent.text),
                shapes=batch.shapes,
                peers=False,
                vs=tuple(rivals),
                l2=self._l2,
                rounds=batch.rounds,
                limits=False,
                host=False,
                check=True,
            )
        )
        return [verdicts(result, shape, rivals) for shape in batch.shapes]

    def place(self) -> Place | None:
        """The GPU on which it takes times; None until a worker has looked at the device."""
        machine = self._session.machine
        if machine is None:
            return None
        return Place(machine.gpu, machine.capability, {**machine.versions, "driver": machine.driver})

    def close(self) -> None:
        """Ends the worker process, also while `measure` waits in another thread."""
        self._closed = True
        self._session.__exit__(None, None, None)
        self._folder.cleanup()

    def _file(self, module: Module) -> Path:
        """A module's file, one for each body: modules are imported by their names."""
        path = Path(self._folder.name, f"{module.spec.kernel}_{body_hash(module.text)[:16]}.py")
        if not path.exists():
            path.write_text(module.text, encoding="utf-8")
        return path


def verdicts(result: KernelResult, shape: Shape, rivals: Sequence[str]) -> list[Verdict]:
    """The verdicts on the kernel itself and on its rivals at a shape, in their order."""
    measured = next((m for m in result.measured if m.shape == shape), None)
    if measured is None:
        found = [f for f in result.failures if f.shape is None or f.shape == shape]
        own = [f for f in found if f.what == result.kernel] or found
        if not own:
            return [Trouble("lost", "the run ended before")] * (1 + len(rivals))
        failure = own[-1]
        return [_trouble(KINDS.get(failure.kind, "failed"), failure.message)] * (1 + len(rivals))
    return [Time(measured.timing.us, measured.timing.spread), *(_rival(result, measured, r) for r in rivals)]


def _rival(result: KernelResult, measured: Measured, rival: str) -> Verdict:
    """The verdict on one rival at a shape."""
    timing = measured.peers.get(rival)
    if timing is not None:
        return Time(timing.us, timing.spread)
    message = measured.absent.get(rival, f"{UNAVAILABLE}it was not timed")
    failure = next((f for f in result.failures if f.what == rival and f.shape == measured.shape), None)
    if failure is not None:
        return _trouble(KINDS.get(failure.kind, "failed"), failure.message)
    return _trouble("failed" if message.startswith(UNAVAILABLE) else "wrong", message)


def _trouble(kind: str, message: str) -> Trouble:
    """A trouble of that kind; a kind that troubles do not have becomes `failed`."""
    match kind:
        case "wrong" | "unsteady" | "lost":
            return Trouble(kind, message)
    return Trouble("failed", message)
