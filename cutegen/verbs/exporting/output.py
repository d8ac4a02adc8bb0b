"""Output of `cutegen export`: its text and its JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cutegen.console import print_diagnostics, print_table
from cutegen.language.diagnostics import as_json
from cutegen.project.paths import shown
from cutegen.verbs.building.output import print_problems, problem_json, verification_json, verification_text
from cutegen.verbs.exporting.export import ExportReport
from cutegen.verbs.exporting.files import Shipped


def print_export(report: ExportReport, folder: Path) -> None:
    """Prints an export: errors and notes to stderr, a table of kernels to stdout, and the next steps last."""
    print_problems(report.problems)
    for notice in report.notices:
        print(f"note: {notice}", file=sys.stderr)
    outcome = "nothing was written" if report.exit_code else ""
    print_diagnostics(report.diagnostics, report.texts, outcome=outcome)
    if report.exit_code:
        if not report.diagnostics:
            print(outcome, file=sys.stderr)
        return
    print_table(("kernel", "targets", "verified", "library", "size"), [_row(k, folder) for k in report.kernels])
    first = report.kernels[0].unit.kernel
    print(f"from Python: `from {first} import {first}`, with {shown(folder)} on the path", file=sys.stderr)
    print(f"from C++: cmake -S {shown(folder)} -B build && cmake --build build", file=sys.stderr)


def _row(kernel: Shipped, folder: Path) -> list[str]:
    """The cells of one kernel in the table of an export."""
    path = folder / kernel.library
    size = f"{path.stat().st_size / 1024:.0f} KiB"
    return [kernel.unit.kernel, ", ".join(kernel.targets), _verified(kernel), shown(path), size]


def _verified(kernel: Shipped) -> str:
    """A kernel's verification in a few words; says that its module is current where there is none."""
    if kernel.verification is None:
        return f"not here: {shown(kernel.unit.path)} is current"
    return verification_text(kernel.verification)


def export_json(report: ExportReport, folder: Path) -> dict[str, Any]:
    """An export as JSON: `{verb, ok, exit_code, diagnostics, problems, notices, folder, kernels}`, where a kernel is
    `{kernel, spec, targets, library, files, verification}`; `verification` is null where its module is current.
    """
    return {
        "verb": "export",
        "ok": report.exit_code == 0,
        "exit_code": report.exit_code,
        "diagnostics": [as_json(d) for d in report.diagnostics],
        "problems": [problem_json(p) for p in report.problems],
        "notices": list(report.notices),
        "folder": shown(folder),
        "kernels": [
            {
                "kernel": k.unit.kernel,
                "spec": k.unit.source.shown,
                "targets": list(k.targets),
                "library": k.library,
                "files": list(k.files),
                "verification": None if k.verification is None else verification_json(k.verification),
            }
            for k in report.kernels
        ],
    }
