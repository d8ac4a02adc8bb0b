"""The outcome of a run, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from cutegen.console import count, print_table
from cutegen.exits import BROKEN, FINDINGS, OK
from cutegen.verbs.running.job import FINDINGS as FOUND
from cutegen.verbs.running.job import Compared, Job, Launched, Outcome, Tensor

_NAME = 44  # characters of a kernel's name


def exit_code(outcome: Outcome) -> int:
    """How the verb ends."""
    if outcome.status == "ok":
        return OK
    return FINDINGS if outcome.status in FOUND else BROKEN


def run_json(job: Job, outcome: Outcome) -> dict[str, Any]:
    """The verb's JSON, without how it ends."""
    kept = outcome.as_json()
    return {
        "verb": "run",
        "function": job.function,
        "inputs": job.inputs,
        "reference": job.reference,
        "target": job.target,
        **{name: kept[name] for name in ("status", "message", "help", "at", "fault", "launches", "tensors", "notes")},
        "printed": outcome.printed,
        "seconds": outcome.seconds,
    }


def print_run(job: Job, outcome: Outcome) -> None:
    """Prints what came of it: tables of launches and tensors, and what was wrong."""
    _print_launches(outcome.launches)
    if outcome.tensors:
        click.echo()
        print_table(["tensor", "type", "shape", "written", "compared"], [_row(tensor) for tensor in outcome.tensors])
    if outcome.launches or outcome.tensors:
        click.echo()
    if outcome.status in FOUND:
        click.echo(outcome.message)
        for line in outcome.at:
            click.echo(f"  at: {line}")
        if outcome.help:
            click.echo(f"  help: {outcome.help}")
    for tensor in outcome.tensors:
        if tensor.compared is not None and not tensor.compared.ok:
            _print_difference(tensor.name, tensor.compared)
    if outcome.status == "ok":
        orders = max((launched.orders for launched in outcome.launches), default=1)
        compared = sum(tensor.compared is not None for tensor in outcome.tensors)
        right = f", and {count(compared, 'tensor')} as the reference has {'it' if compared == 1 else 'them'}"
        click.echo(
            f"ok: {count(len(outcome.launches), 'launch').replace('launchs', 'launches')} on {job.target} without a "
            f"fault, in {count(orders, 'order')}{right * bool(compared)}, in {outcome.seconds:.1f} s"
        )


def _print_launches(launches: Sequence[Launched]) -> None:
    rows = [
        [
            _short(one.kernel),
            _sizes(one.grid),
            _sizes(one.block),
            _sizes(one.cluster),
            f"{one.shared} B",
            str(one.instructions),
            f"{one.seconds:.2f} s",
        ]
        for one in launches
    ]
    print_table(["kernel", "grid", "block", "cluster", "shared memory", "instructions", "emulated in"], rows)


def _row(tensor: Tensor) -> list[str]:
    elements = 1
    for size in tensor.shape:
        elements *= size
    written = "no" if not tensor.written else "all" if tensor.written == elements else f"{tensor.written} of {elements}"
    return [
        tensor.name,
        tensor.dtype,
        " x ".join(map(str, tensor.shape)) or "a number",
        written,
        _difference(tensor.compared),
    ]


def _difference(compared: Compared | None) -> str:
    if compared is None:
        return ""
    if compared.problem:
        return compared.problem
    bound = f"rtol {compared.rtol:.3g}, atol {compared.atol:.3g}"
    if compared.mismatched:
        return f"{compared.mismatched} of {compared.elements} differ by more than {bound}"
    if not compared.largest:
        return "the same"
    return f"largest difference {compared.largest:.3g}, within {bound}"


def _print_difference(name: str, compared: Compared) -> None:
    if compared.problem:
        click.echo(f"  {name}: {compared.problem}")
        return
    index = ", ".join(map(str, compared.first or ()))
    click.echo(f"  {name}[{index}] is {compared.got}, and {compared.expected} was expected")
    click.echo(
        f"  {compared.mismatched} of {compared.elements} elements differ by more than {compared.atol:g} + "
        f"{compared.rtol:g} * abs(expected); the largest difference is {compared.largest:.3g}"
    )


def _short(kernel: str) -> str:
    return kernel if len(kernel) <= _NAME else f"{kernel[: _NAME - 3]}..."


def _sizes(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))
