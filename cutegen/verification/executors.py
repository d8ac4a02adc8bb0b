"""The executors by the names that people give them: a GPU, the CPU's emulator, or one of their own."""

from __future__ import annotations

import importlib
from typing import Any

from cutegen.verification.executor import EmulatorExecutor, Executor
from cutegen.verification.gpu import GpuExecutor
from cutegen.verification.kept import Kept


def make_executor(on: str, kept: Kept | None = None) -> Executor:
    """The executor for `gpu`, `cpu` with what is `kept`, or any other one by its import path, `package.module:Class`.

    Raises `ValueError` for a name that means nothing, `RuntimeError` if there is no such device, and what the import of
    the emulator raises.
    """
    if on == "gpu":
        return GpuExecutor()
    if on == "cpu":
        from cutegen import emulator

        emulator.install  # noqa: B018 imports what it needs
        return EmulatorExecutor(lazy=True, kept=kept)
    place, _, name = on.partition(":")
    if not name:
        raise ValueError(f"unknown executor {on!r}: use gpu, cpu or package.module:Class")
    made: Any = getattr(importlib.import_module(place), name)()
    executor: Executor = made
    return executor
