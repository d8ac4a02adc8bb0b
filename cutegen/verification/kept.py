"""Compiled code of modules, kept for their verification and found by the content that it was compiled from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

from cutegen import compiling
from cutegen.emulator.host.stored import Stored


class Kept:
    """Compiled code of modules. It is found by a module's text and kernel, the target, and all that is installed here
    that determines the code (`cache_key`).
    """

    def __init__(self, outcomes: Iterable[tuple[compiling.Job, compiling.Outcome]] = ()) -> None:
        """Takes what jobs were compiled to, without those that failed and those whose host code is not known."""
        self._by_key = {
            compiling.cache_key(job): Stored(outcome.artefact.ptx, outcome.artefact.host)
            for job, outcome in outcomes
            if isinstance(outcome, compiling.Compiled) and outcome.artefact.host
        }
        self._known: dict[ModuleType, Mapping[str, Stored]] = {}

    def know(self, module: ModuleType, kernel: str) -> None:
        """Looks for what is kept of the text of a module's file. The module must be as that is, and stay so."""
        if self._by_key:
            text = Path(str(module.__file__)).read_bytes().decode("utf-8", "surrogateescape")
            keys = {target: compiling.cache_key(compiling.Job(text, kernel, target)) for target in module.TARGETS}
            self._known[module] = {target: self._by_key[key] for target, key in keys.items() if key in self._by_key}

    def of(self, module: ModuleType) -> Mapping[str, Stored]:
        """The kept code of a known module, by target; empty for another one, as that may have been changed."""
        return self._known.get(module, {})
