"""The families that there are, and the ops that they compute.

It stands below all rooms and imports none of them: `cutegen` itself says how families are opened, which happens when
they are first asked for. A room takes what it finds here by what the room asks of it, as its `asked` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Traversable


@dataclass(frozen=True)
class Openers:
    """Functions that open cutegen's families, and the folder of files that these share; and the families of a schedule
    with several cases, and of one that may be of several families.
    """

    families: Callable[[], tuple[Any, ...]]
    shared: Callable[[], Traversable]
    cases: Callable[[], Any]
    choices: Callable[[], Any]


_openers: list[Openers] = []
_added: list[Any] = []


def opened_by(openers: Openers) -> None:
    """Says how the families are opened."""
    _openers[:] = [openers]


def families() -> tuple[Any, ...]:
    """Every family: those of `cutegen.families`, in its order, then those that were added."""
    return (*_openers[0].families(), *_added)


def folders() -> tuple[Traversable, ...]:
    """The folders of files: that of shared parts, then those of families, some of which share one."""
    own = {str(family.folder): family.folder for family in families()}
    return (_openers[0].shared(), *own.values())


def ops() -> tuple[Any, ...]:
    """Every op, in the order of the families that compute it."""
    return tuple(dict.fromkeys(family.op for family in families()))


def op_named(name: str) -> Any:
    """The op of that name. Raises KeyError."""
    return {op.name: op for op in ops()}[name]


def family_of(op: str, schedule: Any) -> Any:
    """The family of a spec, from its op and its schedule as data: the op's first one that takes its mma atom.

    A list of cases has a family for each, and this is the op's first one. Raises KeyError for an op that there is not.
    """
    own = [family for family in families() if family.op.name == op]
    if not own:
        raise KeyError(op)
    mma = schedule.get("mma") if isinstance(schedule, Mapping) else None
    atom = mma.get("atom") if isinstance(mma, Mapping) else None
    return next((family for family in own if atom is None or atom in family.atoms), own[0])


def family_of_cases() -> Any:
    """The family of a schedule that is a list of cases: it asks those of the cases."""
    return _openers[0].cases()


def family_of_choices() -> Any:
    """The family of a schedule that may be of several: it takes one of them."""
    return _openers[0].choices()


def open_all() -> None:
    """Opens every family, which makes it known to its class of schedules."""
    families()
    family_of_cases()
    family_of_choices()


@contextmanager
def added(family: Any) -> Iterator[None]:
    """While this is entered, `family` is one of the families: for one that lives outside of cutegen."""
    _added.append(family)
    try:
        yield
    finally:
        _added.remove(family)
