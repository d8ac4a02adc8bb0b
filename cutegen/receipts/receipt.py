"""A record of what was verified and measured of one kernel on one GPU: a file that is committed beside the module.

A receipt holds the hash of the code that was measured, so that figures of different code are recognised without a GPU.
It is written by `cutegen.receipts.write`, and its text is made in `receipt_text`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cutegen.measuring.model import KernelResult, Limits, Machine, Measured
from cutegen.verification import KernelReport


@dataclass(frozen=True)
class Gpu:
    """The device that a receipt speaks of. Two devices that differ in any of this are different ones.

    `sms` is among it, since it differs between the slices of a GPU.
    """

    name: str
    capability: str  # "9.0"
    sms: int
    l2_bytes: int
    memory_bytes: int


@dataclass(frozen=True)
class VerifiedCase:
    """A case of the verification's plan that passed. `error`, `bound` and `ratio` are as in a `CaseReport`."""

    case: str
    shape: Mapping[str, int]
    layout: str
    data: str
    error: float
    bound: float
    ratio: float


@dataclass(frozen=True)
class Verified:
    """The verification of a kernel that passed.

    `host_checks` counts calls that were rejected as required, `not_run` the cases and calls that were planned but did
    not run.
    """

    cases: tuple[VerifiedCase, ...]
    host_checks: int
    not_run: int

    @staticmethod
    def of(report: KernelReport) -> Verified:
        """Takes what a receipt keeps from a report on a kernel that passed. Raises ValueError for another one."""
        if not report.ok:
            raise ValueError(f"{report.kernel} did not pass")
        cases = tuple(
            VerifiedCase(c.name, c.sizes, c.layout, c.data, c.max_error, c.max_bound, c.ratio)
            for c in report.cases
            if c.status == "passed"
        )
        not_run = sum(result.status == "not run" for result in report.results)
        return Verified(cases, sum(check.status == "passed" for check in report.host_checks), not_run)


@dataclass(frozen=True)
class Receipt:
    """The record of one kernel on one GPU.

    `spec` is the path of its spec from the project's root, as in the module's header. `code_hash` is the digest of what
    runs on the GPU (`cutegen.codegen.render.code_hash`). `versions` are those of the driver and of all packages.
    `measured` has a shape once for each state of the L2; `limits` are those of the latest run that asked for them.
    """

    kernel: str
    spec: str
    code_hash: str
    gpu: Gpu
    versions: Mapping[str, str]
    verified: Verified | None = None
    measured: tuple[Measured, ...] = ()
    limits: Limits | None = None

    @staticmethod
    def of(spec: str, machine: Machine, result: KernelResult) -> Receipt:
        """A receipt of what was measured in one run."""
        made = Receipt.empty(result.kernel, spec, result.code_hash, machine)
        return replace(made, measured=result.measured, limits=machine.limits)

    @staticmethod
    def empty(kernel: str, spec: str, code_hash: str, machine: Machine) -> Receipt:
        """A receipt of code and machine, with nothing found out yet."""
        gpu = Gpu(machine.gpu, machine.capability, machine.sms, machine.l2_bytes, machine.memory_bytes)
        versions = {**machine.versions, "driver": machine.driver}
        return Receipt(kernel, spec, code_hash, gpu, dict(sorted(versions.items())))

    @property
    def place(self) -> str:
        """The path of the receipt in the folder of receipts, such as `nvidia-h200/copy_tv.json`."""
        return f"{slug(self.gpu.name)}/{self.kernel}.json"


def slug(gpu: str) -> str:
    """The name of a device as that of a folder: `NVIDIA H200` is `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-") or "gpu"


def merge(old: Receipt | None, new: Receipt) -> Receipt:
    """Merges two receipts of the same code, GPU and versions: the new one, and what the old one says besides.

    Of other receipts the new one alone is left: a receipt speaks of one state of the world.
    """
    if old is None or not same_state(old, new):
        return new
    measured = {_key(m): m for m in (*old.measured, *new.measured)}
    return replace(
        new,
        verified=new.verified or old.verified,
        measured=tuple(measured.values()),
        limits=new.limits or old.limits,
    )


def same_state(old: Receipt, new: Receipt) -> bool:
    """Whether both are of the same code, GPU and versions."""
    this, that = ((r.kernel, r.code_hash, r.gpu, dict(r.versions)) for r in (old, new))
    return this == that


def _key(measured: Measured) -> tuple[object, ...]:
    return tuple(sorted(measured.shape.items())), measured.l2
