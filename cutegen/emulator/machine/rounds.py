"""Cuts long loops short: rounds that are alike, but for whole numbers that grow evenly, need not all be run.

A sum over a mode of a tensor that is zero nearly everywhere (`Fold.elsewhere`) is such a loop. Once its state has come
again twice, with each whole number as much larger each time, the state many rounds later is taken to be that far larger
again: as long as no comparison of whole numbers turns, and no address comes to elements that are not like all others.
There the loop goes on as it does without this, so that it also computes with large counters.

That is no proof. What a kernel does in rounds that are left out, by other means than such comparisons (as where the
shifted counter is some number), is not seen; nor is a read there of the few elements, where its addresses only seemed
to grow evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.lanes import Mask, spread
from cutegen.emulator.machine.liveness import live_registers
from cutegen.emulator.machine.native_steps import COMPARING
from cutegen.emulator.machine.program import Program
from cutegen.emulator.memory.bound_tensors import BoundTensor, coordinates_of
from cutegen.emulator.operations.operands import Getter, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.errors import UnlikeRounds
from cutegen.emulator.ptx.model import Immediate, Instruction, Register, Vector
from cutegen.emulator.ptx.types import TYPES

_SHORTEST, _LONGEST = 4, 32  # rounds after which a state may come again: as many as a ring has stages
_PATIENCE, _ROUNDS, _TRIES = 100_000, 200, 1000  # instructions of a thread, and rounds, that run with none left out
_SELDOM = 2  # times that a basic block is run as its instructions
_MARGIN = 1  # periods that run before something turns: a value may be that of a round before
_WIDEST = 16  # elements of an access
_NEVER = 1 << 62
_FLOATS = frozenset(name for name, kind in TYPES.items() if kind.kind in ("f", "bf", "tf"))
_MOVES = frozenset(("mov", "ld", "selp", "cp"))  # which know no types but widths


@dataclass(frozen=True)
class State:
    """The state of all lanes at the head of a loop, or where they wait.

    `path`, `reads` and `touched` count the basic blocks, the accesses to global and those to shared memory before it.
    """

    bits: Sequence[Array | None]
    wide: Sequence[Array | None]
    poison: Mapping[int, Array]
    shared: Sequence[Array]
    written: int
    path: int
    reads: int
    touched: int


@dataclass(frozen=True)
class _Comparison:
    """An instruction that compares whole numbers: how both are found, their slots (-1: a constant), and their type."""

    values: tuple[Getter, Getter]
    slots: tuple[int, int]
    signed: bool


class Rounds:
    """Watches the loops of a program that all lanes run together, and brings them on where it knows how."""

    def __init__(self, program: Program, lanes: Lanes) -> None:
        self.program, self.lanes = program, lanes
        self._memory = lanes.access.memory
        self._tensors = [a.tensor for a in self._memory.arenas if a.tensor.fold and a.tensor.fold.elsewhere]
        self._backs: dict[int, set[int]] = {}  # the head of a loop -> the basic blocks that go back to it
        for number, block in enumerate(program.blocks):
            if block.end.kind == "branch" and block.end.target <= number:
                self._backs.setdefault(block.end.target, set()).add(number)
        self._comparisons = [tuple(_comparisons(b.instructions, program.slots)) for b in program.blocks]
        self._floats = {slot for block in program.blocks for slot in _float_slots(block.instructions, program.slots)}
        self._live = live_registers(program)
        self._entered: dict[int, int] = {}  # how often lanes have run each basic block
        self._path: list[tuple[int, object]] = []
        self._states: dict[object, list[State]] = {}
        self._run = self._tried = 0  # instructions of a thread, and rounds, since some were left out last
        self._suspect = 0  # the register that was last seen to differ: most often it does again
        self._touched: list[tuple[int, ...]] = []
        self._memory.watched, lanes.shared.touched = [], self._touched

    def enter(self, number: int, mask: Mask, alone: bool) -> None:
        """Called before lanes of a mask run the basic block with that number; `alone` says that no others are ready.

        At the head of a loop it changes their registers to those of a later round, where it knows them. Raises Stop for
        a loop that never ends, and UnlikeRounds where no round could be left out for long.
        """
        before, together = self._path[-1][0] if self._path else -1, mask is None and alone
        self._run += len(self.program.blocks[number].instructions) + 1
        self._tried += number in self._backs
        if self._run > _PATIENCE and self._tried > _ROUNDS or self._tried > _TRIES:
            raise UnlikeRounds("the rounds of a loop are not alike")
        self._path.append((number, together))
        if number not in self._backs:
            return
        states = self._states.setdefault(number, [])
        if not together or before not in self._backs[number]:
            states.clear()
        if not together:
            return
        states.append(self._state())
        del states[: -2 * _LONGEST - 1]
        for period in range(_SHORTEST, (len(states) - 1) // 2 + 1):
            now, once, twice = states[-1], states[-1 - period], states[-1 - 2 * period]
            growth = self._growth(dict.fromkeys(sorted(self._live[number])), now, once, twice)
            if growth is None:
                continue
            if not growth:
                at = self.program.blocks[before].end.instruction
                raise Stop("runaway", "a loop in which nothing changes that could end it", at, (0, 0))
            if self._cut(growth, now, once, twice):
                return

    def comes_again(self, number: int) -> bool:
        """Whether lanes have often run a basic block: then it is worth it that the core does what it can of it."""
        self._entered[number] = count = self._entered.get(number, 0) + 1
        return count > _SELDOM

    def _cut(self, growth: Mapping[int, Array], now: State, once: State, twice: State) -> bool:
        """Leaves out as many periods as can be; whether there are any."""
        periods = self._room(now, once, twice) - _MARGIN
        if not 0 < periods < _NEVER - _MARGIN:
            return False
        self._advance(growth, periods)
        self._states.clear()
        self._run = self._tried = 0
        return True

    def _state(self) -> State:
        lanes, watched = self.lanes, self._memory.watched
        assert watched is not None
        return State(
            lanes.bits[:],
            lanes.wide[:],
            dict(lanes.poison),
            lanes.shared.state(),
            lanes.access.written,
            len(self._path),
            len(watched),
            len(self._touched),
        )

    def _growth(self, live: Mapping[int, Mask], now: State, once: State, twice: State) -> dict[int, Array] | None:
        """By how much each live register grows in a period, if it does; None if the states are not alike otherwise.

        `live` has the lanes in which each one is.
        """
        if now.written != twice.written or not (
            self._path[once.path : now.path] == self._path[twice.path : once.path]
            and self._touched[once.touched : now.touched] == self._touched[twice.touched : once.touched]
            and now.reads - once.reads == once.reads - twice.reads
            and _equal(now.shared, once.shared)
            and _equal(now.shared, twice.shared)
        ):
            return None
        growth: dict[int, Array] = {}
        for slot in (self._suspect, *live) if self._suspect in live else live:
            step = _grown(slot, now, once, twice, live[slot])
            poison = _step(now.poison.get(slot), once.poison.get(slot), twice.poison.get(slot), live[slot])
            if step is None or poison is not _SAME or step is not _SAME and slot in self._floats:
                self._suspect = slot
                return None
            if step is not _SAME:
                growth[slot] = step
        return growth

    def _room(self, now: State, once: State, twice: State) -> int:
        """For how many periods all comparisons go as they do, and all that is read is like what is read now.

        Where that is not enough for any to be left out, it is some number of them as small.
        """
        room = _NEVER
        for number, mask in self._ran(self._path[once.path : now.path]).items():
            for comparison in self._comparisons[number]:
                steps = [_SAME if slot < 0 else _grown(slot, now, once, twice, mask) for slot in comparison.slots]
                room = min(room, self._turn(comparison, steps, mask))
                if room <= _MARGIN:
                    return room
        watched = self._memory.watched
        assert watched is not None
        earlier = watched[once.reads - (now.reads - once.reads) : once.reads]
        for find_told, find_before in zip(watched[once.reads : now.reads], earlier, strict=True):
            told, before = find_told(), find_before()
            if told.shape != before.shape:
                return 0
            for tensor in self._tensors:
                room = min(room, _until_others(tensor, told, told - before))
        return room

    def _ran(self, path: Sequence[tuple[int, object]]) -> Mapping[int, Mask]:
        """The basic blocks of a path, and the lanes that ran each of them."""
        return dict.fromkeys(number for number, _ in path)

    def _turn(self, comparison: _Comparison, grown_by: Sequence[Array | None], mask: Mask) -> int:
        """For how many periods a comparison goes as it does now in lanes of a mask, and neither number overflows.

        `grown_by` says how much either number grows in a period, as `_step` does. It must have gone so for two periods.
        """
        if all(step is _SAME for step in grown_by):
            return _NEVER
        room, values, steps = _NEVER, [], []
        for get, by in zip(comparison.values, grown_by, strict=True):
            if by is None:
                return 0
            bits = np.asarray(get(self.lanes))
            step = np.zeros((), bits.dtype) if by is _SAME else by
            if mask is not None:
                bits, step = spread(bits, mask.shape)[mask], spread(step, mask.shape)[mask]
            kind = np.dtype(f"{'i' if comparison.signed else 'u'}{bits.itemsize}")
            value = bits.view(kind).astype(np.int64)
            grown = step.view(f"i{bits.itemsize}").astype(np.int64)
            most, least = min(np.iinfo(kind).max, _NEVER), max(np.iinfo(kind).min, -_NEVER)
            room = min(room, _least_room(most - value, grown), _least_room(value - least, -grown))
            if has_any(value < 0) and not comparison.signed:
                return 0  # 2^63 or more
            values.append(value)
            steps.append(grown)
        apart, nearer = values[0] - values[1], steps[1] - steps[0]
        if has_any(np.sign(apart) != np.sign(apart + 2 * nearer)):
            return 0
        return min(room, _least_room(np.abs(apart) - 1, np.sign(apart) * nearer))

    def _advance(self, growth: Mapping[int, Array], periods: int) -> None:
        """Changes the registers to what they are so many periods later."""
        for slot, step in growth.items():
            bits = self.lanes.bits[slot]
            assert bits is not None
            times = np.asarray(periods & ((1 << 8 * step.itemsize) - 1), step.dtype)
            self.lanes.bits[slot] = np.asarray(bits + step * times)


_SAME = np.zeros(0, np.uint8)


def _grown(slot: int, now: State, once: State, twice: State, mask: Mask) -> Array | None:
    """By how much a register grows each time in the lanes of a mask, as `_step` says."""
    if now.wide[slot] is None:
        return _step(now.bits[slot], once.bits[slot], twice.bits[slot], mask)
    step = _step(now.wide[slot], once.wide[slot], twice.wide[slot], mask)
    return _SAME if step is _SAME else None


def _step(now: Array | None, once: Array | None, twice: Array | None, mask: Mask) -> Array | None:
    """By how much a value grows each time in the lanes of a mask: `_SAME` for not at all, None for not evenly."""
    if now is once and once is twice:
        return _SAME
    if now is None or once is None or twice is None:
        return None
    if now.dtype.kind == "f":
        now, once, twice = now.view(np.uint64), once.view(np.uint64), twice.view(np.uint64)
    if mask is not None:
        now, once, twice = (np.where(mask, value, np.zeros((), value.dtype)) for value in (now, once, twice))
    if np.array_equal(now, once):
        return _SAME if np.array_equal(once, twice) else None
    if now.dtype == np.bool_:
        return None
    step = np.asarray(now - once)
    return step if np.array_equal(step, once - twice) else None


def _equal(some: Sequence[Array], others: Sequence[Array]) -> bool:
    """Whether two sequences have the same arrays."""
    return len(some) == len(others) and all(map(np.array_equal, some, others))


def _least_room(distance: Array, step: Array) -> int:
    """How many steps fit in a distance, in the lane where that is least; `_NEVER` where none has a step above 0."""
    steps = np.where(step > 0, np.floor_divide(distance, np.maximum(step, 1)), _NEVER)
    return max(0, int(steps.min()))


def _until_others(tensor: BoundTensor, told: Array, step: Array) -> int:
    """For how many steps of addresses reads of a tensor come to no element that is not like all others."""
    fold = tensor.fold
    assert fold is not None and fold.elsewhere is not None
    here, there = coordinates_of(tensor, told)
    after, still = coordinates_of(tensor, told + step)
    used = there & still & np.asarray(step != 0)
    if not has_any(used):
        return _NEVER
    others = fold.coordinates[(fold.coordinates < fold.elsewhere.start) | (fold.coordinates >= fold.elsewhere.stop)]
    at, away = np.broadcast_arrays(here, after - here)
    at, away = at[used], away[used]
    edges = np.concatenate([[-_NEVER // 4], others, [_NEVER // 4]])
    up = edges[np.searchsorted(edges, at)] - at - _WIDEST
    down = at - edges[np.searchsorted(edges, at, "right") - 1] - _WIDEST
    return min(_least_room(up, away), _least_room(down, -away))


def _comparisons(instructions: Sequence[Instruction], slots: Mapping[str, int]) -> Iterator[_Comparison]:
    """Those of the instructions that compare whole numbers."""
    for instruction in instructions:
        if instruction.opcode not in COMPARING:
            continue
        kind = TYPES[instruction.modifiers[-1]]
        if kind.kind not in ("s", "u", "b"):
            continue
        read = instruction.operands[1:]  # a second result is a predicate, and so is a third operand
        pair = [o for o in read if isinstance(o, Immediate) or isinstance(o, Register) and o.width > 1]
        if len(pair) == 2:
            one, other = (getter(operand, kind.width, slots, {}, instruction) for operand in pair)
            first, second = (slots[o.name] if isinstance(o, Register) else -1 for o in pair)
            yield _Comparison((one, other), (first, second), kind.kind != "u")


def _float_slots(instructions: Sequence[Instruction], slots: Mapping[str, int]) -> Iterator[int]:
    """The registers that instructions read or write as floats."""
    for instruction in instructions:
        kinds = [m for m in instruction.modifiers if m in TYPES]
        if instruction.opcode in _MOVES or _FLOATS.isdisjoint(kinds):
            continue
        each = kinds if instruction.opcode == "cvt" else [kinds[-1]] * len(instruction.operands)
        for operand, kind in zip(instruction.operands, each, strict=False):
            items = operand.items if isinstance(operand, Vector) else (operand,)
            if kind in _FLOATS:
                yield from (slots[one.name] for one in items if isinstance(one, Register) and one.name in slots)
