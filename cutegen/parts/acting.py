"""Threads of a block as they go through statements: the values of their variables, and which of them are active."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from cutegen.atoms.targets import WARP
from cutegen.parts.acts import Agent, Cell, Content
from cutegen.parts.faults import refuse
from cutegen.parts.held import Held

T = TypeVar("T")


def _range(*bounds: int, **options: object) -> range:
    """A loop's range, whose options (`unroll`) change nothing of what it does."""
    return range(*bounds)


# What texts of a kernel call, as far as statements depend on it
_CALLS: dict[str, Any] = {
    "__builtins__": {},
    "cutlass": SimpleNamespace(
        Int32=int, Int16=int, min=min, max=max, range=_range, range_constexpr=_range, const_expr=bool
    ),
    "cute": SimpleNamespace(ceil_div=lambda extent, size: -(-extent // size)),
    "min": min,
    "range": range,
    "divmod": divmod,
    "prod": prod,
}


@dataclass(frozen=True)
class Geometry:
    """The blocks of a cluster along x and y and, side by side, along z: their ranks count x first."""

    x: int = 1
    y: int = 1
    z: int = 1

    @property
    def size(self) -> int:
        return self.x * self.y * self.z


@dataclass(frozen=True)
class Shaped:
    """A tensor whose shape texts ask for."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Allocated:
    """How many cells, or barriers, there are of a name, in how many bytes each, of which `own` are its own where others
    are beside it, and in whose memory: that of the own variable or of another one.
    """

    shape: tuple[int, ...]
    bytes: int
    own: int
    variable: str
    within: str

    @property
    def length(self) -> int:
        return prod(self.shape)

    def number(self, index: int | tuple[int, ...]) -> int:
        """The number of a cell by its indices, first index fastest. ValueError: there is none."""
        found = index if isinstance(index, tuple) else (index,)
        if len(found) != len(self.shape) or not all(0 <= i < n for i, n in zip(found, self.shape, strict=True)):
            raise ValueError(f"{self.variable} of {self.shape} has no {found}")
        return sum(i * prod(self.shape[:place]) for place, i in enumerate(found))

    def overlaps(self, number: int, other: Allocated) -> range:
        """The cells of another buffer in whose bytes one of this one lies."""
        if self.within != other.within or self.variable == other.variable:
            return range(0)
        end = -(-(number + 1) * self.bytes // other.bytes)
        return range(number * self.bytes // other.bytes, min(end, other.length))


class Partition(NamedTuple):
    """The part that a block moves of the cells of a name, among so many, in as many boxes."""

    name: str
    part: int
    among: int
    boxes: int = 1


class PerThread(tuple[Any, ...]):
    """The values that a variable has, of each of an agent's threads, where they may differ."""


@dataclass
class Acting:
    """An agent on its way through statements.

    `variables` are shared by all views of the agent; one that is `PerThread` has a value for each of its `threads`
    (numbers in the block). `active` are the places in `threads` of those that go through the present statement.
    `allocated` are the cells and arrays of barriers that there are, by name; `partitions` and `fragments` what their
    variables are of: a part of cells that copies move, and cells that products read.
    """

    agent: Agent
    threads: tuple[int, ...]
    geometry: Geometry
    variables: dict[str, Any]
    active: tuple[int, ...] = field(default=())
    block_threads: int = 0
    allocated: dict[str, Allocated] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)
    fragments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # What stores read of which no group has been made yet
    ungrouped: list[tuple[Cell, Content]] = field(default_factory=list)
    held: Held = field(default_factory=Held)

    def __post_init__(self) -> None:
        self.active = self.active or tuple(range(len(self.threads)))

    @classmethod
    def of(
        cls,
        agent: Agent,
        threads: tuple[int, ...],
        geometry: Geometry,
        variables: Mapping[str, Any],
        block_threads: int = 0,
    ) -> Acting:
        """An agent of those threads, of so many of its block, before its first statement. It knows `tidx` and
        `warp_idx`, where its block is: `x`, `y` and `share` (along z), and its own number in its warpgroup, `PART`.
        """
        rank = agent.block
        x, y, z = rank % geometry.x, rank // geometry.x % geometry.y, rank // (geometry.x * geometry.y)
        own = {
            "tidx": PerThread(threads),
            "warp_idx": PerThread(t // WARP for t in threads),
            **{"x": x, "y": y, "share": z, "PART": agent.part},
        }
        return cls(agent, threads, geometry, {**variables, **own}, block_threads=block_threads)

    def each(self, text: str) -> list[Any]:
        """The value of a text of Python for each active thread."""
        found = self._values(text)
        return list(found) if len(found) > 1 else [found[0]] * len(self.active)

    def _values(self, text: str) -> tuple[Any, ...]:
        """The same; one value alone where no variable of the text differs between threads."""
        code, names = _compiled(text)
        variables = self.variables
        own = {name: variables[name] for name in names if name in variables}
        for value in own.values():
            if isinstance(value, PerThread):
                return _of_each(text, self.active, tuple(own.items()))
        return (eval(code, _CALLS, own),)

    def value(self, text: str) -> Any:
        """The value of a text, which must be the same for all active threads. Raises ValueError where it is not."""
        found = self._values(text)
        if any(one != found[0] for one in found[1:]):
            raise ValueError(f"threads of {self.agent} differ in {text}")
        return found[0]

    def found(self, named: Mapping[str, T], name: str) -> T:
        """Returns the entry of `named` under a name. Raises NameError where there is none."""
        if name not in named:
            raise NameError(f"name {name!r} is not defined")
        return named[name]

    def let(self, targets: str, text: str) -> None:
        """Gives variables (`stage`, or `stage, phase`) the value of a text, for the active threads."""
        names, whole_agent = [name.strip() for name in targets.split(",")], len(self.active) == len(self.threads)
        found = self._values(text) if whole_agent else self.each(text)
        for number, name in enumerate(names):
            values = [one[number] for one in found] if len(names) > 1 else found
            if whole_agent:
                same = all(value == values[0] for value in values)
                self.variables[name] = values[0] if same else PerThread(values)
                continue
            old = self.variables.get(name)
            whole = list(old) if isinstance(old, PerThread) else [old] * len(self.threads)
            for place, value in zip(self.active, values, strict=True):
                whole[place] = value
            self.variables[name] = PerThread(whole)

    def place(self, name: str, index: str) -> int:
        """A place in an array by an index as Python. Refuses one beyond its end."""
        found = int(self.value(index))
        self.inside(name, found)
        return found

    def inside(self, name: str, index: int, act: int | None = None) -> None:
        """Refuses a place in an array that has not been allocated, or beyond its end."""
        of = self.allocated.get(name)
        if of is None or not 0 <= index < of.length:
            there = f"there are {of.length}" if of else "none has been allocated"
            refuse("outside", f"{self.agent.role} {self.agent.group} uses {name} {index}, and {there}", self.agent, act)

    def where(self, condition: str) -> tuple[Acting | None, Acting | None]:
        """The agent's active threads for which a condition holds, and the others; None for none."""
        found = self._values(condition)
        if len(found) == 1:  # or there is one thread
            return (self, None) if found[0] else (None, self)
        yes = tuple(place for place, holds in zip(self.active, found, strict=True) if holds)
        no = tuple(place for place, holds in zip(self.active, found, strict=True) if not holds)
        return self._only(yes), self._only(no)

    def elected(self) -> Acting:
        """The first active thread of its warp. Raises ValueError for an agent of several warps."""
        if len({self.threads[place] // WARP for place in self.active}) != 1:
            raise ValueError(f"{self.agent} has several warps, of which each elects a thread")
        return self._view(self.active[:1])

    def together(self, does: str) -> None:
        """Refuses an act of all of the agent's threads where some of them do not take part in it."""
        if len(self.active) != len(self.threads):
            text = (
                f"only {len(self.active)} of {len(self.threads)} threads of {self.agent.role} {self.agent.group} {does}"
            )
            refuse("partial", text, self.agent)

    def in_warps(self, does: str) -> None:
        """Refuses an act of warps where some threads of one do not take part in it."""
        active = {self.threads[place] for place in self.active}
        partly = {t // WARP for t in self.threads if t not in active} & {t // WARP for t in active}
        if partly:
            text = f"some threads of warp {min(partly)} alone {does}, which is an act of a whole warp"
            refuse("partial", text, self.agent)

    def _only(self, places: tuple[int, ...]) -> Acting | None:
        return self._view(places) if places else None

    def _view(self, places: tuple[int, ...]) -> Acting:
        """The agent, of whose threads those at some places are active. It is as `replace` makes it, in less time."""
        view = object.__new__(Acting)
        view.__dict__.update(self.__dict__, active=places)
        return view

    def counted(self, of: Callable[[Any], Any], text: str) -> Iterator[tuple[Any, int]]:
        """Yields, for each distinct value of a text, `of(value)` and how many active threads have that value."""
        counts: dict[Any, int] = {}
        for value in self.each(text):
            counts[value] = counts.get(value, 0) + 1
        return ((of(value), count) for value, count in counts.items())


def value_of(text: str, variables: Mapping[str, Any]) -> Any:
    """The value of a text of Python that no thread has another value of."""
    return eval(_compiled(text)[0], _CALLS, dict(variables))


@lru_cache(maxsize=4096)
def _compiled(text: str) -> tuple[CodeType, tuple[str, ...]]:
    """A text as code, and the names that it has."""
    code = compile(text, "<kernel>", "eval")
    return code, code.co_names


@lru_cache(maxsize=4096)
def _of_each(text: str, places: tuple[int, ...], variables: tuple[tuple[str, Any], ...]) -> tuple[Any, ...]:
    """The value of a text for each of some threads, by their places in what is `PerThread`."""
    code, _ = _compiled(text)
    uniform = {name: value for name, value in variables if not isinstance(value, PerThread)}
    differing = [(name, value) for name, value in variables if isinstance(value, PerThread)]
    return tuple(eval(code, _CALLS, uniform | {name: each[place] for name, each in differing}) for place in places)
