"""Elementwise specs by chance, near to what is valid: layouts, tilers and widths mostly fit each other."""

from __future__ import annotations

from math import prod
from typing import Any

from cutegen.dtypes import Dtype
from tests.fuzz import declarations as declare
from tests.fuzz.chance import Chance
from tests.fuzz.layouts import compact
from tests.fuzz.statements import Writer

THREADS, VALUES = (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 8)


def elementwise(chance: Chance, small: bool) -> dict[str, Any]:
    """The document of one; `small` ones are cheap to compile and run, and expect nothing of the compiler."""
    rank = chance.weighted({1: 3, 2: 6, 3: 2, 4: 0.8, 5: 0.6})
    modes = list(chance.choice(declare.MODES)[:rank])
    tensors = _tensors(chance, modes, small)
    scalars = declare.scalars(chance)
    document: dict[str, Any] = {"op": "elementwise", "tensors": tensors}
    document |= {"scalars": scalars} if scalars else {}
    document["compute"] = _compute(chance, tensors, scalars, modes, small)
    schedule, promised = _schedule(chance, modes, tensors, small)
    if schedule and chance.odds(0.85):
        document["schedule"] = schedule
    document |= {key: value for key, value in promised.items() if value}
    document |= declare.targets(chance, small) | declare.shapes(chance, modes, promised, small)
    if not small and chance.odds(0.1):
        document |= declare.expect(chance)
    if not small and chance.odds(0.1):
        document["tune"] = {"schedule.copy.bits": [32, 64, 128], "schedule.partition": ["inner", "thread_value"]}
    return document


def _tensors(chance: Chance, modes: list[str], small: bool) -> dict[str, Any]:
    outputs = chance.sample(declare.OUTPUTS, chance.weighted({1: 75, 2: 18, 3: 7}))
    inputs = chance.sample(declare.INPUTS, chance.weighted({0: 3, 1: 40, 2: 35, 3: 15, 5: 5}))
    entries = []
    for name in inputs:
        shape = modes if chance.odds(0.65) else chance.part(modes, 1)
        entries.append((name, declare.tensor(chance, shape, declare.dtype_of(chance), small)))
    for name in outputs:
        role = "inout" if chance.odds(0.15) else "out"
        entries.append((name, declare.tensor(chance, modes, declare.dtype_of(chance), small, role=role)))
    if chance.odds(0.2):
        chance.shuffle(entries)
    return dict(entries)


def _compute(
    chance: Chance, tensors: dict[str, Any], scalars: dict[str, str], modes: list[str], small: bool
) -> str | list[str]:
    read = {name: t["dtype"] for name, t in tensors.items() if t.get("role", "in") == "in"}
    writer = Writer(chance, {**read, **scalars}, modes, plain=small)
    statements = []
    for number in range(chance.choice([0, 0, 0, 1, 2])):
        flag = chance.odds(0.15)
        statements.append(f"v{number} = {writer.truth() if flag else writer.number()}")
        writer.types[f"v{number}"] = "bool" if flag else "f32"
    outputs = [name for name, t in tensors.items() if t.get("role", "in") != "in"]
    for name in outputs:
        own, before = tensors[name], dict(writer.types)
        if own["role"] == "inout":
            writer.types = {**before, name: own["dtype"]}
        statements.append(f"{name} = {writer.stored(own['dtype'], last=name == outputs[-1] or own['role'] == 'inout')}")
        writer.types = before
        if chance.odds(0.3):  # what was computed, for the statements after it
            writer.types[name] = own["dtype"] if own["dtype"] == "bool" else "f32"
            writer.used.add(name)
    return statements[0] if len(statements) == 1 and chance.odds(0.8) else statements


def _widest_run(tensors: dict[str, Any], modes: list[str]) -> tuple[int, int]:
    """The most elements of one access, and the bytes of the widest element of a tensor with all modes."""
    whole = [t for t in tensors.values() if len(t["shape"]) == len(modes)]
    widest = max(Dtype(t["dtype"]).bytes for t in whole)
    major = next(t for t in tensors.values() if t.get("role", "in") != "in").get("major", modes[-1])
    along = [t for t in whole if t.get("major", modes[-1]) == major]
    return min([16 // widest, *(t.get("align", 16) // Dtype(t["dtype"]).bytes for t in along)]), widest


def _schedule(
    chance: Chance, modes: list[str], tensors: dict[str, Any], small: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schedule, and the promises about sizes that go with it."""
    widest_run, widest = _widest_run(tensors, modes)
    output = next(t for t in tensors.values() if t.get("role", "in") != "in")
    major = output.get("major", modes[-1])
    partition = chance.choice(["inner", "inner_outer", "thread_value"])
    most = 128 if small else 1024
    threads, values = _dealt(chance, len(modes), most, 64 if small else 256)
    schedule: dict[str, Any] = {"partition": partition}
    run = 0
    match partition:
        case "inner":
            fields = {"tiler": dict(zip(modes, values, strict=True)), "threads": min(most, 4 * prod(threads))}
            schedule |= chance.some(fields, 0.6)
        case "inner_outer":
            rest = prod(v for m, v in zip(modes, values, strict=True) if m != major)
            fits = min(widest_run, (64 if small else 512) // rest)
            if run := chance.choice([0, *(r for r in (16, 8, 4, 2, 1) if r <= fits)]):
                schedule["copy"] = {"bits": run * 8 * widest}
                own = run * chance.choice([1, 1, 2])
                values = tuple(own if m == major else v for m, v in zip(modes, values, strict=True))
            schedule["thread_layout"] = compact(chance, threads)
            schedule["tiler"] = {m: t * v for m, t, v in zip(modes, threads, values, strict=True)}
        case _:
            layouts = {"thread_layout": compact(chance, threads), "value_layout": compact(chance, values)}
            schedule |= chance.some(layouts, 0.8)
            if chance.odds(0.15):
                schedule["copy"] = {"bits": chance.choice([8, 16, 32, 64, 128])}
    if chance.odds(0.3):  # it follows from the other keys
        del schedule["partition"]
    if chance.odds(0.4):
        schedule["predication"] = {m: chance.choice(["none", "mask"]) for m in chance.part(modes)}
    if chance.odds(0.25):
        schedule["scheduler"] = {"raster": chance.choice(modes)}
    if chance.odds(0.2):
        more: dict[str, Any] = {"atom": "cp_async" if chance.odds(0.05) else "universal"}
        more["evict_priority"] = chance.choice(["evict_normal", "no_allocate", "evict_first"])
        more["fallback"] = chance.choice(["narrow", "refuse", "refuse"])
        schedule["copy"] = {**schedule.get("copy", {}), **chance.some(more)}
    free = [m for m in modes if schedule.get("predication", {}).get(m) != "none"]
    divisible = {m: chance.choice([1, 2, 8, 40, 96]) for m in modes if chance.odds(0.15)}
    fixed = {m: chance.choice([1, 6, 41, 64]) for m in free if m not in divisible and chance.odds(0.12)}
    return schedule, {"divisible": divisible, "static": fixed}


def _dealt(chance: Chance, rank: int, threads: int, values: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Threads and values along each mode, of which there are so many at most."""
    found: list[tuple[int, ...]] = []
    for choices, most in ((THREADS, threads), (VALUES, values)):
        sides: list[int] = []
        for _ in range(rank):
            sides.append(chance.choice([c for c in choices if c * prod(sides) <= most]))
        chance.shuffle(sides)
        found.append(tuple(sides))
    return found[0], found[1]
