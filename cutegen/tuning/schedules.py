"""Changed schedules as plain data: fields of a candidate set, and what depended on the old ones left to planning."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from cutegen.layouts import LayoutSyntaxError, parse_layout
from cutegen.tuning.asked import Family
from cutegen.tuning.choice import Choice, Steps
from cutegen.tuning.editing import same_value


def leaves(schedule: Mapping[str, Any], above: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Yields every value of a schedule that is no mapping, with its path."""
    for key, value in schedule.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


def changed(
    schedule: Mapping[str, Any], choice: Choice, family: Family, output: str, kept: Collection[Steps] = ()
) -> dict[str, Any]:
    """The schedule with a choice made.

    A field that depends on one that the choice changes is left to planning, unless the choice sets it or it stands at
    or below a path of `kept`. Values that say the same as before stay as they are written.
    """
    before = dict(leaves(schedule))
    after = dict(before)
    for path, value in choice.items():
        for leaf in [leaf for leaf in after if _below(leaf, path)]:
            del after[leaf]
        if isinstance(value, Mapping):
            after |= leaves(value, path)
        elif value is not None:
            after[path] = value
    for leaf, value in after.items():
        if leaf in before and equal(before[leaf], value):
            after[leaf] = before[leaf]
    moved = [
        leaf for leaf in {**before, **after} if not (leaf in before and same_value(before.get(leaf), after.get(leaf)))
    ]
    fixed = [*choice, *kept]
    for pattern in {p for leaf in moved for p in dependents(family, leaf, output)}:
        for leaf in [leaf for leaf in after if _matches(pattern, leaf) is not None]:
            if not any(_below(leaf, path) for path in fixed):
                del after[leaf]
    # In the order of the schedule; what is new comes behind.
    return _nested({leaf: after[leaf] for leaf in [*before, *after] if leaf in after})


def dependents(family: Family, leaf: Steps, output: str) -> Iterator[Steps]:
    """Patterns of the paths of the fields that planning infers from the field at `leaf`."""
    for inferred, fields in family.inferred_from().items():
        for field in fields:
            name = _matches(tuple(field.split(".")), leaf)
            if name is not None:
                named = inferred.replace("@", output)
                yield tuple((named.replace("*", name) if name else named).split("."))


def equal(one: Any, other: Any) -> bool:
    """Whether two values of one field say the same. Layouts do if only their notation differs."""
    if same_value(one, other):
        return True
    if isinstance(one, str) and isinstance(other, str) and "(" in one and "(" in other:
        try:
            return bool(parse_layout(one) == parse_layout(other))
        except LayoutSyntaxError:  # a placeholder
            return False
    return False


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Returns the differences of two schedules, by dotted path: old and new value, None where that is left out."""
    before, after = dict(leaves(old)), dict(leaves(new))
    return {
        ".".join(leaf): (before.get(leaf), after.get(leaf))
        for leaf in {**before, **after}
        if not same_value(before.get(leaf), after.get(leaf))
    }


def _matches(pattern: Steps, leaf: Steps) -> str | None:
    """The name that `*` stands for in a pattern of paths, empty if it has none.

    None where the pattern is no beginning of the path.
    """
    if len(pattern) > len(leaf):
        return None
    name = ""
    for wanted, step in zip(pattern, leaf, strict=False):
        if wanted == "*":
            name = step
        elif wanted != step:
            return None
    return name


def _below(leaf: Steps, path: Steps) -> bool:
    """Whether a field is at a path or below it."""
    return leaf[: len(path)] == path


def _nested(values: Mapping[Steps, Any]) -> dict[str, Any]:
    """The mapping of mappings that holds these values at their paths."""
    result: dict[str, Any] = {}
    for path, value in values.items():
        node = result
        for step in path[:-1]:
            node = node.setdefault(step, {})
        node[path[-1]] = value
    return result
