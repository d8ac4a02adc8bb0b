"""Products of warpgroups that are in flight: their groups, their accumulators, and what the last fence has seen.

What a product computes is kept here until a wait for its group, and
only then is in the registers; until then these mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.lanes import WARP
from cutegen.emulator.native.library import core

WARPS = 4
"""Of a warpgroup; the number of its first warp is a multiple of it."""


HaveRead = Callable[[Sequence[int]], None]
"""Receives the numbers of the warps, of those that started a product together, whose reads of shared memory have ended.
"""


@dataclass(frozen=True, eq=False)
class Factor:
    """A of the products that some warps start together, in registers: their slots and names, the arrays that these hold
    then, their poison, and their bits in the warps, shape (slots, warps, 32). `line` is the PTX line of the product.
    """

    slots: tuple[int, ...]
    names: tuple[str, ...]
    arrays: tuple[Array, ...]
    poison: tuple[Array | None, ...]
    bits: Array
    line: int


@dataclass
class Product:
    """A product of one warp: the slots of its accumulators, and what ends its reads, with its number, until it has.

    `factor` is A, where that is in registers, until the wait for the product.
    """

    slots: tuple[int, ...]
    have_read: HaveRead | None
    number: int
    factor: Factor | None


@dataclass
class _Warp:
    """The groups of a warp by their numbers; the last one is open, and the warp has waited for those below `done`."""

    groups: list[list[Product]] = field(default_factory=lambda: [[]])
    done: int = 0

    @property
    def committed(self) -> int:
        return len(self.groups) - 1


class ProductGroups:
    """The products in flight of the warps of a batch of `shape` = (threads, blocks).

    Warp w of block b has the number w * blocks + b. `fenced` are the warps that had a wgmma.fence.

    `slots` are those of the registers that are accumulators, each of which has a row in what is known of them: where
    products in flight, whose number is `flying`, shape (rows, warps), write one, it holds the bits `held`, shape (rows,
    warps, 32); `seen` is what it held at the warp's last wgmma.fence, or when a wait has put that there. `core` is the
    compiled core, if there is one. `unknown` marks accumulators that are computed from uninitialised shared memory, and
    undefined; None while there are none.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.blocks = shape[1]
        self.count = -(-shape[0] // WARP) * shape[1]
        self.core = core()
        self.slots: list[int] = []
        self.held: Array = np.zeros((0, self.count, WARP), np.uint32)
        self.seen: Array = np.zeros((0, self.count, WARP), np.uint32)
        self.flying: Array = np.zeros((0, self.count), np.int32)
        self.unknown: Array | None = None
        self._factors = False  # whether any A is in registers
        self._rows: dict[int, tuple[tuple[int, ...], Array]] = {}  # of slots that are kept, by their identity
        self.fenced = np.zeros(self.count, np.bool_)
        self._warps: dict[int, _Warp] = {}

    def add(self, slots: Sequence[int], now: Array) -> None:
        """Makes accumulators of some slots. `now` is what the registers hold, shape (slots, warps, 32), and is seen."""
        self.slots += slots
        self.seen = np.concatenate([self.seen, now])
        self.held = np.concatenate([self.held, np.zeros_like(now)])
        if self.unknown is not None:
            self.unknown = np.concatenate([self.unknown, np.zeros(now.shape, np.bool_)])
        self.flying = np.concatenate([self.flying, np.zeros(now.shape[:2], np.int32)])

    def has(self, slots: tuple[int, ...]) -> bool:
        """Whether accumulators have been made of all of the slots."""
        return id(slots) in self._rows or set(slots) <= set(self.slots)

    def rows(self, slots: tuple[int, ...]) -> Array:
        """The rows of the accumulators in some slots, shape (slots, 1)."""
        found = self._rows.get(id(slots))
        if found is None:
            found = self._rows[id(slots)] = slots, np.asarray([[self.slots.index(slot)] for slot in slots])
        return found[1]

    def lose(self, slots: tuple[int, ...], warps: Array, new: Array | None, kept: Array | None) -> None:
        """Notes where accumulators of warps hold what means nothing: where they are of products that do, `new`, and
        where they did before in the places `kept`. Shape of each (slots, warps, 32); None for nowhere.
        """
        if self.unknown is None:
            self.mark()
        assert self.unknown is not None
        rows = self.rows(slots)
        before = self.unknown[rows, warps] & kept if kept is not None else np.zeros((), np.bool_)
        self.unknown[rows, warps] = before if new is None else before | new

    def mark(self) -> None:
        """Marks undefined accumulators from now on; there are none yet."""
        self.unknown = np.zeros(self.held.shape, np.bool_)

    @property
    def in_flight(self) -> bool:
        """Whether some product has not been waited for."""
        return has_any(self.flying)

    def begin(self, warps: Array, slots: tuple[int, ...], have_read: HaveRead, factor: Factor | None) -> None:
        """Adds a product of each of some warps to its open group."""
        self.flying[self.rows(slots), warps] += 1
        self.note(warps.tolist(), slots, have_read, factor)

    def note(self, warps: Sequence[int], slots: tuple[int, ...], have_read: HaveRead, factor: Factor | None) -> None:
        """The same where it is noted that one more writes these accumulators."""
        self._factors |= factor is not None
        for number, warp in enumerate(warps):
            self._of(warp).groups[-1].append(Product(slots, have_read, number, factor))

    def commit(self, warps: Iterable[int]) -> None:
        """Closes the open groups of warps."""
        for warp in warps:
            self._of(warp).groups.append([])

    def siblings(self, warp: int) -> list[int]:
        """The numbers of all warps of the warpgroup of one, those that the block does not have among them."""
        number, block = divmod(warp, self.blocks)
        first = number // WARPS * WARPS
        return [(first + i) * self.blocks + block for i in range(WARPS)]

    def is_open(self, left: int, warp: int) -> bool:
        """Whether all warps of its warpgroup have started what the warp waits for, which is all but the last `left` of
        its groups: a product is one of all four, and only then can it end.
        """
        wanted = self._of(warp).committed - left
        return all(self._of(other).committed >= wanted for other in self.siblings(warp) if other != warp)

    def late(self, left: int, warp: int) -> int:
        """The first warp of its warpgroup that has not started all that the warp waits for."""
        wanted = self._of(warp).committed - left
        return next(other for other in self.siblings(warp) if self._of(other).committed < wanted)

    def ending_factors(self, left: int, warps: Iterable[int]) -> list[tuple[Factor, list[int], list[int]]]:
        """A of those products in registers that end with all groups of warps but the last `left`: for each one the
        warps that end it, and their numbers among those that started it.
        """
        found: dict[int, tuple[Factor, list[int], list[int]]] = {}
        for warp in warps if self._factors else ():
            own = self._of(warp)
            for product in (p for group in own.groups[own.done : max(own.done, own.committed - left)] for p in group):
                if (factor := product.factor) is not None:
                    _, some, numbers = found.setdefault(id(factor), (factor, [], []))
                    some.append(warp)
                    numbers.append(product.number)
        return list(found.values())

    def wait(self, left: int, warps: Iterable[int]) -> list[tuple[tuple[int, ...], Array]]:
        """Ends the groups of warps but for the last `left`: the slots of accumulators, and in which warps no product in
        flight writes these any more.
        """
        ended: dict[int, tuple[tuple[int, ...], dict[int, int]]] = {}  # how many products of each warp, by their slots
        have_read: dict[int, tuple[HaveRead, list[int]]] = {}
        for warp in warps:
            own = self._of(warp)
            until = max(own.done, own.committed - left)
            for other in self.siblings(warp) if until > own.done else ():
                for product in (p for group in self._of(other).groups[own.done : until] for p in group):
                    if product.have_read is not None:
                        have_read.setdefault(id(product.have_read), (product.have_read, []))[1].append(product.number)
                        product.have_read = None
            for product in (p for group in own.groups[own.done : until] for p in group):
                _, counts = ended.setdefault(id(product.slots), (product.slots, {}))
                counts[warp] = counts.get(warp, 0) + 1
                product.factor = None
            own.done = until
        for tell, numbers in have_read.values():
            tell(numbers)
        landed: list[tuple[tuple[int, ...], Array]] = []
        flying = self.flying.reshape(-1)
        for slots, counts in ended.values():
            alike: dict[int, list[int]] = {}
            for warp, number in counts.items():
                alike.setdefault(number, []).append(warp)
            for number, some in alike.items():
                those = np.asarray(some)
                places = self.rows(slots) * self.count + those
                left_over = flying.take(places) - number
                flying[places] = left_over
                done = left_over == 0
                if (done == done[0]).all():
                    landed.append((slots, those[done[0]]))
                else:
                    landed += [((slot,), those[own]) for slot, own in zip(slots, done, strict=True)]
        return [(slots, some) for slots, some in landed if some.size]

    def _of(self, warp: int) -> _Warp:
        return self._warps.setdefault(warp, _Warp())
