"""Made-up machines, results and receipts, for tests: none of the figures was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cutegen.codegen.render import code_hash
from cutegen.measuring.model import KernelResult, Limits, Machine, Measured, Timing
from cutegen.project.sources import Unit
from cutegen.receipts.receipt import Receipt
from cutegen.receipts.receipt_text import text

MACHINE = Machine(
    gpu="NVIDIA Test 9",
    capability="9.0",
    driver="1.2",
    versions={"torch": "3.4", "cutegen": "0.0"},
    sms=12,
    l2_bytes=1 << 20,
    memory_bytes=1 << 30,
    limits=Limits(copy=1000.0, fill=1100.0, read=900.0, fma=None),
)


def measured(shape: Mapping[str, int] | None = None, us: float = 10.0, **more: Any) -> Measured:
    """By default 80 % of the limit, and half as fast as the one peer."""
    made = Measured(
        shape=shape or {"M": 8, "N": 16},
        timing=Timing(us, 0.01, 30),
        peers={"torch.add": Timing(us / 2, 0.02, 30)},
        absent={},
        bytes=40_000,
        operations=2_000_000,
        limit_us=0.8 * us,
        l2="cold",
        error=0.0,
        bound=1e-6,
        ratio=0.0,
    )
    return replace(made, **more)


def result(unit: Unit, *shapes: Measured, **more: Any) -> KernelResult:
    return KernelResult(unit.kernel, code_hash(unit.module.text), shapes or (measured(),), **more)


def receipt(unit: Unit, *shapes: Measured, machine: Machine = MACHINE) -> Receipt:
    return Receipt.of(unit.source.name, machine, result(unit, *shapes))


def put_receipt(unit: Unit, made: Receipt | None = None) -> Path:
    """Writes it beside the unit's module."""
    made = made or receipt(unit)
    path = unit.path.parent / "receipts" / made.place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(made))
    return path
