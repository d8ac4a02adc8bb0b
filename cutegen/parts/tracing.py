"""What the agents of a cluster do that go through the same statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.parts.acting import Acting, Geometry
from cutegen.parts.acts import Act, Agent, Run
from cutegen.parts.faults import refuse
from cutegen.parts.statements import Body, body_acts


def traced(
    body: Body,
    agents: Mapping[tuple[str, int, int], tuple[int, ...]],
    geometry: Geometry,
    variables: Sequence[Mapping[str, Any]],
    arrivals: Mapping[str, int],
    *,
    apart: bool = False,
) -> Run:
    """What all agents of a cluster do. Raises `Unproved` for a store that nobody can wait for.

    `agents` has the threads of each agent of a block by its role, its warpgroup and its part of that; `variables` the
    values of what the statements take as given, of each block by its rank. `arrivals` and `apart` are as for `Run`.
    """
    acts: dict[Agent, list[Act]] = {}
    for rank in range(geometry.size):
        for (role, group, part), threads in agents.items():
            agent = Agent(rank, role, group, part)
            at = Acting.of(agent, threads, geometry, variables[rank])
            acts[agent] = list(body_acts(body, at))
            if at.ungrouped:
                who = f"{role} {group} of block {rank}"
                refuse("group", f"{who} stores {at.ungrouped[0].name} in no group: nobody can wait for it", agent)
    return Run(acts, arrivals, apart)
