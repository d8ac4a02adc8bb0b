"""The data of a search: candidates, their outcomes, and the batches that a timer measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from cutegen.codegen import Module
from cutegen.tuning.schedules import differences

Shape = Mapping[str, int]


@dataclass(frozen=True)
class Candidate:
    """A schedule that lint accepts. `number` is its place in the space, 0 being the spec as it is.

    `modules` are those of all variants. `excess` is what lint says it spends beyond what would do, the mean of its
    variants. `registers` are those of a thread, by kernel and target, where it was compiled and they are known.
    """

    number: int
    schedule: Mapping[str, Any]
    text: str  # of the whole spec file
    modules: tuple[Module, ...]
    bodies: Mapping[str, str]  # kernel -> digest of its body
    excess: float
    registers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def changes(self, from_: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Returns the differences from another schedule, by dotted path: the old and the new value."""
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
    """The time of one call.

    `us` is the median in microseconds; `spread` is the distance from the 10th to the 90th percentile, over the median.
    """

    us: float
    spread: float


@dataclass(frozen=True)
class Trouble:
    """The reason why there is no time.

    `kind` is `wrong` (the result), `unsteady`, `failed` (it cannot run), or `lost`: the process ended, through
    whichever of those that ran in it.
    """

    kind: Literal["wrong", "unsteady", "failed", "lost"]
    message: str


Verdict = Time | Trouble


@dataclass(frozen=True)
class Batch:
    """Modules of one kernel to time side by side in one run on the same data, in `rounds` rounds; the first is the
    incumbent.
    """

    modules: tuple[Module, ...]
    shapes: tuple[Shape, ...]
    rounds: int


@dataclass(frozen=True)
class Place:
    """Where times were taken: a GPU's name, its compute capability, and the versions of driver and libraries."""

    gpu: str
    capability: str  # "9.0"
    versions: Mapping[str, str]


class Timer(Protocol):
    """Something that takes times on one GPU. It is used by one thread at a time."""

    def measure(self, batch: Batch) -> Sequence[Sequence[Verdict]]:
        """Times the modules of a batch: for each shape, the verdict on each module, in their order.

        Every result is compared with the reference.
        """

    def place(self) -> Place | None:
        """The GPU on which it takes times, known once something was measured; None before."""

    def close(self) -> None:
        """Ends what the timer runs, also while `measure` waits in another thread."""


@dataclass(frozen=True)
class Score:
    """How a candidate compares with the incumbent.

    `ratio` is the geometric mean over kernels and shapes of its time over the incumbent's, below 1 if it is faster.
    `spread` is how far the ratio may be off, by the spreads of the times that it is made of. `us` are microseconds by
    kernel and shape; `rounds` is the least that any of them was timed.
    """

    ratio: float
    spread: float
    us: Mapping[str, float]
    rounds: int

    @property
    def faster(self) -> bool:
        """Whether the candidate is faster than the incumbent by more than the spread."""
        return self.ratio < 1 - self.spread
