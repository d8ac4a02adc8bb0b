"""The families that there are, and the ops that they compute.

This is the one place that opens `cutegen.families`, and only when it is asked: rooms ask here, and know no family.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from cutegen.family import Family
    from cutegen.ops.op import Op

_added: list[Family[Any, Any]] = []


def families() -> tuple[Family[Any, Any], ...]:
    """Every family: those of `cutegen.families`, in its order, then those that were added."""
    from cutegen.families import FAMILIES

    return (*FAMILIES, *_added)


def folders() -> tuple[Traversable, ...]:
    """The folders of files: that of what families share, then those of families, some of which have one together."""
    own = {str(family.folder): family.folder for family in families()}
    return (files("cutegen.families.common"), *own.values())


def ops() -> tuple[Op, ...]:
    """Every op, in the order of the families that compute it."""
    return tuple(dict.fromkeys(family.op for family in families()))


def op_named(name: str) -> Op:
    """The op of that name. Raises KeyError."""
    return {op.name: op for op in ops()}[name]


def family_of(op: str, schedule: Any) -> Family[Any, Any]:
    """The family of a spec, from its op and its schedule as data: the op's first one that takes its mma atom.

    A list of cases has a family for each, and this is the op's first one. Raises KeyError for an op that there is not.
    """
    own = [family for family in families() if family.op.name == op]
    if not own:
        raise KeyError(op)
    mma = schedule.get("mma") if isinstance(schedule, Mapping) else None
    atom = mma.get("atom") if isinstance(mma, Mapping) else None
    return next((family for family in own if atom is None or atom in family.atoms), own[0])


def family_of_cases() -> Family[Any, Any]:
    """The family of a schedule that is a list of cases: it asks those of the cases."""
    from cutegen.cases import FAMILY

    return FAMILY


def family_of_choices() -> Family[Any, Any]:
    """The family of a schedule that may be of several: it takes one of them."""
    from cutegen.choosing.family import FAMILY

    return FAMILY


def open_all() -> None:
    """Opens every family, which makes it known to its class of schedules."""
    families()
    family_of_cases()
    family_of_choices()


@contextmanager
def added(family: Family[Any, Any]) -> Iterator[None]:
    """While this is entered, `family` is one of the families: for one that lives outside of cutegen."""
    _added.append(family)
    try:
        yield
    finally:
        _added.remove(family)
