"""Output of `cutegen bench`: a table of figures, the machine that they were measured on, and what has no figure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from cutegen.console import count, print_table
from cutegen.language.diagnostics import Diagnostic, as_json
from cutegen.measuring import Failure, Machine, Measured
from cutegen.measuring.asked import op_of
from cutegen.measuring.model import SPREAD_LIMIT, time_text
from cutegen.measuring.shapes import shape_text
from cutegen.project.paths import shown
from cutegen.verbs.benching.bench import Benched, BenchOptions, BenchReport
from cutegen.verbs.benching.sweep import Swept, sweep_json
from cutegen.verbs.benching.sweep_output import print_sweep


def print_bench(report: BenchReport, options: BenchOptions, sweeps: Sequence[Swept] = ()) -> None:
    """Prints the machine and tables of figures to stdout, those of `sweeps` where there are any, and what has no figure
    to stderr.
    """
    if report.machine is not None:
        for line in machine_lines(report.machine):
            print(line)
        print()
    for number, sweep in enumerate(sweeps):
        if number:
            print()
        print_sweep(sweep, options.l2)
    if not sweeps:
        print_table(_COLUMNS, [_row(b, m) for b in report.kernels for m in b.result.measured])
    hosts = [_host_row(benched) for benched in report.kernels if benched.result.host]
    if hosts:
        print()
        print_table(_HOST_COLUMNS, hosts)
    if any(benched.result.measured for benched in report.kernels):
        print()
        print(
            f"medians of {options.rounds} rounds or more, all contenders in turn on the same random data; spread: 10th "
            "to 90th percentile over the median; "
            + ("against a peer: its" if sweeps else "x: the peer's")
            + " time over the kernel's"
        )
    if sweeps:
        shapes = sum(len(sweep.standings) for sweep in sweeps)
        print(f"all of it took {report.seconds:.0f} s, for {count(shapes, 'shape')}")
    for line in _absent(report):
        print(f"note: {line}", file=sys.stderr)
    for note in report.notes:
        print(f"note: {note}", file=sys.stderr)
    for problem in [*(failure_text(*found) for found in report.failures), *report.problems]:
        print(f"error: {problem}", file=sys.stderr)


def _absent(report: BenchReport) -> list[str]:
    """A line about each peer that has no figure, and for each reason; one reason may hold at many shapes."""
    places: dict[tuple[str, str], list[str]] = {}
    for benched in report.kernels:
        for measured in benched.result.measured:
            for absence in measured.absent.items():
                places.setdefault(absence, []).append(f"{benched.unit.kernel} at {shape_text(measured.shape)}")
    return [
        f"{first}{f' and {len(others)} more' if others else ''}: no figure of {peer}: {why}"
        for (peer, why), (first, *others) in places.items()
    ]


_COLUMNS = ("kernel", "shape", "L2", "time", "rate", "spread", "of limit", "peers")
_HOST_COLUMNS = ("kernel", "CPU time of a call", "of the compiled function", "of torch.add(out=)")


def _row(benched: Benched, measured: Measured) -> list[str]:
    """The cells of one kernel at one shape."""
    share = measured.of_limit
    return [
        benched.unit.kernel,
        shape_text(measured.shape),
        measured.l2,
        time_text(measured.timing.us),
        rate_text(benched, measured),
        f"{measured.timing.spread:.1%}",
        "-" if share is None else f"{share:.1%}",
        "; ".join(
            f"{name} {time_text(timing.us)}, {measured.against(name):.3f}x" for name, timing in measured.peers.items()
        )
        or "-",
    ]


def _host_row(benched: Benched) -> list[str]:
    """The cells of the CPU's time for a call of one kernel."""
    host = benched.result.host
    return [benched.unit.kernel, *(f"{host[k].us:.2f} us ± {host[k].spread / 2:.0%}" for k in host)]


def rate_text(benched: Benched, measured: Measured) -> str:
    """The rate of a kernel in the unit of what bounds its op: operations or bytes."""
    if op_of(benched.unit.module.spec).rate == "TFLOP/s":
        return f"{measured.tflops:.4g} TFLOP/s"
    return f"{measured.gbs:.0f} GB/s"


def machine_lines(machine: Machine) -> list[str]:
    """Lines about the GPU, its driver and software, its clocks and its limits."""
    software = ", ".join(f"{name} {version}" for name, version in machine.versions.items() if version)
    lines = [f"{machine.gpu}, driver {machine.driver or 'unknown'}; {software}"]
    if machine.clocks:
        lines.append("clocks " + ", ".join(f"{k.replace('_', ' ')} {v} MHz" for k, v in machine.clocks.items()))
    limits = machine.limits
    if limits is not None:
        memory = f"copy {limits.copy:.0f} GB/s, fill {limits.fill:.0f} GB/s, read {limits.read:.0f} GB/s"
        arithmetic = "" if limits.fma is None else f", fp32 multiply-add {limits.fma:.4g} TFLOP/s"
        lines.append(f"limits, measured: {memory}{arithmetic}")
    return lines


def failure_text(benched: Benched, failure: Failure) -> str:
    """A failure in a sentence: the kernel, the place, and the error."""
    place = "" if failure.shape is None else f" at {shape_text(failure.shape)}"
    what = (
        "" if failure.what == benched.unit.kernel or failure.message.startswith(failure.what) else f"{failure.what}: "
    )
    kinds = {"crashed": "the measurement ended: ", "hung": "the measurement hung: ", "cannot run": "not measured: "}
    return f"{benched.unit.kernel}{place}: {kinds.get(failure.kind, '')}{what}{failure.message}"


def bench_json(
    report: BenchReport,
    options: BenchOptions,
    diagnostics: Sequence[Diagnostic],
    written: Sequence[str] = (),
    sweeps: Sequence[Swept] = (),
) -> dict[str, Any]:
    """A report as JSON: `{verb, l2, rounds, seconds, spread_limit, machine, notes, problems, diagnostics, kernels,
    sweeps, written}`, where a kernel is `{kernel, spec, file, code_hash, measured, failures, host}`.
    """
    return {
        "verb": "bench",
        "l2": options.l2,
        "rounds": options.rounds,
        "seconds": round(report.seconds, 1),
        "spread_limit": SPREAD_LIMIT,
        "machine": None if report.machine is None else report.machine.as_json(),
        "notes": list(report.notes),
        "problems": list(report.problems),
        "diagnostics": [as_json(d) for d in diagnostics],
        "kernels": [_kernel_json(benched) for benched in report.kernels],
        "sweeps": sweep_json(sweeps),
        "written": list(written),
    }


def _kernel_json(benched: Benched) -> dict[str, Any]:
    """One kernel as JSON, with what was measured and what the table computes from it.

    That is rates, the share of the limit, and ratios.
    """
    data = benched.result.as_json()
    for entry, measured in zip(data["measured"], benched.result.measured, strict=True):
        entry["gbs"], entry["tflops"], entry["of_limit"] = measured.gbs, measured.tflops, measured.of_limit
        entry["against"] = {name: measured.against(name) for name in measured.peers}
    unit = benched.unit
    return {"spec": unit.source.shown, "file": shown(unit.path) if unit.has_file else None, **data}
