"""Output of the verbs: the text and the JSON of builds, comparisons and verifications."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cutegen.compiling import Compiled, Outcome
from cutegen.console import count, print_diagnostics, print_table
from cutegen.language.diagnostics import Diagnostic, as_json
from cutegen.project.paths import shown
from cutegen.project.sources import Unit
from cutegen.project.state import FileState, advice
from cutegen.receipts.beside_modules import units_by_file
from cutegen.receipts.write import Recorded
from cutegen.verbs.building.build import BuildReport, KernelResult, Problem
from cutegen.verbs.building.verification import Verification


def print_problems(problems: Iterable[Problem]) -> None:
    """Prints problems and their helps to stderr."""
    for problem in problems:
        print(f"error: {problem.message}", file=sys.stderr)
        if problem.help:
            print(f"  help: {problem.help}", file=sys.stderr)


# build


def print_build(report: BuildReport) -> None:
    """Prints a build: a table of kernels with their verdicts to stdout, then errors and notes to stderr. The command
    that explains them comes last.
    """
    print_table(_COLUMNS, [_row(kernel) for kernel in report.kernels])
    sys.stdout.flush()  # before the other stream
    print_problems(report.problems)
    for notice in report.notices:
        print(f"note: {notice}", file=sys.stderr)
    outcome = "nothing was written" if report.exit_code else ""
    print_diagnostics(report.diagnostics, report.texts, outcome=outcome)
    if report.exit_code:
        if not report.diagnostics:
            print(outcome, file=sys.stderr)
        return
    for path in report.removed:
        print(f"removed {shown(path)}")


_COLUMNS = ("kernel", "compiled", "registers", "spills", "shared memory", "verified", "file")


def _row(result: KernelResult) -> list[str]:
    """The cells of one kernel in the table of a build."""
    artefacts = [o.artefact.resources if isinstance(o, Compiled) else None for o in result.outcomes.values()]
    registers = [str(a.registers) if a is not None and a.registers is not None else "?" for a in artefacts]
    return [
        result.unit.kernel,
        _compiled_text(result.outcomes),
        ", ".join(dict.fromkeys(registers)) or "?",
        f"{spilt} B" if (spilt := spills(result)) is not None else "?",
        f"{smem} B" if (smem := shared_memory(result)) is not None else "?",
        verification_text(result.verification),
        f"{shown(result.unit.path)} {result.action}",
    ]


def shared_memory(result: KernelResult) -> int | None:
    """Bytes of shared memory that a block takes: the plan's dynamic ones and the static ones of the cubin that has
    most.

    None if the kernel was not compiled.
    """
    static = [o.artefact.resources.static_smem for o in result.outcomes.values() if isinstance(o, Compiled)]
    if not static or None in static:
        return None
    return max(s for s in static if s is not None) + result.unit.module.plan.smem_bytes


def spills(result: KernelResult) -> int | None:
    """Bytes that a thread stores and loads for lack of registers, in the cubin with most of them.

    None if the kernel was not compiled.
    """
    found = [o.artefact.resources if isinstance(o, Compiled) else None for o in result.outcomes.values()]
    counts = [r and (r.spill_stores, r.spill_loads) for r in found]
    totals = [c[0] + c[1] if c and c[0] is not None and c[1] is not None else None for c in counts]
    return None if not totals or None in totals else max(total for total in totals if total is not None)


def _compiled_text(outcomes: Mapping[str, Outcome]) -> str:
    """The targets that a kernel was compiled for, with `(cached)` at those that an earlier build compiled."""
    cached = [isinstance(outcome, Compiled) and outcome.cached for outcome in outcomes.values()]
    if cached and all(cached):
        return f"{', '.join(outcomes)} (all cached)"
    marks = {True: " (cached)", False: ""}
    texts = [
        f"{target}{marks[hit]}" if isinstance(outcome, Compiled) else f"{target} FAILED"
        for (target, outcome), hit in zip(outcomes.items(), cached, strict=True)
    ]
    return ", ".join(texts) or "no"


def verification_text(verification: Verification) -> str:
    """A verification in a few words, the verdict first: `passed` only where the kernel was executed."""
    report = verification.report
    if report is None or verification.verdict == "not executed":
        return f"not executed ({verification.why})"
    if verification.verdict == "failed":
        return f"FAILED on {report.executor}"
    passed = [case for case in report.cases if case.status == "passed"]
    refused = sum(check.status == "passed" for check in report.host_checks)
    cases = count(len(passed), "case") + report.orders_text
    parts = [cases, count(refused, "host check"), report.errors_text]
    if report.in_part:
        ran = f"{len(passed)} of {count(len(report.cases), 'case')}"
        parts[:2] = [ran, f"{refused} of {count(len(report.host_checks), 'host check')}"]
    large = sum(case.reason == "too large" for case in report.cases)
    poor = [sum(r.reason == "no memory" for r in some) for some in (report.cases, report.host_checks)]
    part = [sum(r.reason == "in part" for r in some) for some in (report.cases, report.host_checks)]
    left_out = {
        "too large": large,
        "not run": len(report.cases) - len(passed) - large - poor[0] - part[0],
        "host checks not run": len(report.host_checks) - refused - poor[1] - part[1],
        report.lacking: sum(poor),
    }
    parts += [f"{number} {what}" for what, number in left_out.items() if number]
    parts[-1] += report.idle_text
    return f"passed{' in part' * report.in_part} on {report.executor}: {', '.join(parts)}"


def build_json(report: BuildReport) -> dict[str, Any]:
    """A build as JSON: `{verb, ok, exit_code, diagnostics, problems, notices, kernels, removed}`, where a kernel is
    `{kernel, spec, file, action, targets: {TARGET: {...}}, spills, shared_memory, verification: {...}}`.
    """
    return {
        "verb": "build",
        "ok": report.exit_code == 0,
        "exit_code": report.exit_code,
        "diagnostics": [as_json(d) for d in report.diagnostics],
        "problems": [problem_json(p) for p in report.problems],
        "notices": list(report.notices),
        "kernels": [_kernel_json(kernel) for kernel in report.kernels],
        "removed": [shown(path) for path in report.removed],
    }


def _kernel_json(result: KernelResult) -> dict[str, Any]:
    """One kernel of a build as JSON."""
    return {
        "kernel": result.unit.kernel,
        "spec": result.unit.source.shown,
        "file": shown(result.unit.path),
        "action": result.action,
        "targets": {target: _outcome_json(outcome) for target, outcome in result.outcomes.items()},
        "spills": spills(result),
        "shared_memory": shared_memory(result),
        "verification": verification_json(result.verification),
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome of a compile as JSON: `{compiled, cached, seconds, registers, spill_stores, spill_loads, stack,
    static_smem, missing}`, or of one that failed `{compiled, kind, message, line, text}`.
    """
    if isinstance(outcome, Compiled):
        resources = vars(outcome.artefact.resources)
        timing = {"compiled": True, "cached": outcome.cached, "seconds": round(outcome.seconds, 3)}
        return {**timing, **resources, "missing": list(outcome.artefact.missing)}
    failed = {"kind": outcome.kind, "message": outcome.message, "line": outcome.line, "text": outcome.text}
    return {"compiled": False, **failed}


def verification_json(verification: Verification) -> dict[str, Any]:
    """A verification as JSON: `{verdict: passed|failed|not executed, why, report}`.

    The report has every case and host check, and says with `complete` whether all of them ran, and with `stopped`
    whether a failure ended the run before.
    """
    from cutegen.verification import as_json as report_json

    report = None if verification.report is None else report_json(verification.report)
    return {"verdict": verification.verdict, "why": verification.why, "report": report}


def problem_json(problem: Problem) -> dict[str, Any]:
    """A problem as JSON: `{message, help, path}`."""
    return {"message": problem.message, "help": problem.help, "path": problem.path}


# build --check, build --diff


def as_asked(state: FileState, *, allow_partial: bool) -> bool:
    """Whether a file is current; `allow_partial` accepts one that was verified in part."""
    return state.state == "current" or (allow_partial and state.state == "partial")


def print_check(states: Sequence[FileState], units: Sequence[Unit], *, allow_partial: bool) -> None:
    """Prints each file that is out of date and how to update it, or one line that says that all are current."""
    made = units_by_file(states, units)
    wrong = [state for state in states if not as_asked(state, allow_partial=allow_partial)]
    if partial := sum(state.state == "partial" for state in states if state not in wrong):
        print(f"note: {count(partial, 'generated file')} verified in part", file=sys.stderr)
    for state in wrong:
        print(f"{shown(state.path)}: {state.state}: {state.why}; {advice(state, made.get(state.path))}")
    if not wrong:
        files = "the generated file is" if len(states) == 1 else f"all {len(states)} generated files are"
        how = "current or verified in part" if partial else "current"
        print(f"{files} {how} (compared only: nothing was compiled or executed)")
    else:
        files = "the generated file is" if len(states) == 1 else f"{len(wrong)} of {len(states)} generated files are"
        print(f"{files} not current", file=sys.stderr)


def states_json(
    verb: str,
    states: Sequence[FileState],
    units: Sequence[Unit],
    diagnostics: Sequence[Diagnostic],
    *,
    diff: bool,
    allow_partial: bool = False,
) -> dict[str, Any]:
    """The states of files as JSON: `{verb, ok, diagnostics, files: [...]}`, a file being `{file, kind, state, why,
    advice, spec, diff?}`.
    """
    made = units_by_file(states, units)
    files = []
    for state in states:
        entry = {
            "file": shown(state.path),
            "kind": state.kind,
            "state": state.state,
            "why": state.why,
            "advice": advice(state, made.get(state.path)) or None,
            "spec": state.spec,
        }
        files.append({**entry, "diff": unified_diff(state)} if diff else entry)
    ok = all(as_asked(state, allow_partial=allow_partial) for state in states)
    return {"verb": verb, "ok": ok, "diagnostics": [as_json(d) for d in diagnostics], "files": files}


def unified_diff(state: FileState) -> str:
    """A diff from a file as it is (`a/`) to what a build makes of it (`b/`). Empty if the file is current."""
    name = shown(state.path)
    old = [] if state.found is None else state.found.decode("utf-8", errors="replace").splitlines(keepends=True)
    new = [] if state.wanted is None else state.wanted.splitlines(keepends=True)
    before = "/dev/null" if state.found is None else f"a/{name.lstrip('/')}"
    after = "/dev/null" if state.wanted is None else f"b/{name.lstrip('/')}"
    lines = difflib.unified_diff(old, new, before, after)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


# verify


def print_verify(units: Sequence[Unit], verifications: Sequence[Verification]) -> None:
    """Prints a table with the verification of each unit."""
    rows = [
        [unit.kernel, verification_text(v), f"{v.report.seconds:.1f} s" if v.report else "-"]
        for unit, v in zip(units, verifications, strict=True)
    ]
    print_table(("kernel", "verified", "time"), rows)


def verify_json(
    on: str,
    units: Sequence[Unit],
    verifications: Sequence[Verification],
    diagnostics: Sequence[Diagnostic],
    notices: Sequence[str] = (),
) -> dict[str, Any]:
    """Verifications as JSON: `{verb, on, ok, diagnostics, notices, kernels: [{kernel, spec, file, verification}]}`."""
    kernels = [
        {
            "kernel": unit.kernel,
            "spec": unit.source.shown,
            "file": shown(unit.path) if unit.has_file else None,
            "verification": verification_json(verification),
        }
        for unit, verification in zip(units, verifications, strict=True)
    ]
    ok = bool(kernels) and all(v.verdict == "passed" for v in verifications)
    return {
        "verb": "verify",
        "on": on,
        "ok": ok,
        "diagnostics": [as_json(d) for d in diagnostics],
        "notices": list(notices),
        "kernels": kernels,
    }


# receipts


def print_recorded(recorded: Recorded) -> None:
    """Prints which receipts were written, and what was not."""
    for path in recorded.written:
        print(f"{shown(path)} written")
    for notice in recorded.notices:
        print(f"note: {notice}", file=sys.stderr)
    for problem in recorded.problems:
        print(f"error: {problem}", file=sys.stderr)


def recorded_json(recorded: Recorded) -> dict[str, Any]:
    """The outcome of recording receipts as JSON: `{written, notices, problems}`."""
    written = [shown(path) for path in recorded.written]
    return {"written": written, "notices": list(recorded.notices), "problems": list(recorded.problems)}
