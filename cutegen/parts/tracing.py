"""What the agents of a cluster do that go through the same statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.parts.acting import Acting, Geometry
from cutegen.parts.acts import Act, Agent, Run
from cutegen.parts.statements import Body, body_acts


def traced(
    body: Body,
    agents: Mapping[tuple[str, int, int], tuple[int, ...]],
    geometry: Geometry,
    variables: Sequence[Mapping[str, Any]],
    arrivals: Mapping[str, int],
) -> Run:
    """What all agents of a cluster do.

    `agents` has the threads of each agent of a block by its role, its warpgroup and its part of that; `variables` the
    values of what the statements take as given, of each block by its rank.
    """
    acts: dict[Agent, list[Act]] = {}
    for rank in range(geometry.size):
        for (role, group, part), threads in agents.items():
            agent = Agent(rank, role, group, part)
            acts[agent] = list(body_acts(body, Acting.of(agent, threads, geometry, variables[rank])))
    return Run(acts, arrivals)
