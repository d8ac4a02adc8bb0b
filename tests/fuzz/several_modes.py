"""Rowwise specs by chance whose rows go along several modes: made of those with one, in place of which two stand."""

from __future__ import annotations

from typing import Any

from tests.fuzz.chance import Chance

OUTER = "wide"  # the mode that comes before the row's own


def with_several_modes(chance: Chance, document: dict[str, Any], row: str) -> dict[str, Any]:
    """The document with rows of two modes; inputs have both, or one of them now and then."""
    compute = [statement.replace(f", {row})", f", {OUTER}, {row})") for statement in document["compute"]]
    tensors = {}
    for number, (name, tensor) in enumerate(document["tensors"].items()):
        both = [OUTER, row] if number == 0 or tensor.get("role", "in") != "in" else None
        both = both or chance.choice([[OUTER, row], [OUTER, row], [OUTER], [row]])
        shape = [m for mode in tensor["shape"] for m in (both if mode == row else [mode])]
        tensors[name] = {**tensor, "shape": shape}
        if tensor.get("major") == row:
            tensors[name]["major"] = both[-1]
    found = {**document, "tensors": tensors, "compute": compute}
    if "schedule" in document:
        found["schedule"] = _renamed(document["schedule"], row)
    fixed = dict(document.get("static", {}))
    if row in fixed and chance.odds(0.7):
        outer = chance.choice([n for n in (1, 2, 3, 4, 5, 7, 16) if n <= fixed[row]])
        fixed |= {OUTER: outer, row: max(1, fixed[row] // outer)}
    elif chance.odds(0.3):
        fixed[OUTER] = chance.choice([1, 3, 8])
    found |= {"static": fixed} if fixed else {}
    for key in ("verify", "bench"):
        found.pop(key, None)
    return found


def _renamed(schedule: Any, row: str) -> Any:
    """A schedule that calls the row by both of its modes."""
    if isinstance(schedule, dict):
        return {f"{OUTER}*{row}" if key == row else key: _renamed(value, row) for key, value in schedule.items()}
    return schedule
