"""What the agents of a cluster do that go through the same statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.parts.acting import Acting, Geometry
from cutegen.parts.acts import Act, Agent, Arrive, Bring, Look, Meet, Multiply, Run, Store, Wait, Write
from cutegen.parts.faults import refuse
from cutegen.parts.statements import Body, body_acts

_NAMED_BARRIERS = 16  # of a block (PTX ISA 9.1, bar)


def traced(
    body: Body,
    agents: Mapping[tuple[str, int, int], tuple[int, ...]],
    geometry: Geometry,
    variables: Sequence[Mapping[str, Any]],
    arrivals: Mapping[str, int],
    *,
    lengths: Mapping[str, int],
    apart: bool = False,
) -> Run:
    """What all agents of a cluster do. Raises `Unproved` for a store that nobody can wait for, for what some threads do
    that all must, for a text without a value, and for what is beyond the end of an array.

    `agents` has the threads of each agent of a block by its role, its warpgroup and its part of that; `variables` the
    values of what the statements take as given, of each block by its rank. `arrivals` and `apart` are as for `Run`;
    `lengths` has those of arrays of barriers and of buffers, by name.
    """
    acts: dict[Agent, list[Act]] = {}
    for rank in range(geometry.size):
        for (role, group, part), threads in agents.items():
            agent = Agent(rank, role, group, part)
            at = Acting.of(agent, threads, geometry, variables[rank])
            try:
                acts[agent] = list(body_acts(body, at))
            except (NameError, ValueError) as error:
                refuse("text", f"{role} {group} of block {rank}: {error}", agent)
            for number, act in enumerate(acts[agent]):
                _check_inside(act, lengths, agent, number)
            if at.ungrouped:
                who = f"{role} {group} of block {rank}"
                refuse("group", f"{who} stores {at.ungrouped[0].name} in no group: nobody can wait for it", agent)
    return Run(acts, arrivals, apart)


def _check_inside(act: Act, lengths: Mapping[str, int], agent: Agent, number: int) -> None:
    """Refuses a barrier or a cell beyond the end of its array, and a named barrier that there is not."""
    places: list[tuple[str, int]] = []
    match act:
        case Wait() | Arrive():
            places = [(act.barrier.name, act.barrier.index)]
        case Bring():
            places = [(act.barrier.name, act.barrier.index), (act.cell.name, act.cell.place[0])]
        case Multiply() | Look():
            places = [(cell.name, cell.place[0]) for cell, _ in act.cells]
        case Store():
            places = [(cell.name, cell.place[0]) for cell in act.cells]
        case Write():
            places = [(act.cell.name, act.cell.place[0])]
        case Meet() if not 0 <= act.barrier.number < _NAMED_BARRIERS:
            text = f"{agent.role} {agent.group} comes to named barrier {act.barrier.number} of {_NAMED_BARRIERS}"
            refuse("outside", text, agent, number)
    for name, index in places:
        if not 0 <= index < lengths.get(name, index + 1):
            text = f"{agent.role} {agent.group} uses {name} {index}, and there are {lengths[name]}"
            refuse("outside", text, agent, number)
