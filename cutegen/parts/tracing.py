"""Traces the acts of all agents of a cluster, which go through the same statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from cutegen.parts.acting import Acting, Allocated, Geometry
from cutegen.parts.acts import (
    Act,
    Agent,
    Arrive,
    Bring,
    Cell,
    Commit,
    Content,
    CpAsync,
    Initialise,
    Look,
    Meet,
    Multiply,
    Run,
    StartProducts,
    Store,
    Wait,
    Write,
)
from cutegen.parts.faults import refuse
from cutegen.parts.statements import Body, body_acts

_NAMED_BARRIERS = 16  # of a block (PTX ISA 9.1, bar)


def traced(
    body: Body,
    agents: Mapping[tuple[str, int, int], tuple[int, ...]],
    geometry: Geometry,
    variables: Sequence[Mapping[str, Any]],
) -> Run:
    """Returns the acts of all agents of a cluster. Raises `Unproved` for a store that nobody can wait for, for an act
    of all threads in which only some take part, for a text without a value, and for a barrier or cell that has not
    been allocated or is out of bounds.

    `agents` maps a role, a warpgroup and a part of it to the agent's threads; together they are all threads of a block.
    `variables` has, by the rank of each block, the values of the variables that the statements take as given.
    """
    acts: dict[Agent, list[Act]] = {}
    allocated: dict[str, Allocated] = {}
    block_threads = sum(map(len, agents.values()))
    for rank in range(geometry.size):
        for (role, group, part), threads in agents.items():
            agent = Agent(rank, role, group, part)
            at = Acting.of(agent, threads, geometry, variables[rank], block_threads)
            acts[agent] = []
            try:
                for act in body_acts(body, at):
                    _check_inside(act, at, len(acts[agent]))
                    acts[agent].append(act)
            except (NameError, ValueError) as error:
                refuse("text", f"{role} {group} of block {rank}: {error}", agent)
            allocated |= at.allocated
            if at.ungrouped:
                who = f"{role} {group} of block {rank}"
                refuse("group", f"{who} stores {at.ungrouped[0][0].name} in no group: nobody can wait for it", agent)
    return Run(_in_parts(acts, allocated), _overlaps(allocated))


def _in_parts(run: Mapping[Agent, Sequence[Act]], allocated: Mapping[str, Allocated]) -> dict[Agent, list[Act]]:
    """Acts whose products read cells in the parts in which these are loaded, which must make up the whole cell, but for
    parts that loads leave out.
    """
    parts: dict[Cell, dict[Cell, int]] = defaultdict(dict)
    left_out: set[tuple[Cell, Content]] = set()
    for act in (act for acts in run.values() for act in acts if isinstance(act, Bring)):
        parts[act.cell._replace(place=act.cell.place[:1])][act.cell] = act.bytes + act.left_out
        if not act.bytes:
            left_out.add((act.cell, act.content))

    def divided(agent: Agent, number: int, act: Act) -> Act:
        if not isinstance(act, Multiply | StartProducts):
            return act
        for cell, _ in act.cells:
            size, own = sum(parts[cell].values()), allocated[cell.name].own
            if parts[cell] and size != own:
                text = f"{agent.role} {agent.group} multiplies {own} bytes of {cell.name} {cell.place[0]}"
                refuse("bytes", f"{text}, of which loads bring {size}", agent, number)
        cells = [(part, content) for cell, content in act.cells for part in sorted(parts[cell]) or [cell]]
        read = tuple(one for one in cells if one not in left_out)
        return replace(act, cells=read, left_out=tuple(one for one in cells if one in left_out))

    return {
        agent: [divided(agent, n, act) for n, act in enumerate(acts) if not (isinstance(act, Bring) and not act.bytes)]
        for agent, acts in run.items()
    }


def _overlaps(allocated: Mapping[str, Allocated]) -> dict[tuple[str, int], set[tuple[str, int]]]:
    """The cells of other buffers that each one has memory in common with, where there are any."""
    found: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for (name, one), (other_name, other) in permutations(allocated.items(), 2):
        for number in range(one.length):
            others = {(other_name, place) for place in one.overlaps(number, other)}
            if others:
                found[name, number] = found.get((name, number), set()) | others
    return found


def _check_inside(act: Act, at: Acting, number: int) -> None:
    """Refuses a barrier or a cell that has not been allocated or is beyond the end of its array, and a named barrier
    that there is not.
    """
    places: list[tuple[str, int]] = []
    match act:
        case Initialise() | Wait() | Arrive() | Commit():
            places = [(act.barrier.name, act.barrier.index)]
        case Bring():
            places = [(act.barrier.name, act.barrier.index), (act.cell.name, act.cell.place[0])]
        case Multiply() | StartProducts() | Look() | Store():
            places = [(cell.name, cell.place[0]) for cell, _ in act.cells]
        case Write() | CpAsync():
            places = [(act.cell.name, act.cell.place[0])]
        case Meet() if not 0 <= act.barrier.number < _NAMED_BARRIERS:
            who = f"{at.agent.role} {at.agent.group}"
            text = f"{who} comes to named barrier {act.barrier.number} of {_NAMED_BARRIERS}"
            refuse("outside", text, at.agent, number)
    for name, index in places:
        at.inside(name, index, number)
