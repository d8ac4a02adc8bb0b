"""Output of `cutegen verify --with`: a table of what changed, and all of it as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.console import count, print_table
from cutegen.exits import BROKEN, FINDINGS, OK
from cutegen.language.diagnostics import as_json, has_errors
from cutegen.verbs.building.output import verification_json
from cutegen.verbs.inspecting.comparing import comparison_json
from cutegen.verbs.inspecting.inspection import Inspection, inspection_json
from cutegen.verbs.upgrading.comparing import BROKEN_STATES, Change, KernelChange, State, totals
from cutegen.verbs.upgrading.upgrade import NOTHING, Upgrade

_ARROW = " -> "
WORDS: Mapping[State, str] = {
    "same code": "right, same code",
    "same bits": "right, same bits",
    "other bits": "right, other bits",
    "other inputs": "right, other random inputs",
    "mended": "right, but not here",
    "wrong": "WRONG, but right here",
    "still wrong": "WRONG, as here",
    "not compiled": "not compiled",
    "not executed": "not executed",
}


def exit_code(upgrade: Upgrade) -> int:
    """How the verb ends: 1 for what is wrong in the other environment, 2 where something was not executed there."""
    if has_errors(upgrade.diagnostics) or any(one.state in BROKEN_STATES for one in upgrade.kernels):
        return FINDINGS
    return BROKEN if any(one.state == "not executed" for one in upgrade.kernels) else OK


def print_upgrade(upgrade: Upgrade) -> None:
    """Prints the versions of both sides, a row for each kernel and target that changed, what does not compile by the
    reason why, and how many are the same.
    """
    if not upgrade.versions:
        print(NOTHING)
        return
    print_table(("package", "here", "there"), [[n, a or "-", b or "-"] for n, (a, b) in upgrade.versions.items()])
    print()
    rows = [
        _row(kernel, change)
        for kernel in upgrade.kernels
        for change in kernel.targets
        if change.there is not None and not (kernel.state in ("same code", "same bits") and change.same)
    ]
    columns = ("kernel", "target", "result", "registers", "spills", "shared memory", "instructions", "PTX")
    print_table(columns, rows)
    if rows:
        print()
    for why, names in _uncompiled(upgrade.kernels).items():
        print(f"not compiled there, {count(len(names), 'kernel')}: {why}")
        print(textwrap.fill(", ".join(names), 120, initial_indent="  ", subsequent_indent="  "), end="\n\n")
    for line in summary(upgrade.kernels):
        print(line)


def summary(kernels: Sequence[KernelChange]) -> list[str]:
    """Summarises all kernels: their code, then their results, then their PTX versions."""
    targets = [(kernel, change) for kernel in kernels for change in kernel.targets]
    same = sum(change.same for _, change in targets)
    lines = [f"code: the same of {same} of {len(targets)} kernels and targets"]
    failed = sum(change.there is None for _, change in targets)
    lines[0] += f", other of {len(targets) - same - failed}" * (same + failed < len(targets))
    lines[0] += f", none of {failed} that do not compile" * bool(failed)
    found = totals(kernels)
    results = "; ".join(f"{found[state]} {words}" for state, words in WORDS.items() if state in found)
    lines.append(f"results of {count(len(kernels), 'kernel')}: {results}")
    versions: dict[str, int] = {}
    for _, change in targets:
        if change.here is not None and change.there is not None:
            version = _cell([change.here.ptx_version, change.there.ptx_version])
            versions[version] = versions.get(version, 0) + 1
    if versions:
        lines.append("PTX version: " + ", ".join(f"{text} of {number}" for text, number in versions.items()))
    return lines


def _uncompiled(kernels: Sequence[KernelChange]) -> Mapping[str, Sequence[str]]:
    """The kernels that do not compile in the other environment, by the reason why, with the targets where not all."""
    found: dict[str, list[str]] = {}
    for kernel in kernels:
        targets: dict[str, list[str]] = {}
        for change in kernel.targets:
            if change.there is None:
                targets.setdefault(change.failed, []).append(change.target)
        for why, failed in targets.items():
            few = f" for {' and '.join(failed)}" * (len(failed) < len(kernel.targets))
            found.setdefault(why, []).append(f"{kernel.kernel}{few}")
    return found


def _row(kernel: KernelChange, change: Change) -> list[str]:
    """The cells of a kernel for a target."""
    sides = (change.here, change.there)
    return [
        kernel.kernel,
        change.target,
        _result(kernel, change),
        _cell([side and side.resources["registers"] for side in sides]),
        _cell([side and _sum(side, "spill_stores", "spill_loads") for side in sides], " B"),
        _cell([side and _sum(side, "static_smem", "dynamic_smem") for side in sides], " B"),
        _instructions(change),
        _cell([side and side.ptx_version for side in sides]),
    ]


def _result(kernel: KernelChange, change: Change) -> str:
    """The result of a kernel in a few words."""
    if kernel.state == "not compiled":
        return "not run, as it does not compile for all targets"
    if kernel.state == "other bits":
        return f"right, other bits in {len(kernel.other)} of {kernel.cases} cases"
    return WORDS[kernel.state] + (f": {kernel.why}" if kernel.state == "not executed" else "")


def _cell(sides: Sequence[object], unit: str = "") -> str:
    """A figure of both sides, once where it is the same; `?` stands for one that is not known."""
    old, new = ("?" if value is None else f"{value}{unit}" for value in sides)
    return old if old == new else f"{old}{_ARROW}{new}"


def _sum(side: Inspection, *names: str) -> int | None:
    """The sum of some resources, None where one of them is not known."""
    known = [value for name in names if (value := side.resources[name]) is not None]
    return sum(known) if len(known) == len(names) else None


def _instructions(change: Change) -> str:
    """How many instructions there are; where as many, whether they are others."""
    numbers = [
        None if side is None or side.code is None else side.code.instructions for side in (change.here, change.there)
    ]
    others = change.comparison is not None and bool(change.comparison.kinds) and numbers[0] == numbers[1]
    return _cell(numbers) + " (others)" * others


# JSON


def upgrade_json(upgrade: Upgrade, on: str) -> dict[str, Any]:
    """All that was found, as the help of the verb has it."""
    return {
        "verb": "verify",
        "on": on,
        "with": {
            "requirements": list(upgrade.requirements),
            "installer": upgrade.installer,
            "versions": {name: [here or None, there or None] for name, (here, there) in upgrade.versions.items()},
        },
        "diagnostics": [as_json(diagnostic) for diagnostic in upgrade.diagnostics],
        "notices": list(upgrade.notices),
        "summary": summary(upgrade.kernels),
        "kernels": [_kernel_json(kernel) for kernel in upgrade.kernels],
    }


def _kernel_json(kernel: KernelChange) -> dict[str, Any]:
    """One kernel of both sides as JSON."""
    return {
        "kernel": kernel.kernel,
        "spec": kernel.spec,
        "result": kernel.state,
        "why": kernel.why,
        "cases": kernel.cases,
        "other_bits": list(kernel.other),
        "targets": {change.target: _change_json(change) for change in kernel.targets},
        "here": None if kernel.here is None else verification_json(kernel.here),
        "there": None if kernel.there is None else verification_json(kernel.there),
    }


def _change_json(change: Change) -> dict[str, Any]:
    """A kernel for one target as JSON."""

    def side(inspection: Inspection | None) -> dict[str, Any] | None:
        return None if inspection is None else inspection_json(inspection, ptx=False, sass=False)

    return {
        "same": change.same,
        "here": side(change.here),
        "there": side(change.there),
        "diff": None if change.comparison is None else comparison_json(change.comparison),
        "failed": change.failed,
    }
