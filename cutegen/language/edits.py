"""A record of the model with another value at a path, as `schedule.smem.A.pad` would be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from cutegen.language.kinds import ByName, Kind, Path, Record, default_of, key_name, keys_of

R = TypeVar("R")


def with_value(record: R, path: Path, value: Any) -> R:
    """The record with `value` at a path of its keys; None leaves a key to planning, and takes a mapping's entry out.

    Records on the way that were not there are made. Raises KeyError for a step that is no key.
    """
    return _changed(Record(type(record)), record, path, value)  # type: ignore[no-any-return]


def _changed(kind: Kind | None, old: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, rest = str(path[0]), path[1:]
    if isinstance(kind, Record):
        if old is None:
            old = kind.record()
        inner, own = keys_of(kind.record)[step].kind, next(f.name for f in fields(kind.record) if key_name(f) == step)
        new = _changed(inner, getattr(old, own), rest, value)
        if new is None and not rest:
            new = next(default_of(f) for f in fields(kind.record) if f.name == own)
        return replace(old, **{own: new})
    if isinstance(kind, ByName):
        entries: Mapping[str, Any] = old or {}
        new = _changed(kind.each, entries.get(step), rest, value)
        return {**entries, step: new} if new is not None else {k: v for k, v in entries.items() if k != step}
    raise KeyError(step)


def as_written(record: R, path: Path, is_written: Any) -> R:
    """The record that stands at a path, without what planning filled in: `is_written` says what stands in the text."""
    return Record(type(record)).as_written(record, path, is_written)  # type: ignore[no-any-return]
