"""Presents the result of a search as text and as JSON."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.tuning.model import DUPLICATE, Candidate
from cutegen.tuning.result import Result
from cutegen.tuning.schedules import differences
from cutegen.tuning.search import changes_text

FEW = 4  # times in a cell
SHOWN = 10  # candidates of a table, and dropped ones of a kind


def counts_lines(result: Result, dry: bool = False) -> list[str]:
    """How many schedules there were, and what became of them, a line each.

    Of a `dry` run, candidates that were not compiled any more are left as well.
    """
    size = result.space.size
    axes = " x ".join(f"{len(axis.choices)} {axis.name.removeprefix('schedule.')}" for axis in result.space.axes)
    sample = f", of which {result.tried} were looked at" if result.tried < size else ""
    lines = [f"{size} schedules ({axes}){sample}"]
    if result.unseen:
        lines.append(f"{result.unseen} not looked at before the budget was spent; --budget raises how many are")
    pruned = {by: count for by, count in sorted(result.pruned.items()) if by != DUPLICATE}
    if pruned:
        lines.append(f"{sum(pruned.values())} refused: {', '.join(f'{count} by {by}' for by, count in pruned.items())}")
    if result.pruned[DUPLICATE]:
        lines.append(f"{result.pruned[DUPLICATE]} make the same code as another one")
    if result.left_out:
        lines.append(f"{result.left_out} left out as least promising; --max raises how many are tried")
    if result.untried:
        lines.append(f"{result.untried} not compiled before the budget was spent; --budget raises how many are tried")
    dropped: dict[str, int] = {}
    for one in result.dropped:
        dropped[one.by] = dropped.get(one.by, 0) + 1
    if dropped:
        told = ", ".join(f"{count} {by}" for by, count in dropped.items())
        lines.append(f"{sum(dropped.values())} dropped later: {told}")
    count = len(result.candidates) + (result.untried if dry else 0)
    part = f", {len(result.candidates)} of them compiled" if dry and result.untried else ""
    lines.append(f"{count} candidate{'s' * (count != 1)} left{part}")
    return lines


def dropped_lines(result: Result) -> list[str]:
    """Candidates that failed after pruning, in the order of their numbers; some of each kind."""
    lines, seen = [], dict[str, int]()
    for one in result.dropped:
        seen[one.by] = seen.get(one.by, 0) + 1
        if seen[one.by] <= SHOWN:
            what = _set_text(differences(result.space.schedule, one.schedule)) if one.number else "the spec as it is"
            lines.append(f"candidate {one.number} ({what}): {one.by}: {one.message}")
    lines += [f"and {count - SHOWN} more: {by}" for by, count in seen.items() if count > SHOWN]
    return lines


COLUMNS = ("candidate", "time", "spread", "rounds", "us", "schedule")


def rows(result: Result) -> list[list[str]]:
    """The rows of the table of the best candidates, best first, and of the spec as it is.

    Times are shares of the spec's.
    """
    found = [
        [
            f"{candidate.number}{' (winner)' if candidate is result.winner else ''}",
            f"{score.ratio:.3f}",
            f"{score.spread:.3f}",
            str(score.rounds),
            _us(score.us),
            changes_text(result.incumbent, candidate),
        ]
        for candidate, score in result.ranking[:SHOWN]
    ]
    return [*found, ["0", "1.000", "", "", _us(result.incumbent_us), "the spec as it is"]]


DRY_COLUMNS = ("candidate", "registers", "schedule")


def dry_rows(result: Result) -> list[list[str]]:
    """The rows of candidates that were not timed: those that compiled, the most promising first, and then the others.

    Registers are as a build shows them.
    """
    found = []
    for place, candidate in enumerate([*result.candidates, *result.uncompiled][:SHOWN]):
        registers = [str(r) for by_target in candidate.registers.values() for r in by_target.values()]
        text = ", ".join(dict.fromkeys(registers)) or ("?" if place < len(result.candidates) else "not compiled")
        found.append([str(candidate.number), text, changes_text(result.incumbent, candidate)])
    return found


def dry_rest(result: Result) -> str:
    """A remark on how many candidates the table does not show; empty if it shows all."""
    more = len(result.candidates) + result.untried - SHOWN
    return f"and {more} more; --format json lists all" if more > 0 else ""


def verdict(result: Result) -> str:
    """The last line of what a search prints: whether something is faster than the spec."""
    if result.stopped:
        return result.stopped
    if result.winner is not None:
        score = result.ranking[0][1]
        return (
            f"candidate {result.winner.number} takes {score.ratio:.3f} of the spec's time (spread {score.spread:.3f})"
        )
    if not result.ranking:
        return "no candidate could be timed to the end"
    score = result.ranking[0][1]
    best = f"{score.ratio:.3f} of its time (spread {score.spread:.3f})"
    return f"nothing is faster than the spec by more than the spread: the best candidate takes {best}"


def diff(old: str, new: str, name: str) -> str:
    """A unified diff of the spec file of that name."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"{name} (as it is)", f"{name} (tuned)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def as_json(result: Result) -> dict[str, Any]:
    """A search's result as JSON: `{kernels, space, pruned, left_out, untried, dropped, candidates, uncompiled,
    ranking, incumbent_us, winner, stopped, budget_spent, gpu, versions, gpus, notices}`.
    """
    return {
        "kernels": list(result.incumbent.bodies),
        "space": {
            "schedules": result.space.size,
            "tried": result.tried,
            "unseen": result.unseen,
            "axes": [{"name": axis.name, "choices": len(axis.choices)} for axis in result.space.axes],
        },
        "pruned": dict(sorted(result.pruned.items())),
        "left_out": result.left_out,
        "untried": result.untried,
        "dropped": [
            {"candidate": one.number, "schedule": one.schedule, "by": one.by, "message": one.message}
            for one in result.dropped
        ],
        "candidates": _candidates(result.candidates),
        "uncompiled": _candidates(result.uncompiled),
        "ranking": [
            {
                "candidate": candidate.number,
                "ratio": score.ratio,
                "spread": score.spread,
                "rounds": score.rounds,
                "us": dict(score.us),
                "schedule": candidate.schedule,
                "changes": _changes(candidate, result.incumbent),
            }
            for candidate, score in result.ranking
        ],
        "incumbent_us": dict(result.incumbent_us),
        "winner": None if result.winner is None else result.winner.number,
        "stopped": result.stopped or None,
        "budget_spent": result.late,
        "gpu": None if result.place is None else result.place.gpu,
        "versions": None if result.place is None else dict(result.place.versions),
        "gpus": result.gpus,
        "notices": result.notices,
    }


def _candidates(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Candidates as JSON: `[{candidate, schedule, bodies, excess, registers}]`."""
    return [
        {
            "candidate": c.number,
            "schedule": c.schedule,
            "bodies": dict(c.bodies),
            "excess": c.excess,
            "registers": {kernel: dict(by_target) for kernel, by_target in c.registers.items()},
        }
        for c in candidates
    ]


def _changes(candidate: Candidate, incumbent: Candidate) -> list[dict[str, Any]]:
    """Returns a candidate's changes to the spec's schedule, as JSON: `[{path, old, new}]`."""
    changes = candidate.changes(incumbent.schedule)
    return [{"path": f"schedule.{path}", "old": old, "new": new} for path, (old, new) in changes.items()]


def _set_text(changes: Mapping[str, Sequence[Any]]) -> str:
    """Returns the fields of the schedule that a candidate sets, as text."""
    kept = [f"{path} {new}" for path, (_, new) in changes.items() if new is not None]
    return ", ".join(kept) or "fields left to planning"


def _us(times: Mapping[str, float]) -> str:
    """The first few of times in microseconds, in words: `12.3, 4.5, ...`."""
    shown = [f"{us:.1f}" for us in times.values()]
    return ", ".join(shown if len(shown) <= FEW else [*shown[:FEW], "..."])
