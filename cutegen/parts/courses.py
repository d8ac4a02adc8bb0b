"""An agent's acts with the asynchronous work under way before each of them, which its own list alone tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutegen.parts.acts import (
    Act,
    Agent,
    Cell,
    ClusterArrive,
    ClusterWait,
    CpAsync,
    CpAsyncCommitGroup,
    CpAsyncWaitGroup,
    Drain,
    Fence,
    FenceInitialised,
    Multiply,
    Run,
    Store,
    Stored,
    Use,
)
from cutegen.parts.faults import refuse
from cutegen.parts.wording import Wording


class Warpgroup(NamedTuple):
    """Agents that start products together."""

    block: int
    role: str
    group: int


def warpgroup_of(agent: Agent) -> Warpgroup:
    return Warpgroup(agent.block, agent.role, agent.group)


class Under(NamedTuple):
    """The work that an agent has started and has seen completed, before one of its acts or at its end."""

    products: int = 0  # groups of products started
    drained: int = 0  # of these, done
    stores: int = 0  # groups of stores started
    stored: int = 0  # of these, done
    copies: int = 0  # groups of its own copies committed
    copied: int = 0  # of these, done
    fence: int = -1  # the number of its last fence among its acts
    arrived: int = 0  # times at the cluster's barrier
    waited: int = 0
    initialised: int = -1  # the number of its last fence of barriers among its acts


@dataclass(frozen=True)
class Course:
    agent: Agent
    acts: Sequence[Act]
    products: Sequence[Multiply]
    stores: Sequence[Store]
    copies: Mapping[int, int]  # the group of each of its own copies, by the copy's number among the acts
    under: Sequence[Under]  # before each act, and at the end


def courses_of(run: Run, wording: Wording) -> dict[Agent, Course]:
    """The course of every agent, once registers, the ends of products and stores, and the order of acts at the
    cluster's barrier are found right.
    """
    courses = {agent: _course(agent, acts, wording) for agent, acts in run.acts.items()}
    _all_done(courses, wording)
    return courses


def _course(agent: Agent, acts: Sequence[Act], wording: Wording) -> Course:
    products = [act for act in acts if isinstance(act, Multiply)]
    stores = [act for act in acts if isinstance(act, Store)]
    copies: dict[int, int] = {}
    under = [Under()]
    for number, act in enumerate(acts):
        now = under[-1]
        if isinstance(act, Use):
            running = {name for product in products[now.drained : now.products] for name in product.registers}
            for name in sorted(running.intersection(act.registers)):
                text = f"{wording.agent(agent)} uses registers {name} while a product that uses them is under way"
                refuse("registers", text, agent, number)
        if isinstance(act, ClusterArrive) and now.arrived > now.waited:
            refuse(
                "cluster",
                f"{wording.agent(agent)} arrives twice at the cluster's barrier without waiting",
                agent,
                number,
            )
        if isinstance(act, ClusterWait) and now.arrived == now.waited:
            refuse(
                "cluster",
                f"{wording.agent(agent)} waits at the cluster's barrier without having arrived",
                agent,
                number,
            )
        if isinstance(act, CpAsync):
            copies[number] = now.copies
        under.append(_after(now, act, number))
    return Course(agent, acts, products, stores, copies, under)


def _after(now: Under, act: Act, number: int) -> Under:
    match act:
        case Multiply():
            return now._replace(products=now.products + 1)
        case Drain(but):
            return now._replace(drained=max(now.drained, now.products - but))
        case Store():
            return now._replace(stores=now.stores + 1)
        case Stored(but):
            return now._replace(stored=max(now.stored, now.stores - but))
        case CpAsyncCommitGroup():
            return now._replace(copies=now.copies + 1)
        case CpAsyncWaitGroup(but):
            return now._replace(copied=max(now.copied, now.copies - but))
        case Fence():
            return now._replace(fence=number)
        case FenceInitialised():
            return now._replace(initialised=number)
        case ClusterArrive():
            return now._replace(arrived=now.arrived + 1)
        case ClusterWait():
            return now._replace(waited=now.waited + 1)
    return now


def _all_done(courses: Mapping[Agent, Course], wording: Wording) -> None:
    drained: dict[Warpgroup, int] = defaultdict(int)
    for agent, course in courses.items():
        drained[warpgroup_of(agent)] = max(drained[warpgroup_of(agent)], course.under[-1].drained)
    for agent, course in courses.items():
        last = course.under[-1]
        if last.products > drained[warpgroup_of(agent)]:
            refuse(
                "exit", f"{wording.agent(agent)} ends while a product reads shared memory: it has not drained it", agent
            )
        if last.stores > last.stored:
            cell = wording.cell(course.stores[last.stored].cells[0][0])
            refuse(
                "exit", f"{wording.agent(agent)} ends while {cell} is being stored: it has not waited for that", agent
            )
        running = [cell_of(course.acts[number]) for number, group in course.copies.items() if group >= last.copied]
        if running:
            text = f"{wording.agent(agent)} ends while its copy to {wording.cell(running[0])} is under way"
            refuse("exit", f"{text}: it has not waited for it", agent)


def cell_of(act: Act) -> Cell:
    assert isinstance(act, CpAsync)
    return act.cell
