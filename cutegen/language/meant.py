"""What a spec with a misspelt mma atom means: the atom names the family, and with it the words of the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from cutegen.language.kinds import Path
from cutegen.language.names import nearest
from cutegen.registry import families


def with_known_atoms(data: Any) -> tuple[Any, tuple[Path, ...]]:
    """The document with the nearest known atom in place of each that there is not, and where these stand; the document
    itself where all are known, or near nothing.
    """
    found: list[tuple[Path, str]] = []
    if isinstance(data, Mapping):
        known = [atom for family in families() if family.op.name == data.get("op") for atom in family.atoms]
        schedule = data.get("schedule")
        cases = enumerate(schedule) if isinstance(schedule, list) else [(None, schedule)]
        for number, case in cases:
            mma = case.get("mma") if isinstance(case, Mapping) else None
            atom = mma.get("atom") if isinstance(mma, Mapping) else None
            near = nearest(atom, known) if isinstance(atom, str) and _misspelt(atom, known) else None
            if near:
                found.append((("schedule", *([] if number is None else [number]), "mma", "atom"), near))
    if not found:
        return data, ()
    meant = deepcopy(data)
    for path, atom in found:
        place = meant
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = atom
    return meant, tuple(path for path, _ in found)


def _misspelt(atom: str, known: list[str]) -> bool:
    """Whether an atom is none of those, and no placeholder for one."""
    return atom not in known and "{" not in atom
