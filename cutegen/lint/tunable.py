"""The values that `tune` lists: each can stand in some schedule of the spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from cutegen.language import edits
from cutegen.language.context import Context
from cutegen.language.kinds import ByName, Record, keys_of
from cutegen.language.matrix import Variant
from cutegen.language.model import KernelSpec
from cutegen.language.names import shown
from cutegen.lint.asked import family_of
from cutegen.lint.rule import Say
from cutegen.lint.trial import as_written, try_out

MOST = 64  # combinations of other values that are tried beside one; of more, the others are tried one by one


def tuned_values(spec: KernelSpec, say: Say) -> None:
    """Each value is accepted beside the schedule that is written or an inferred one, or beside other values of `tune`.

    It is only said where nothing else is wrong: what is written could be the reason.
    """
    if say.report.failed:
        return
    axes = {path: [_read(spec, path, value) for value in values] for path, values in spec.tune.items()}
    for path, values in axes.items():
        others = {other: found for other, found in axes.items() if other != path}
        for number, value in enumerate(values):
            reason = ""
            for tried in _specs(spec, path, value, others):
                errors = [d for d in try_out(tried)[1] if d.severity == "error"]
                if not errors:
                    break
                reason = reason or f"{errors[0].code}: {errors[0].message}"
            else:
                field = path.removeprefix("schedule.")
                what = f"{field}: {shown(spec.tune[path][number])}"
                message = f"no schedule of this spec can have `{what}`, and `tune` would leave it out"
                say(message, "tune", path, number, notes=(reason,), help="remove it from the list")


def _specs(spec: KernelSpec, path: str, value: Any, others: Mapping[str, list[Any]]) -> Iterator[KernelSpec]:
    """The spec with a value in its schedule, without `tune`: as it is written, else inferred, and beside `others`."""
    written = replace(as_written(spec), tune={})
    bases = (written, replace(written, schedule=family_of(spec).schedule()))
    choices: list[dict[str, Any]] = [{}, *({other: found} for other, values in others.items() for found in values)]
    if prod(map(len, others.values())) <= MOST:
        choices += [dict(zip(others, found, strict=True)) for found in product(*others.values())]
    for choice in choices:
        for base in bases:
            schedule = base.schedule
            for field, found in ((path, value), *choice.items()):
                schedule = edits.with_value(schedule, tuple(field.split("."))[1:], found)
            yield replace(base, schedule=schedule)


def _read(spec: KernelSpec, path: str, value: Any) -> Any:
    """The model's value of one that `tune` lists, which the language has accepted."""
    kind: Any = Record(family_of(spec).schedule)
    for step in path.split(".")[1:]:
        kind = kind.each if isinstance(kind, ByName) else keys_of(kind.record)[step].kind
    return kind.read(value, Context(Variant({}, spec.source, {})), tuple(path.split(".")))
