"""Runs by hand, as a gemm with warps of several roles has them, and changes of them.

A producer loads A and B to a ring of stages, consumers multiply them, and store each tile in pieces through buffers.
All consumers work at one tile, or take turns. In a cluster each block loads a part of B for all blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cutegen.parts.acts import (
    Act,
    Agent,
    Arrive,
    Barrier,
    Bring,
    Cell,
    ClusterArrive,
    ClusterWait,
    Drain,
    Fence,
    FenceInitialised,
    Initialise,
    Meet,
    Multiply,
    NamedBarrier,
    Store,
    Stored,
    Use,
    Wait,
    Write,
)
from cutegen.parts.acts import Run as WholeRun

BYTES = 64  # of a stage of A, and of B
Change = Callable[[Agent, int, Act], Sequence[Act]]
"""The acts instead of one: of an agent, the so-manieth of its kind that the agent does."""


@dataclass(frozen=True)
class Run:
    """The acts of agents once barriers are initialised, and the arrivals of each array of barriers."""

    acts: Mapping[Agent, Sequence[Act]]
    arrivals: Mapping[str, int]

    @property
    def opened(self) -> WholeRun:
        """With what comes before: the first agent of each block initialises its barriers, and all meet."""
        used = {a.barrier for own in self.acts.values() for a in own if isinstance(a, Wait | Arrive | Bring)}
        acts: dict[Agent, list[Act]] = {}
        blocks: set[int] = set()
        for agent, own in self.acts.items():
            mine = sorted(barrier for barrier in used if barrier.block == agent.block and agent.block not in blocks)
            blocks.add(agent.block)
            made = [Initialise(barrier, self.arrivals.get(barrier.name, 0)) for barrier in mine]
            fence = [FenceInitialised()] * bool(made)
            acts[agent] = [*made, *fence, ClusterArrive(relaxed=True), ClusterWait(), *own]
        return WholeRun(acts)


@dataclass(frozen=True)
class Plan:
    stages: int = 2
    rounds: int = 1
    rest: int = 1
    tiles: int = 2
    consumers: int = 2
    parts: int = 2  # agents of a consumer; the first releases stages and stores
    blocks: int = 1
    pieces: int = 0
    buffers: int = 2
    in_turn: bool = False
    turns: int | None = None  # stages after which consumers begin again, if not after all
    skips: bool = True  # the stages of tiles that another consumer multiplies

    @property
    def steps(self) -> int:
        return self.stages * self.rounds + self.rest

    @property
    def threads(self) -> Sequence[int]:
        return (32, 96) if self.parts == 2 else (128,)


def gemm(plan: Plan) -> Run:
    acts: dict[Agent, list[Act]] = {}
    for block in range(plan.blocks):
        acts[Agent(block, "producer", 0, 0)] = list(_producer(plan, block))
        for group in range(plan.consumers):
            for part in range(plan.parts):
                agent = Agent(block, "consumer", group, part)
                acts[agent] = list(_consumer(plan, agent))
    for own in acts.values():
        own += [ClusterArrive(), ClusterWait()] * (plan.blocks > 1)
    users = (1 if plan.in_turn else plan.consumers) * plan.blocks
    return Run(acts, {"full": 1, "empty": users})


def _producer(plan: Plan, block: int) -> Iterator[Act]:
    for step in range(plan.tiles * plan.steps):
        stage, parity = step % plan.stages, step // plan.stages % 2
        yield Wait(Barrier(block, "empty", stage), 1 - parity)
        yield Arrive(Barrier(block, "full", stage), 1, 2 * BYTES)
        yield Bring(Cell(block, "A", (stage,)), (block, step), Barrier(block, "full", stage), BYTES)
        for peer in range(plan.blocks):
            cell = Cell(peer, "B", (stage, block))
            yield Bring(cell, (step,), Barrier(peer, "full", stage), BYTES // plan.blocks)


def _consumer(plan: Plan, agent: Agent) -> Iterator[Act]:
    if plan.in_turn and agent.group == 1 and plan.tiles:
        yield _turn(plan, agent, 0, waits=False)
    stored = 0
    for tile in range(plan.tiles):
        if plan.in_turn and tile % plan.consumers != agent.group:
            continue
        if plan.in_turn:
            yield _turn(plan, agent, agent.group, waits=True)
        yield from _products(plan, agent, tile)
        for piece in range(plan.pieces):
            yield from _piece(plan, agent, stored % plan.buffers, (tile, piece))
            stored += 1
    if agent.part == 0 and plan.pieces:
        yield Stored(0)


def _turn(plan: Plan, agent: Agent, of: int, waits: bool) -> Meet:
    return Meet(NamedBarrier(agent.block, 1 + of), 256, plan.threads[agent.part], waits)


def _products(plan: Plan, agent: Agent, tile: int) -> Iterator[Act]:
    """The step before is released once a product after it has started, but where there is one stage alone."""
    late, before = plan.stages > 1, None
    for step in range(tile * plan.steps, (tile + 1) * plan.steps):
        turns = plan.turns or plan.stages
        place = step if plan.skips else step - (tile - tile // plan.consumers) * plan.steps
        stage, parity = place % turns, place // turns % 2
        yield Wait(Barrier(agent.block, "full", stage), parity)
        parts = [(Cell(agent.block, "B", (stage, part)), (step,)) for part in range(plan.blocks)]
        yield Multiply(((Cell(agent.block, "A", (stage,)), (agent.block, step)), *parts), ("sums",))
        yield Drain(1 if late else 0)
        if before is not None:
            yield from _release(plan, agent, before)
        before = stage if late else None
        if not late:
            yield from _release(plan, agent, stage)
    if plan.in_turn and tile + 1 < plan.tiles:
        yield _turn(plan, agent, 1 - agent.group, waits=False)
    yield Drain(0)
    if before is not None:
        yield from _release(plan, agent, before)
    yield Use(("sums",))


def _release(plan: Plan, agent: Agent, stage: int) -> Iterator[Act]:
    if agent.part == 0:
        for peer in range(plan.blocks):
            yield Arrive(Barrier(peer, "empty", stage), 1)


def _piece(plan: Plan, agent: Agent, buffer: int, content: tuple[int, int]) -> Iterator[Act]:
    cell = Cell(agent.block, "C", (agent.group, buffer))
    meet = Meet(NamedBarrier(agent.block, 3 + agent.group), 128, plan.threads[agent.part], waits=True)
    if agent.part == 0:
        yield Stored(plan.buffers - 1)
    yield meet
    yield Write(cell, content)
    yield Fence()
    yield meet
    if agent.part == 0:
        yield Store(((cell, content),))


def changed(run: Run, change: Change) -> Run:
    acts: dict[Agent, list[Act]] = {}
    for agent, own in run.acts.items():
        seen: dict[type[Act], int] = {}
        acts[agent] = []
        for act in own:
            number = seen[type(act)] = seen.get(type(act), -1) + 1
            acts[agent] += change(agent, number, act)
    return replace(run, acts=acts)
