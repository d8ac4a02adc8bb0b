"""Requests for measurements and their results, as data that travels between processes and into files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from cutegen.planning.plan import Plan

L2 = Literal["cold", "warm"]
Kind = Literal["wrong", "spread", "crashed", "hung", "cannot run"]
SPREAD_LIMIT = 0.05  # of a median: a figure whose rounds differ by more is not reported
ROUNDS = 30
SWEEP_ROUNDS = 12  # at each of many shapes


@dataclass(frozen=True)
class Timing:
    """The time of a call.

    `us` is the median in microseconds; `spread` is the distance from the 10th to the 90th percentile of the rounds,
    over the median, of the times or, if that is less, of what they are over those of others in the same round; `rounds`
    is how many there were.
    """

    us: float
    spread: float
    rounds: int


@dataclass(frozen=True)
class Limits:
    """The rates that the GPU itself reaches in the same run.

    `copy` (bytes read and bytes written both count), `fill` and `read` are those of torch on 1 GiB and more, in GB/s
    (1e9); `fma` is in TFLOP/s (a multiply-add counts as two), None if it could not run.
    """

    copy: float
    fill: float
    read: float
    fma: float | None


@dataclass(frozen=True)
class Machine:
    """A GPU and its software.

    `driver` is its version, `versions` those of python, torch, its CUDA, cutlass DSL and cutegen; `clocks` are in MHz,
    empty where nothing could be read. `l2_bytes` and `memory_bytes` are sizes. `limits` is None until asked for.
    """

    gpu: str
    capability: str  # "9.0"
    driver: str
    versions: Mapping[str, str]
    sms: int
    l2_bytes: int
    memory_bytes: int
    clocks: Mapping[str, int] = field(default_factory=dict)
    limits: Limits | None = None

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Machine:
        limits = data["limits"]
        return Machine(**{**data, "limits": None if limits is None else Limits(**limits)})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Measured:
    """The figures of one kernel at one shape.

    `peers` holds those that were timed, in the order in which they are shown, `absent` why each other one was not.
    `bytes` counts each tensor moved once; `operations` are those of the expression, a multiply-add as two. `limit_us`
    is the least time by the machine's limits, None where they were not asked for. `error` is the largest
    difference from the float64 reference, `bound` the largest that was allowed, `ratio` the largest error over its own
    element's bound; all three are None where the result was not checked.
    """

    shape: Mapping[str, int]
    timing: Timing
    peers: Mapping[str, Timing]
    absent: Mapping[str, str]
    bytes: int
    operations: int
    limit_us: float | None
    l2: L2
    error: float | None
    bound: float | None
    ratio: float | None

    @property
    def gbs(self) -> float:
        """The rate in 1e9 bytes a second."""
        return self.bytes / self.timing.us / 1e3

    @property
    def tflops(self) -> float:
        """The rate in 1e12 operations a second."""
        return self.operations / self.timing.us / 1e6

    @property
    def of_limit(self) -> float | None:
        """The share of the physical limit that the kernel reaches, 1 at best."""
        return None if self.limit_us is None else self.limit_us / self.timing.us

    def against(self, peer: str) -> float:
        """How many times as fast as the peer the kernel is: above 1, it wins. Raises KeyError for a peer that was not
        timed.
        """
        return self.peers[peer].us / self.timing.us

    @property
    def best(self) -> str | None:
        """The fastest peer; None where none has a figure."""
        return min(self.peers, key=lambda peer: self.peers[peer].us, default=None)

    @property
    def against_best(self) -> float | None:
        """How many times as fast as the fastest peer the kernel is; None where none has a figure."""
        return None if self.best is None else self.against(self.best)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Measured:
        peers = {name: Timing(**timing) for name, timing in data["peers"].items()}
        return Measured(**{**data, "timing": Timing(**data["timing"]), "peers": peers})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Failure:
    """The reason why a figure is missing.

    `what` is the contender that it is about, the kernel itself or a peer; `shape` is None where it is about all of
    them.
    """

    kind: Kind
    what: str
    shape: Mapping[str, int] | None
    message: str


@dataclass(frozen=True)
class KernelResult:
    """The figures of one kernel, and the failures to measure it.

    `host` is the CPU time of one call: `call` of the generated function, `compiled` of the bare compiled function,
    `torch.add` of that torch function with `out=`. It is empty where it was not asked for.
    """

    kernel: str
    code_hash: str
    measured: tuple[Measured, ...]
    failures: tuple[Failure, ...] = ()
    host: Mapping[str, Timing] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.failures

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> KernelResult:
        return KernelResult(
            kernel=data["kernel"],
            code_hash=data["code_hash"],
            measured=tuple(Measured.from_json(m) for m in data["measured"]),
            failures=tuple(Failure(**f) for f in data["failures"]),
            host={name: Timing(**timing) for name, timing in data["host"].items()},
        )

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "measured": [m.as_json() for m in self.measured],
            "failures": [asdict(f) for f in self.failures],
        }


@dataclass(frozen=True)
class Request:
    """One kernel to measure: the plan it was generated from, its file, and the shapes, each with every mode's size.

    `peers` says whether the peers that follow from the expression run too; `vs` are functions of the user's beside
    them, `module:function` or `FILE.py:function`. `limits` says whether the GPU's own limits are measured, once a
    session; `host` whether the CPU's time for a call is; `check` whether results are compared with the float64
    reference. `coming` are shapes that the next requests are for, of the same module: the process that measures is kept
    for them.
    """

    plan: Plan
    module: Path
    code_hash: str
    shapes: tuple[Mapping[str, int], ...]
    peers: bool = True
    vs: tuple[str, ...] = ()
    l2: L2 = "cold"
    rounds: int = ROUNDS
    limits: bool = True
    host: bool = True
    check: bool = True
    coming: tuple[Mapping[str, int], ...] = ()


def time_text(value: float) -> str:
    """A time in words, from microseconds: to four digits or so, from ten thousand on as milliseconds."""
    value, unit = (value / 1e3, "ms") if value >= 1e4 else (value, "us")
    return f"{value:.{max(0, 4 - len(str(int(value))))}f} {unit}"
