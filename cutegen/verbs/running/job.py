"""Jobs for a worker and their outcomes: data that goes to the worker and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Status = Literal["ok", "fault", "wrong", "not compiled", "crashed", "not executed"]
FINDINGS: tuple[Status, ...] = ("fault", "wrong", "not compiled", "crashed")
"""Statuses that say something about the kernel; `not executed` is wrong use, or something that is not emulated."""


@dataclass(frozen=True)
class Job:
    """A function to run, and where its arguments and its reference come from, each as `FILE.py:NAME` or `module:NAME`.

    `outputs` are the names of the arguments that must be written whole, and None where any may be written; `inouts` of
    those that may be written. `rtol` and `atol` replace the tolerances of a type. `folder` is the current one.
    """

    function: str
    inputs: str
    folder: str
    reference: str | None = None
    target: str = "sm_90a"
    orders: int = 1
    seed: int = 0
    outputs: tuple[str, ...] | None = None
    inouts: tuple[str, ...] = ()
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class Launched:
    """A launch that was run, with the function whose host code made it."""

    function: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    shared: int
    orders: int
    instructions: int
    seconds: float
    approximate: tuple[str, ...]
    contractible: tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """How an output differs from what the reference gives: of `elements` there are `mismatched` that differ by more
    than `atol + rtol * abs(expected)`, and `first` is the first of them. Differences are of finite numbers.
    """

    elements: int
    mismatched: int
    largest: float
    relative: float
    rtol: float
    atol: float
    first: tuple[int, ...] | None = None
    got: str = ""
    expected: str = ""
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing differs by more than is allowed."""
        return not self.mismatched and not self.problem


@dataclass(frozen=True)
class Tensor:
    """A tensor that the function was given, or returned: how many of its elements kernels wrote, and how it compares
    to what was expected, if that is known."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    written: int
    compared: Compared | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job. `message` says what was wrong, `help` what would work, and `at` has the lines of user and
    library code that led there, outermost first; `fault` has the emulator's fault as data, and `printed` what the
    function and the files printed. `seconds` covers the whole job.
    """

    status: Status
    message: str = ""
    help: str = ""
    at: tuple[str, ...] = ()
    fault: Mapping[str, Any] | None = None
    launches: tuple[Launched, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    notes: tuple[str, ...] = ()
    printed: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The outcome as data that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """The outcome that `as_json` gave the data of."""
        tensors = [
            Tensor(**{**_tuples(Tensor, one), "compared": _compared(one.get("compared"))}) for one in data["tensors"]
        ]
        launches = [Launched(**_tuples(Launched, one)) for one in data["launches"]]
        return cls(**{**_tuples(cls, data), "tensors": tuple(tensors), "launches": tuple(launches)})


def _compared(data: Mapping[str, Any] | None) -> Compared | None:
    return None if data is None else Compared(**_tuples(Compared, data))


def _tuples(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a class from data, in which JSON's lists are tuples."""
    names = [field.name for field in fields(kind)]
    return {name: tuple(data[name]) if isinstance(data[name], list) else data[name] for name in names if name in data}
