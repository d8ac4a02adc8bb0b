"""`tune`: fields of the schedule by dotted path, each with values to try that could stand there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutegen.expressions.tree import Compute
from cutegen.language import schema
from cutegen.language.asked import Family
from cutegen.language.context import Context
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.kinds import Path, Record
from cutegen.language.matrix import Text, Variant
from cutegen.language.model import Schedule, Source, Tensor
from cutegen.language.names import nearest, shown


def read_schedule(ctx: Context, family: Family, tensors: Mapping[str, Tensor], compute: Compute | None) -> Schedule:
    """The schedule as written; keys that would have no effect are refused.

    Without `compute`, what depends on it is left unchecked: what is wrong with it has been said.
    """
    schedule: Schedule = Record(family.schedule).read(ctx.data.get("schedule", {}), ctx, ("schedule",))
    family.check_schedule(ctx, schedule, tensors, compute)
    return schedule


def at_path(variant: Variant, where: Path, path: Path, value: Any) -> Variant:
    """The document with `value` at `path`, a key of its own, which is what was written at `where`."""
    source, texts = _moved(variant, where, path)
    return Variant({**variant.data, path[0]: value}, source, texts)


def tune(
    ctx: Context, family: Family, tensors: Mapping[str, Tensor], compute: Compute | None
) -> dict[str, tuple[Any, ...]]:
    """The values to try by dotted path. What could not be written at its path is said at the value."""
    data: Mapping[str, Any] = ctx.data.get("tune", {})
    if data and family.op.unmeasured is not None:
        help = f"remove `tune`: {family.op.unmeasured}"
        ctx.say("CG203", f"`tune` does not apply to a {family.op.name}", "tune", key=True, help=help)
        return {}
    if data and isinstance(ctx.data.get("schedule"), list):
        help = "tune the schedule of each case as a spec of its own"
        ctx.say("CG203", "`tune` does not apply to a schedule of several cases", "tune", key=True, help=help)
        return {}
    paths: dict[str, tuple[str, ...]] = {}
    for name in data:
        path = tuple(name.split("."))
        if path[0] != "schedule" or len(path) == 1 or not all(path):
            message = f"`{shown(name)}` is not a path to a field of the schedule"
            ctx.say("CG101", message, "tune", name, key=True, help=_path_help(ctx.data, name))
            continue
        for other, taken in paths.items():
            if path[: len(taken)] == taken or taken[: len(path)] == path:
                message = f"`{shown(name)}` and `{shown(other)}` set the same field"
                ctx.say("CG010", message, "tune", name, key=True, help="leave one of them out")
        paths[name] = path
    for name in paths:
        for number in range(len(data[name])):
            ctx.found += _problems(ctx, family, tensors, compute, paths, name, number)
    return {name: tuple(data[name]) for name in paths}


def _path_help(data: Mapping[str, Any], name: str) -> str:
    """The path of the field that a misspelt `name` probably meant, if it has the name of a field of the schedule."""
    first, dot, rest = name.strip(".").partition(".")
    known = schema.schedule_schema(data["op"], data.get("schedule"))["properties"]
    field = first if first in known else nearest(first, known)
    if field is None or first == "schedule" or not all(rest.split(".")[: len(rest)]):
        return "only fields of the schedule can be tuned, as in `schedule.tiler`"
    verb = "write" if field == first else "did you mean"
    return f"{verb} `schedule.{field}{dot}{shown(rest)}`" + "?" * (field != first)


def _problems(
    ctx: Context,
    family: Family,
    tensors: Mapping[str, Tensor],
    compute: Compute | None,
    paths: Mapping[str, Path],
    name: str,
    number: int,
) -> list[Diagnostic]:
    """Diagnostics on value `number` in the list of `name`: why it cannot be written at its path.

    Conflicts with other fields are not among them: those may be tuned too, and `explain` writes all of them. Keys that
    the schema requires beside the value are added, as they are written or else with a value to try that is valid there.
    If no such value is valid, the fault lies with them, and this value is not judged. The mma atom is added as well,
    since it decides which keys the schedule has.
    """
    path = paths[name]
    others = {other: there for other, there in paths.items() if other != name}
    inner = ctx.data["tune"][name][number]
    for depth in range(len(path) - 1, 0, -1):
        written, missing = _required(ctx.data, family, path[:depth], path[depth])
        beside: dict[str, Any] = {}
        for key in missing:
            named = next((other for other, there in others.items() if there == (*path[:depth], key)), None)
            if named is None:
                continue  # the schema says so
            values = ctx.data["tune"][named]
            fits = (n for n in range(len(values)) if not _problems(ctx, family, tensors, compute, others, named, n))
            first = next(fits, None)
            if first is None:
                return []
            beside[key] = values[first]
        inner = {**written, **beside, path[depth]: inner}
    source, texts = _moved(ctx.variant, ("tune", name, number), path)
    data = {**ctx.data, "schedule": _with_atom(ctx.data, family, path, inner)}
    wrong = schema.check(data, source)
    if not wrong:
        tried = Context(Variant(data, source, texts))
        read_schedule(tried, family, tensors, compute)
        wrong = tried.found
    return wrong


def _with_atom(data: Mapping[str, Any], family: Family, path: Path, schedule: Any) -> Any:
    """A schedule with the mma atom that is written, or else the family's if there are others, unless `path` of it says
    another.
    """
    written = data.get("schedule")
    mma = written.get("mma") if isinstance(written, Mapping) else None
    atom = mma.get("atom") if isinstance(mma, Mapping) else None
    atom = atom or next(iter(family.atoms), None)
    own = schedule.get("mma", {}) if isinstance(schedule, Mapping) else None
    if atom is None or path == ("schedule", "mma") or not isinstance(own, Mapping) or "atom" in own:
        return schedule
    return {**schedule, "mma": {**own, "atom": atom}}


def _required(data: Mapping[str, Any], family: Family, path: Path, given: object) -> tuple[dict[str, Any], list[str]]:
    """The keys that the schema always requires at `path` besides `given`: those written there, with their values, and
    the names of the missing ones.
    """
    node, found = Record(family.schedule).schema(""), data
    for step in path[1:]:
        node = node.get("properties", {}).get(str(step), node.get("additionalProperties")) or {}
    for step in path:
        inner = found.get(str(step))
        found = inner if isinstance(inner, Mapping) else {}
    wanted = [key for key in node.get("required", ()) if key != given]
    return {key: found[key] for key in wanted if key in found}, [key for key in wanted if key not in found]


def _moved(variant: Variant, where: Path, path: Path) -> tuple[Source, dict[Path, Text]]:
    """The places of a document that has at `path` what was written at `where`; the path itself stands in a key."""

    def at(old: Path) -> Path | None:
        if old[: len(where)] == where:
            return (*path, *old[len(where) :])
        return None if old[:1] == ("schedule",) and len(old) > 1 else old

    def moved(places: Mapping[Path, Any]) -> dict[Path, Any]:
        return {new: place for old, place in places.items() if (new := at(old)) is not None}

    source = variant.source
    keys, values = moved(source.keys), moved(source.values)
    named = source.at(*where[:2], key=True)  # where a misspelt `tune` was read as it, the place of what it stands in
    for depth in range(1, len(path) + 1):
        keys[path[:depth]] = named
        if depth < len(path):
            values[path[:depth]] = named
    return Source(source.path, keys, values), moved(variant.texts)
