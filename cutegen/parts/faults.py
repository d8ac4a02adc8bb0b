"""Faults of a run, as proofs report them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from cutegen.parts.acts import Agent

Kind: TypeAlias = Literal[
    "arrivals",  # more arrivals at a barrier than it is initialised with, or it is initialised with none
    "bytes",  # the bytes that come to a barrier are not those that its phase expects
    "cluster",  # an agent arrives at the cluster's barrier twice without waiting, or waits without having arrived
    "content",  # something else is read than what the reader names
    "deadlock",  # nobody can go on
    "early",  # memory may be read before its content has come
    "exit",  # a block may end while its shared memory or its barriers are still used
    "fence",  # what threads wrote may not be visible to an asynchronous read or copy
    "overrun",  # a phase may end a second time before a waiter of the first has passed
    "overwrite",  # memory may be overwritten while it is read, loaded or stored
    "products",  # the agents of a warpgroup start different products
    "outside",  # a barrier or a cell is in no array, or beyond its end, or a named barrier is none of the 16
    "partial",  # some threads take no part in what all of them, or whole warps, do together
    "registers",  # registers are used while a product is under way that uses them
    "fragment",  # registers are multiplied that nothing was read to, or that are of different steps of the sum
    "group",  # a store or a copy is in no group that could be waited for
    "text",  # a text has no value: a name that nothing gives one, or threads that differ where they must not
    "start",  # a barrier may not be initialised, and seen to be, when it is used; or it is initialised twice
    "sum",  # a step of the sum is not multiplied once
    "stray",  # an arrival, or bytes, may fall into another phase of their barrier
    "threads",  # the numbers of threads at a named barrier do not add up
    "unread",  # a load that nobody waits for or reads
    "wait",  # a wait may pass two phases early
]


@dataclass(frozen=True)
class Fault:
    """One fault: its kind, who does what where and why that is wrong, and the act and the agent that revealed it."""

    kind: Kind
    text: str
    agent: Agent | None = None
    act: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Unproved(Exception):
    """Raised by a proof that finds a fault, which it carries."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def refuse(kind: Kind, text: str, agent: Agent | None = None, act: int | None = None) -> NoReturn:
    raise Unproved(Fault(kind, text, agent, act))
