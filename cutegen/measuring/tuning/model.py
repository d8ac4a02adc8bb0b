"""What a search consists of, as data: candidates, what became of them, and what a timer is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from cutegen.codegen import Module
from cutegen.measuring.tuning.schedules import differences

Shape = Mapping[str, int]


@dataclass(frozen=True)
class Candidate:
    """A schedule that lint accepts. `number` is its place in the space, 0 the spec as it is; `modules` are those of
    all variants. `excess` is what lint says it spends beyond what would do, the mean of its variants. `registers` of a
    thread by kernel and target, where it was compiled and they are known."""

    number: int
    schedule: Mapping[str, Any]
    text: str  # of the whole spec file
    modules: tuple[Module, ...]
    bodies: Mapping[str, str]  # kernel -> digest of its body
    excess: float
    registers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def changes(self, from_: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        return differences(from_, self.schedule)


@dataclass(frozen=True)
class Dropped:
    """A schedule that is not measured, or not any more. `by` is a code of lint, or one of the words below."""

    number: int
    schedule: Mapping[str, Any]
    by: str
    message: str


# What a schedule is dropped for, besides the codes of lint and the kinds of `Trouble`.
DUPLICATE = "duplicate"  # makes the same code as one before it
EDIT = "edit"  # cannot be written into the text of the spec
FAILED = "compile"  # the compiler fails
SPILLS = "spills"
REGISTERS = "registers"  # a block does not fit a multiprocessor, or has more than `expect` allows
WRONG = "wrong"  # computes something else
LOST = "lost"  # ends the process that runs it


@dataclass(frozen=True)
class Time:
    """`us`: median microseconds of one call; `spread`: from the 10th to the 90th percentile, over the median."""

    us: float
    spread: float


@dataclass(frozen=True)
class Trouble:
    """Why there is no time. `kind`: `wrong` (result), `unsteady`, `failed` (it cannot run), or `lost`: the process
    ended, through whichever of those that ran in it."""

    kind: Literal["wrong", "unsteady", "failed", "lost"]
    message: str


Verdict = Time | Trouble


@dataclass(frozen=True)
class Batch:
    """Modules of one kernel to time side by side in one run on the same data, `rounds` times each, the first one being
    the incumbent."""

    modules: tuple[Module, ...]
    shapes: tuple[Shape, ...]
    rounds: int


@dataclass(frozen=True)
class Place:
    """A GPU as its name, its compute capability and the versions of driver and libraries."""

    gpu: str
    capability: str  # "9.0"
    versions: Mapping[str, str]


class Timer(Protocol):
    """One GPU. Used by one thread at a time."""

    def measure(self, batch: Batch) -> Sequence[Sequence[Verdict]]:
        """For each shape, what became of each module, in their order. Every result is held to the reference."""

    def place(self) -> Place | None:
        """Known once something was measured."""

    def close(self) -> None:
        """Ends what it runs, also while `measure` waits in another thread."""


class Progress(Protocol):
    """Told what is going on, for people."""

    def start(self, what: str, total: int) -> None: ...

    def step(self, line: str | None) -> None:
        """One of the total is done; `line` says what is worth saying about it."""

    def stop(self) -> None: ...


@dataclass(frozen=True)
class Score:
    """`ratio`: geometric mean over kernels and shapes of the time over the incumbent's, below 1 if it is faster.
    `spread`: how far the ratio may be off, by the spreads of the times that it is made of. `us`: microseconds by kernel
    and shape; `rounds`: the least that any of them was timed."""

    ratio: float
    spread: float
    us: Mapping[str, float]
    rounds: int

    @property
    def faster(self) -> bool:
        """By more than the spread."""
        return self.ratio < 1 - self.spread
