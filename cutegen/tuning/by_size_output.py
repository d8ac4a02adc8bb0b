"""Presents the results of searches by the size of a mode, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutegen.tuning import output
from cutegen.tuning.by_size import BySize
from cutegen.tuning.search import changes_text

COLUMNS = ("case", "sizes", "time", "schedule")


def rows(told: BySize) -> list[list[str]]:
    """The rows of the table of cases: their sizes, and the time there as shares of that of the spec as it is."""
    cases = told.cases
    found = []
    for number, case in enumerate(cases):
        condition = f"{told.mode} <= {case[-1].size}" if number < len(cases) - 1 else "all else"
        sizes = ", ".join(str(one.size) for one in case)
        times = ", ".join(f"{one.ratio:.3f}" for one in case)
        chosen = case[0]
        text = changes_text(chosen.result.incumbent, chosen.chosen) if chosen.chosen.number else "the spec as it is"
        found.append([condition if len(cases) > 1 else "all", sizes, times, text])
    return found


def as_json(told: BySize) -> Mapping[str, Any]:
    """The searches and the cases, as plain data."""
    cases = [
        {
            "sizes": [one.size for one in case],
            "candidate": case[0].chosen.number,
            "schedule": dict(case[0].chosen.schedule),
        }
        for case in told.cases
    ]
    searches = [{"size": one.size, **output.as_json(one.result)} for one in told.found]
    return {"mode": told.mode, "cases": cases, "searches": searches, "notices": list(told.notices)}
