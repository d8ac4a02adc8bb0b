"""Values for the fields of a schedule, of any family: what the schema lets stand there, and what is near to that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutegen.language.kinds import ByName, Choice, DtypeName, Integer, Kind, LayoutText, Record, keys_of
from cutegen.registry import family_of
from tests.fuzz import layouts
from tests.fuzz.chance import Chance

NEAR = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 31, 32, 33, 48, 64, 65, 96, 100, 127, 128, 129, 255, 256, 512, 1000)
FAR = (1024, 4096, 8191, 65535, 65536, 65537, 2**20, 2**24, 2**31 - 1)


def schedule(chance: Chance, op: str, names: Sequence[str], share: float) -> dict[str, Any]:
    """A schedule of the op with any of its fields, each there in that share of calls.

    `names` are what mappings and texts name: modes and tensors.
    """
    return _record(chance, family_of(op, {}).schedule, names, share)


def _record(chance: Chance, record: type, names: Sequence[str], share: float) -> dict[str, Any]:
    found = {}
    for name, key in keys_of(record).items():
        if key.required or chance.odds(share):
            found[name] = value(chance, key.kind, names, share)
    return found


def value(chance: Chance, kind: Kind, names: Sequence[str], share: float = 0.5) -> Any:
    """Something that may stand where the language wants that kind."""
    match kind:
        case Record():
            return _record(chance, kind.record, names, share)
        case ByName():
            chosen = chance.sample(list(names), min(len(names), chance.choice([1, 1, 2, 3])))
            return {name: value(chance, kind.each, names, share) for name in chosen}
        case Choice():
            return chance.choice(kind.choices)
        case DtypeName():
            return chance.choice(kind.choices).value
        case Integer():
            allowed = [n for n in NEAR if kind.least <= n <= kind.most] or [kind.least]
            edges = [kind.least, kind.most, *(n for n in FAR if kind.least <= n <= kind.most)]
            return chance.choice(edges) if chance.odds(0.15) else chance.choice(allowed)
        case LayoutText():
            return layouts.anything(chance)
    return chance.choice(list(names))


def steps(chance: Chance, op: str, names: Sequence[str]) -> tuple[tuple[str, ...], Kind]:
    """The way to some field of the op's schedule, and what may stand there."""
    kind: Kind = Record(family_of(op, {}).schedule)
    way: list[str] = []
    while isinstance(kind, Record | ByName) and (not way or chance.odds(0.9)):
        if isinstance(kind, Record):
            own = keys_of(kind.record)
            way.append(chance.choice(list(own)))
            kind = own[way[-1]].kind
        else:
            way.append(chance.choice(list(names)))
            kind = kind.each
    return tuple(way), kind
