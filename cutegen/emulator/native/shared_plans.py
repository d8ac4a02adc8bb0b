"""The plans of graphs that differ in their registers only, which are made once for all of them.

A kernel has many segments of the same shape: so has a loop that was unrolled, and so have the kernels of one text.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from weakref import WeakValueDictionary

from cutegen.emulator.native.graphs import Graph
from cutegen.emulator.native.plans import Merge, Plan, Planner


class SharedPlans:
    """The plans of graphs of one shape. `graph` is one of them, and `select` is as a `Planner` takes it."""

    def __init__(self, graph: Graph, select: Mapping[int, int]) -> None:
        self._graph, self._select = graph, select
        self._sizes = tuple(graph.values[value].size for value in graph.inputs())
        self._plans: dict[tuple[tuple[int, ...], tuple[int, ...]], Plan] = {}

    def plan(self, merges: tuple[int, ...], sorts: tuple[int, ...]) -> Plan:
        """The plan for inputs of these sorts: the graph's, then the old values of the results with the numbers in
        `merges`, and then the mask in whose lanes these are written.
        """
        found = self._plans.get((merges, sorts))
        if found is None:
            targets, count = tuple(self._graph.results), len(self._sizes)
            by_slot = {targets[n]: Merge(count + i, len(sorts) - 1) for i, n in enumerate(merges)}
            sizes = self._sizes + tuple(self._graph.values[self._graph.results[targets[n]]].size for n in merges)
            sizes += (1,) * bool(merges)
            found = Planner(self._graph, sorts, sizes, by_slot, self._select).plan()
            self._plans[merges, sorts] = found
        return found


_known: WeakValueDictionary[Hashable, SharedPlans] = WeakValueDictionary()


def shared_plans(graph: Graph, select: Mapping[int, int]) -> SharedPlans:
    """The plans of all graphs that have the shape of this one, for as long as any of them is there."""
    values: Sequence[Hashable] = [(v.size, v.slot < 0, v.bits, v.operation, v.sources) for v in graph.values]
    shape = (*values, *graph.results.values(), *select.items())
    found = _known.get(shape)
    if found is None:
        found = _known[shape] = SharedPlans(graph, select)
    return found
