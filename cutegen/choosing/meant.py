"""Which family a schedule means: by its mma atom, by a misspelt one, or by the words that stand there without one."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

from cutegen.language.kinds import Path, Record
from cutegen.language.names import nearest
from cutegen.registry import families, family_of

if TYPE_CHECKING:
    from cutegen.family import AnyFamily


def families_meant(op: str, schedule: Any) -> tuple[AnyFamily, ...]:
    """The families that a schedule may be of: the one of its mma atom, or all that have its words, the fastest first.

    Where none has them all, it is the op's first one of those that lack the fewest. Raises KeyError for an op that
    there is not.
    """
    first = family_of(op, schedule)
    own = [family for family in families() if family.op.name == op]
    if is_named(op, schedule) or not isinstance(schedule, Mapping):
        return (first,)
    written = {key: value for key, value in schedule.items() if key != "for"}
    lacking = [sum(1 for _ in _validator(family).iter_errors(written)) for family in own]
    having = [family for family, missing in zip(own, lacking, strict=True) if not missing]
    return tuple(reversed(having)) or (own[lacking.index(min(lacking))],)


def is_named(op: str, schedule: Any) -> bool:
    """Whether a schedule says by itself which family it is of: by its mma atom, or since its op has no other."""
    return _atom_of(schedule) is not None or sum(family.op.name == op for family in families()) == 1


@cache
def _validator(family: AnyFamily) -> Any:
    """The JSON Schema validator that rejects words that the family's schedules do not have."""
    import jsonschema  # late: an import that only reading a spec needs

    placeholder = {"type": "string", "pattern": "^\\{.*\\}$"}
    words = Record(family.schedule).schema("")
    return jsonschema.Draft7Validator({**words, "definitions": {"placeholder": placeholder}})


def with_known_atoms(data: Any) -> tuple[Any, tuple[Path, ...]]:
    """The document with the nearest known atom in place of each that there is not, and where these stand; and with the
    atom that is meant where one was left out of words which no family has together. Else it is the document itself.
    """
    found: list[tuple[Path, str]] = []
    left_out: list[tuple[Path, str]] = []
    if isinstance(data, Mapping):
        known = [atom for family in families() if family.op.name == data.get("op") for atom in family.atoms]
        schedule = data.get("schedule")
        cases = enumerate(schedule) if isinstance(schedule, list) else [(None, schedule)]
        for number, case in cases:
            path: Path = ("schedule", *([] if number is None else [number]), "mma", "atom")
            atom = _atom_of(case)
            near = nearest(atom, known) if isinstance(atom, str) and _misspelt(atom, known) else None
            if near:
                found.append((path, near))
            elif known and atom is None and isinstance(case, Mapping) and isinstance(case.get("mma", {}), Mapping):
                meant_by = families_meant(data["op"], case)
                left_out += [(path, meant_by[0].atoms[0])] * (len(meant_by) == 1)
    if not found and not left_out:
        return data, ()
    meant = deepcopy(data)
    for path, atom in (*found, *left_out):
        place = meant
        for step in path[:-1]:
            place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
        place[path[-1]] = atom
    return meant, tuple(path for path, _ in found)


def _atom_of(schedule: Any) -> Any:
    """The mma atom of a schedule as written; None where there is none."""
    mma = schedule.get("mma") if isinstance(schedule, Mapping) else None
    return mma.get("atom") if isinstance(mma, Mapping) else None


def _misspelt(atom: str, known: list[str]) -> bool:
    """Whether an atom is none of those, and no placeholder for one."""
    return atom not in known and "{" not in atom
