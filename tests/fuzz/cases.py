"""Schedules of several cases, made of a document that has one."""

from __future__ import annotations

from typing import Any

from tests.fuzz.chance import Chance

TARGETS = ("sm_80", "sm_90a")


def with_cases(chance: Chance, document: dict[str, Any], small: bool) -> dict[str, Any]:
    """The document with cases that have its schedule, or none that is written; mostly the last one is for the rest."""
    modes = list(dict.fromkeys(mode for tensor in document["tensors"].values() for mode in tensor["shape"]))
    own = document.get("schedule", {})
    cases: list[dict[str, Any]] = []
    for _ in range(chance.choice([1, 1, 2] if small else [1, 1, 2, 3])):
        schedule = own if chance.odds(0.5) else {}
        cases.append({"for": _conditions(chance, modes), **schedule})
    if chance.odds(1.0 if small else 0.9):
        cases.append(own if chance.odds(0.6) else {})
    return {key: value for key, value in document.items() if key != "tune"} | {"schedule": cases}


def _conditions(chance: Chance, modes: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if chance.odds(0.3):
        found["target"] = chance.choice([*TARGETS, list(TARGETS)])
    for mode in chance.part(modes):
        if chance.odds(0.7):
            some = [_size(chance) for _ in range(chance.choice([1, 1, 1, 2]))]
            found[mode] = some[0] if len(some) == 1 else some
    if chance.odds(0.3) or not found:
        found["align"] = chance.choice([4, 8, 16, 16, 32])
    return found


def _size(chance: Chance) -> str | int:
    number = chance.choice([1, 2, 7, 16, 33, 64, 128, 1000])
    return chance.choice(
        [number, f"<= {number}", f"< {number + 1}", f">= {number}", f"> {number}", f"% {number + 1} == 0"]
    )
