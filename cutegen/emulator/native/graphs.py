"""The computation of a segment as a graph: the values of registers before it, constants, and operations on values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cutegen.emulator.native.library import Operation
from cutegen.emulator.native.nodes import Call, Constant, Node
from cutegen.emulator.ptx.model import Instruction


@dataclass(frozen=True)
class Value:
    """A value of `size` bytes in each lane: what register `slot` holds, the constant `bits`, or an operation's result.

    `operation` is the number of one of the core, and `sources` are the numbers of the values that it has as operands.
    """

    size: int
    slot: int = -1
    bits: int = 0
    operation: int = -1
    sources: tuple[int, ...] = ()


@dataclass(frozen=True)
class Graph:
    """The values of a segment, each after its sources. `results` has, by slot, the values of the registers after it."""

    values: tuple[Value, ...]
    results: Mapping[int, int]

    def inputs(self) -> list[int]:
        """The values that are those of registers before the segment."""
        return [number for number, value in enumerate(self.values) if value.slot >= 0]


@dataclass(frozen=True)
class Lowered:
    """An instruction as expressions for the registers in the slots `targets` (-1: not wanted).

    `sources` are the slots of its sources, -1 for what is no register. `guard` is the slot of its guard, or None.
    """

    nodes: tuple[Node, ...]
    targets: tuple[int, ...]
    sources: tuple[int, ...]
    guard: int | None
    negated: bool
    instruction: Instruction


class GraphMaker:
    """Makes a graph of instructions, one after the other. `widths` are those of the registers in bits."""

    def __init__(self, operations: Mapping[str, Operation], widths: Sequence[int]) -> None:
        self.operations, self.widths = operations, widths
        self._values: list[Value] = []
        self._known: dict[Value, int] = {}
        self._now: dict[int, int] = {}  # slot -> the value that its register has now
        self._written: dict[int, int] = {}

    def add(self, lowered: Lowered) -> None:
        """Adds an instruction."""
        guard = None
        if lowered.guard is not None:
            guard = self._register(lowered.guard)
            if lowered.negated:
                guard = self._call("not1", [guard])
        results = [self._node(node, lowered.sources) for node in lowered.nodes]
        for target, result in zip(lowered.targets, results, strict=True):
            if target < 0:
                continue
            if guard is not None:
                width = max(8, self.widths[target])
                result = self._call(f"sel{width}", [result, self._register(target), guard])
            self._now[target] = self._written[target] = result

    def graph(self, wanted: Collection[int]) -> Graph:
        """The graph, with the registers in the slots `wanted` as results, and without what they do not depend on."""
        results = {slot: value for slot, value in self._written.items() if slot in wanted}
        needed: set[int] = set()
        left = list(results.values())
        while left:
            value = left.pop()
            if value not in needed:
                needed.add(value)
                left += self._values[value].sources
        place = {old: new for new, old in enumerate(sorted(needed))}
        values = []
        for old in place:
            found = self._values[old]
            sources = tuple(place[source] for source in found.sources)
            values.append(Value(found.size, found.slot, found.bits, found.operation, sources))
        return Graph(tuple(values), {slot: place[value] for slot, value in results.items()})

    def _value(self, value: Value) -> int:
        """The number of a value; an existing one is not made again."""
        if value not in self._known:
            self._known[value] = len(self._values)
            self._values.append(value)
        return self._known[value]

    def _register(self, slot: int) -> int:
        if slot not in self._now:
            self._now[slot] = self._value(Value(max(8, self.widths[slot]) // 8, slot=slot))
        return self._now[slot]

    def _call(self, name: str, sources: Sequence[int]) -> int:
        operation = self.operations[name]
        sizes = tuple(self._values[source].size for source in sources)
        assert sizes == operation.sizes, (name, sizes, operation.sizes)
        return self._value(Value(operation.size, operation=operation.number, sources=tuple(sources)))

    def _node(self, node: Node, sources: Sequence[int]) -> int:
        if isinstance(node, Constant):
            return self._value(Value(node.size, bits=node.bits))
        if isinstance(node, Call):
            return self._call(node.name, [self._node(operand, sources) for operand in node.operands])
        return self._register(sources[node])
