"""For tests of tuning: small specs, a search without a GPU, and a GPU's stand-in that knows what schedules cost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from building_kit import StandInCompiler

from cutegen.codegen import Module
from cutegen.families.elementwise import tuning as elementwise
from cutegen.families.gemm.fma import tuning as gemms
from cutegen.families.gemm.staged.schedule import GemmSchedule
from cutegen.language.document import parse_documents, plain
from cutegen.language.reader import read_specs
from cutegen.tuning.editing import Sheet
from cutegen.tuning.log import Log
from cutegen.tuning.model import Batch, Candidate, Dropped, Place, Time, Trouble, Verdict
from cutegen.tuning.pruning import Sieve
from cutegen.tuning.result import Options, Result
from cutegen.tuning.tune import Tuning

MM = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M, align: 16}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: M, align: 16, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 128, N: 128, K: 8}  # the block's tile
  pipeline: {stages: 3}
targets: [sm_80, sm_90a]
"""
TUNED = (
    MM
    + """\
tune:
  schedule.tiler: [{M: 128, N: 128, K: 8}, {M: 64, N: 64, K: 8}, {M: 64, N: 128, K: 16}, {M: 100, N: 128, K: 8}]
  schedule.pipeline.stages: [2, 3, 4]
"""
)
STAGES = f"{MM}tune: {{schedule.pipeline.stages: [2, 3, 4]}}\n"
VARIANTS = STAGES.replace("kernel: mm", "kernel: mm_{c}\nmatrix: {c: [M, N]}").replace(
    "C: {shape: [M, N], dtype: f32, major: M", 'C: {shape: [M, N], dtype: f32, major: "{c}"'
)
ADD = """\
cutegen: 1
kernel: add
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32, align: 16}
  Y: {shape: [M, N], dtype: f32, align: 16, role: out}
compute: Y = X + 1
targets: [sm_80, sm_90a]
"""
H200 = Place("NVIDIA H200", "9.0", {"torch": "2.11", "driver": "580"})
SHAPE = {"M": 256, "N": 256, "K": 256}
Cost = Callable[[Module, Mapping[str, int]], "float | Trouble"]


class Quiet:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def start(self, what: str, total: int) -> None:
        self.lines.append(f"{what}: {total}")

    def part(self, name: str, what: str, done: int, total: int | None) -> None:
        pass

    def step(self, line: str | None, name: str = "") -> None:
        if line:
            self.lines.append(line)

    def stop(self) -> None:
        pass


class Clock:
    """Stands in for the module `time`: it goes on when something is said to take so long."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def takes(self, seconds: float) -> None:
        self.now += seconds


class StandInGpu:
    """`cost` says what a module takes in microseconds, or what is wrong with it. From batch to batch the clock drifts,
    by up to a half; in a batch everything drifts alike. Keeps its batches; ends the search after `limit` of them.
    `began` is told of each."""

    def __init__(
        self,
        cost: Cost,
        seed: int = 0,
        spread: float = 0.004,
        place: Place = H200,
        limit: int = 10**9,
        began: Callable[[Batch], object] = lambda batch: None,
    ) -> None:
        self.batches: list[Batch] = []
        self.closed = False
        self._began = began
        self._cost, self._random, self._spread, self._place, self._limit = (
            cost,
            random.Random(seed),
            spread,
            place,
            limit,
        )

    def measure(self, batch: Batch) -> list[list[Verdict]]:
        if len(self.batches) >= self._limit:
            raise KeyboardInterrupt
        self.batches.append(batch)
        self._began(batch)
        found: list[list[Verdict]] = []
        for shape in batch.shapes:
            drift = self._random.uniform(1, 1.5)
            costs = [self._cost(module, shape) for module in batch.modules]
            lost = next((c for c in costs if isinstance(c, Trouble) and c.kind == "lost"), None)
            if lost is not None:  # the process is gone, and what else ran in it
                found.append([lost] * len(costs))
                continue
            found.append([c if isinstance(c, Trouble) else Time(c * drift, self._spread) for c in costs])
        return found

    def place(self) -> Place:
        return self._place

    def close(self) -> None:
        self.closed = True

    @property
    def timed(self) -> list[str]:
        """The text of every module but the incumbents, as often as it ran."""
        return [module.text for batch in self.batches for module in batch.modules[1:]]


def raw(text: str) -> Mapping[str, Any]:
    data: Mapping[str, Any] = plain(parse_documents(text)[0][0])
    return data


def sieve_of(text: str, name: str = "specs/k.yaml") -> Sieve:
    return Sieve(Sheet(text), name, [spec.kernel for spec in read_specs(text)])


def tuning_of(
    text: str,
    log: Path,
    shapes: Sequence[Mapping[str, int]] = (SHAPE,),
    only: Sequence[str] | None = None,
    compiler: StandInCompiler | None = None,
    progress: Quiet | None = None,
    fresh: bool = False,
    **options: Any,
) -> Tuning:
    """A search with a compiler's stand-in."""
    sieve = sieve_of(text)
    kernels = {kernel: tuple(shapes) for kernel in (only or sieve.kernels)}
    chosen = Options(**{"cache": False, "targets": ("sm_80", "sm_90a"), **options})
    return Tuning(sieve, kernels, chosen, Log(log, fresh), progress or Quiet(), compiler or StandInCompiler())


def search(text: str, cost: Cost, log: Path, gpus: Sequence[StandInGpu] = (), **options: Any) -> Result:
    return tuning_of(text, log, **options).run(gpus or [StandInGpu(cost)])


def schedule(module: Module) -> GemmSchedule:
    assert isinstance(module.spec.schedule, GemmSchedule)
    return module.spec.schedule


def valley(module: Module, shape: Mapping[str, int]) -> float:
    """Least at tile 64 x 128 x 16 with 4 stages."""
    own = schedule(module)
    assert own.tiler is not None and own.pipeline.stages is not None
    away = abs(own.tiler["M"] - 64) / 64 + abs(own.tiler["N"] - 128) / 128 + abs(own.tiler["K"] - 16) / 8
    return 100.0 + 10 * away + 3 * abs(own.pipeline.stages - 4) + shape["M"] / 64


def small_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """A space that takes little time to look at, of which each candidate is made once in a process."""
    monkeypatch.setattr(gemms, "TILES", (64, 128))
    monkeypatch.setattr(gemms, "DEPTHS", (8, 16))
    monkeypatch.setattr(gemms, "SIDES", ((16, 16), (16, 8)))
    monkeypatch.setattr(elementwise, "BLOCK_THREADS", (128, 256))
    monkeypatch.setattr(elementwise, "ALONG", (16, 32, 64))
    candidates_once(monkeypatch)


_EXAMINED: dict[object, Candidate | Dropped] = {}
_examine = Sieve._examine


def candidates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the modules of a text once in a process, for all searches that look at it: most look at the same ones."""

    def examined(
        sieve: Sieve, number: int, schedule: Mapping[str, Any], text: str, fatal: Collection[str]
    ) -> Candidate | Dropped:
        key = (text, sieve.name, tuple(sieve.kernels), tuple(fatal))
        if key not in _EXAMINED:
            _EXAMINED[key] = _examine(sieve, number, schedule, text, fatal)
        return replace(_EXAMINED[key], number=number, schedule=schedule)

    monkeypatch.setattr(Sieve, "_examine", examined)


def entries(log: Path, kind: str) -> list[dict[str, Any]]:
    """The lines of a log of one kind."""
    return [e for e in map(json.loads, log.read_text().splitlines()) if e["kind"] == kind]
