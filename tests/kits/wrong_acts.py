"""Mistakes in the runs of `acts_kit`, one each: what is changed, in which plan, and what each prover finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from acts_kit import BYTES, Plan, Run, changed, gemm

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
    Look,
    Meet,
    Multiply,
    Stored,
    Wait,
    Write,
)
from cutegen.parts.faults import Kind

RING = Plan(parts=1)
PARTED = Plan(rest=0, consumers=1)
STORES = Plan(stages=1, rest=0, consumers=1, pieces=2, buffers=1)
BUFFERED = Plan(stages=1, rest=0, tiles=1, consumers=1, pieces=3)
TURNS = Plan(parts=1, in_turn=True, tiles=3)
CLUSTER = Plan(blocks=2)
TINY = Plan(rounds=0, rest=1, tiles=1, consumers=1, parts=1, blocks=2)  # of two blocks, for all orders


@dataclass(frozen=True)
class Mistake:
    what: str
    plan: Plan
    makes: Callable[[Run], Run]
    kind: Kind
    seen: str | None = None  # the kinds that a search of all orders may find; None where it is out of its reach


Which = Callable[[Agent, int, Act], bool]


def _always(agent: Agent, number: int, act: Act) -> bool:
    return True


def without(kind: type[Act], which: Which = _always) -> Callable[[Run], Run]:
    return lambda run: changed(
        run, lambda agent, number, act: () if isinstance(act, kind) and which(agent, number, act) else (act,)
    )


def other(kind: type[Act], which: Which = _always, **fields: object) -> Callable[[Run], Run]:
    """With other fields; those that are functions are given the old value."""

    def new(agent: Agent, number: int, act: Act) -> tuple[Act]:
        if not (isinstance(act, kind) and which(agent, number, act)):
            return (act,)
        return (replace(act, **{k: v(getattr(act, k)) if callable(v) else v for k, v in fields.items()}),)

    return lambda run: changed(run, new)


def arrivals(more: int, name: str = "empty") -> Callable[[Run], Run]:
    def makes(run: Run) -> Run:
        counts: Mapping[str, int] = run.arrivals
        return replace(run, arrivals={**counts, name: counts[name] + more})

    return makes


def of(plan: Plan) -> Callable[[Run], Run]:
    """The run of another plan."""
    return lambda run: gemm(plan)


def at(name: str) -> Which:
    return lambda agent, number, act: act.barrier.name == name  # type: ignore[union-attr]


def by(role: str, part: int = 0) -> Which:
    return lambda agent, number, act: agent.role == role and agent.part == part


def but(value: int) -> Which:
    return lambda agent, number, act: act.but == value  # type: ignore[union-attr]


def both(*conditions: Which) -> Which:
    return lambda agent, number, act: all(one(agent, number, act) for one in conditions)


def loads(name: str) -> Which:
    return lambda agent, number, act: act.cell.name == name  # type: ignore[union-attr]


def meets(number: int, remainder: int | None = None) -> Which:
    """The named barriers of that number; of these, every second."""
    return lambda agent, so_manieth, act: (
        act.barrier.number == number and remainder in (None, so_manieth % 2)  # type: ignore[union-attr]
    )


def by_number(number: int) -> Which:
    return lambda agent, so_manieth, act: so_manieth == number


def twice(kind: type[Act], which: Which = _always) -> Callable[[Run], Run]:
    return lambda run: changed(
        run, lambda agent, number, act: (act, act) if isinstance(act, kind) and which(agent, number, act) else (act,)
    )


def _flipped(parity: int) -> int:
    return 1 - parity


def _home(run: Run) -> Run:
    """Stages are released in the consumer's own block, as often."""

    def new(agent: Agent, number: int, act: Act) -> tuple[Act]:
        if isinstance(act, Arrive) and agent.role == "consumer":
            return (replace(act, barrier=act.barrier._replace(block=agent.block)),)
        return (act,)

    return changed(run, new)


def _fence_late(run: Run) -> Run:
    """The fence comes after the barrier before the store."""
    last: dict[Agent, Act] = {}

    def new(agent: Agent, number: int, act: Act) -> tuple[Act, ...]:
        before = last.get(agent)
        last[agent] = act
        if isinstance(act, Fence):
            return ()
        return (act, Fence()) if isinstance(before, Fence) else (act,)

    return changed(run, new)


def _watched(run: Run) -> Run:
    """Another role waits for the same stages, and releases none."""
    waits = [act for act in run.acts[Agent(0, "consumer", 0, 0)] if isinstance(act, Wait)]
    return replace(run, acts={**run.acts, Agent(0, "watcher", 0, 0): waits})


def _written(run: Run) -> Run:
    """A consumer writes over A before its products are done."""
    cell = Cell(0, "A", (0,))
    return changed(
        run, lambda agent, number, act: (act, Write(cell, ("new",))) if isinstance(act, Multiply) else (act,)
    )


def _looked(run: Run) -> Run:
    """The producer looks at what it loads."""
    return changed(
        run,
        lambda agent, number, act: (
            (act, Look(((act.cell, act.content),))) if isinstance(act, Bring) and number == 0 else (act,)
        ),
    )


def _more_loads(run: Run) -> Run:
    """The producer loads a step more than is multiplied."""
    producer = Agent(0, "producer", 0, 0)
    return replace(run, acts={**run.acts, producer: [*run.acts[producer], *run.acts[producer][:4]]})


def _third(run: Run) -> Run:
    """Another role waits for the third of three arrivals, whose parity is that of the first."""
    signal, cell = Barrier(0, "signal", 0), Cell(0, "number", ())
    writer = (Arrive(signal, 1), Arrive(signal, 1), Write(cell, ()), Arrive(signal, 1))
    reader = (Wait(signal, 0), Look(((cell, None),)))
    acts = {**run.acts, Agent(0, "writer", 0, 0): writer, Agent(0, "reader", 0, 0): reader}
    return replace(run, acts=acts, arrivals={**run.arrivals, "signal": 1})


def _stray_bytes(run: Run) -> Run:
    return other(Bring, lambda agent, number, act: number == 0, barrier=lambda barrier: barrier._replace(index=1))(run)


def _all_release(run: Run) -> Run:
    """The other part releases each stage, too, before it waits for the next."""
    acts = dict(run.acts)
    acts[Agent(0, "consumer", 0, 1)] = acts[Agent(0, "consumer", 0, 0)]
    return replace(run, acts=acts)


def mistakes() -> Iterator[Mistake]:
    yield from ring()
    yield from warpgroups()
    yield from stores()
    yield from turns()
    yield from clusters()


def ring() -> Iterator[Mistake]:
    yield Mistake("an arrival less at empty barriers", RING, arrivals(-1), "stray", "deadlock overwrite unread")
    yield Mistake("an arrival more at empty barriers", RING, arrivals(1), "deadlock", "deadlock")
    yield Mistake("empty barriers are initialised with no arrival", PARTED, arrivals(-1), "arrivals", "arrivals")
    yield Mistake("an arrival more at full barriers", RING, arrivals(1, "full"), "deadlock", "deadlock")
    yield Mistake("arrives three times at once", PARTED, other(Arrive, at("empty"), count=3), "arrivals", "arrivals")
    yield Mistake(
        "releases twice", RING, twice(Arrive, at("empty")), "stray", "overwrite unread content early deadlock"
    )
    yield Mistake(
        "the producer waits for the other parity",
        RING,
        other(Wait, by("producer"), parity=_flipped),
        "deadlock",
        "deadlock",
    )
    yield Mistake(
        "consumers wait for the other parity",
        RING,
        other(Wait, by("consumer"), parity=_flipped),
        "deadlock",
        "early content deadlock",
    )
    yield Mistake("no wait for full stages", RING, without(Wait, by("consumer")), "early", "early content")
    yield Mistake("no wait for empty stages", RING, without(Wait, by("producer")), "stray", "arrivals overwrite unread")
    yield Mistake("a stage is released before its drain", RING, other(Drain, but(1), but=2), "overwrite", "overwrite")
    yield Mistake("no drain", RING, without(Drain), "registers", "registers")
    yield Mistake("no drain in the loop", RING, without(Drain, but(1)), "overwrite", "overwrite")
    yield Mistake(
        "the last stage is not released",
        RING,
        without(Arrive, lambda agent, number, act: agent.role == "consumer" and number % 3 == 2),
        "deadlock",
        "deadlock",
    )
    yield Mistake(
        "bytes of a box less expected", RING, other(Arrive, at("full"), expected=BYTES), "stray", "content early"
    )
    yield Mistake("a byte more expected", RING, other(Arrive, at("full"), expected=2 * BYTES + 1), "bytes", "bytes")
    yield Mistake("a byte less expected", RING, other(Arrive, at("full"), expected=2 * BYTES - 1), "bytes", "bytes")
    yield Mistake("no bytes expected", RING, other(Arrive, at("full"), expected=0), "early", "early")
    yield Mistake("a box brings less", RING, other(Bring, loads("A"), bytes=BYTES // 2), "bytes", "bytes")
    yield Mistake("A is not loaded", RING, without(Bring, loads("A")), "bytes", "bytes")
    yield Mistake(
        "A is neither loaded nor expected",
        RING,
        lambda run: without(Bring, loads("A"))(other(Arrive, at("full"), expected=BYTES)(run)),
        "early",
        "early",
    )
    yield Mistake("A's first load counts at another barrier", RING, _stray_bytes, "stray", "bytes")
    yield Mistake(
        "consumers turn a stage early",
        replace(RING, stages=3),
        of(replace(RING, stages=3, turns=2)),
        "content",
        "content deadlock",
    )
    yield Mistake(
        "the producer waits for full stages",
        RING,
        other(Wait, by("producer"), barrier=lambda b: b._replace(name="full")),
        "unread",
        "unread overwrite",
    )
    yield Mistake(
        "B of a step is not multiplied",
        RING,
        other(Multiply, lambda a, n, act: n == 1, cells=lambda cells: cells[:1]),
        "unread",
        "unread",
    )
    yield Mistake("B of another step", RING, other(Bring, lambda a, n, act: n == 3, content=(7,)), "content", "content")
    yield Mistake("loads that nobody waits for", PARTED, _more_loads, "unread", "unread")
    yield Mistake("a waiter that releases nothing", RING, _watched, "overrun", "deadlock")
    yield Mistake("a wait that its parity does not tell", PARTED, _third, "wait", "early")
    yield Mistake("writes over an operand", RING, _written, "overwrite", "overwrite")
    yield Mistake("the producer reads what it loads", RING, _looked, "early", "early")


def warpgroups() -> Iterator[Mistake]:
    yield Mistake("all parts release", PARTED, _all_release, "stray", "deadlock overwrite")
    yield Mistake("a part does not wait", PARTED, without(Wait, by("consumer", 1)), "early", "early content")
    yield Mistake("a part does not multiply", PARTED, without(Multiply, by("consumer", 1)), "deadlock", "deadlock")
    yield Mistake(
        "a part multiplies something else",
        PARTED,
        other(Multiply, by("consumer", 1), registers=("others",)),
        "products",
        "products",
    )


def stores() -> Iterator[Mistake]:
    yield Mistake("no wait before a buffer is written", STORES, without(Stored, by_number(1)), "overwrite", "overwrite")
    yield Mistake("waits for a store too few", BUFFERED, other(Stored, but(1), but=2), "overwrite", "overwrite")
    yield Mistake("no wait for the last store", BUFFERED, without(Stored, but(0)), "exit", "exit")
    yield Mistake(
        "no barrier before a buffer is written",
        STORES,
        without(Meet, meets(3, 0)),
        "early",
        "overwrite fence early content",
    )
    yield Mistake(
        "no barrier before a buffer is stored", STORES, without(Meet, meets(3, 1)), "early", "overwrite fence"
    )
    yield Mistake("no fence before a buffer is stored", STORES, without(Fence), "fence", "fence")
    yield Mistake(
        "no fence of the part that does not store", STORES, without(Fence, by("consumer", 1)), "fence", "fence"
    )
    yield Mistake("the fence comes after the barrier", STORES, _fence_late, "fence", "fence")
    yield Mistake("a part less at a named barrier", STORES, without(Meet, by("consumer", 1)), "deadlock", "deadlock")
    yield Mistake("fewer threads come", STORES, other(Meet, by("consumer", 1), count=64), "deadlock", "deadlock")
    yield Mistake("more threads come", STORES, other(Meet, by("consumer", 1), count=128), "threads", "threads deadlock")
    yield Mistake(
        "threads of one part alone",
        STORES,
        other(Meet, by("consumer", 1), threads=96),
        "threads",
        "threads deadlock",
    )


def turns() -> Iterator[Mistake]:
    yield Mistake(
        "nobody gives the first turn",
        TURNS,
        without(Meet, lambda a, n, act: a.group == 1 and n == 0),
        "deadlock",
        "deadlock",
    )
    yield Mistake("no turns", TURNS, without(Meet), "content", "early content")
    yield Mistake(
        "a turn is given twice",
        TURNS,
        twice(Meet, lambda a, n, act: not act.waits),
        "threads",
        "early content threads deadlock overwrite unread",
    )
    yield Mistake(
        "a turn is kept", TURNS, without(Meet, lambda a, n, act: a.group == 0 and not act.waits), "deadlock", "deadlock"
    )
    yield Mistake("the other's tile is not skipped", TURNS, of(replace(TURNS, skips=False)), "content", "content early")
    yield Mistake("arrivals as if consumers shared tiles", TURNS, arrivals(1), "deadlock", "deadlock")
    yield Mistake("turns for fewer threads", TURNS, other(Meet, threads=128), "threads", "early content")


def clusters() -> Iterator[Mistake]:
    one = lambda agent, number, act: agent.block == 1  # noqa: E731
    ends = ClusterArrive | ClusterWait
    yield Mistake("no barrier of the cluster at the end", TINY, without(ends), "exit", "exit")
    yield Mistake("a block does not wait at the end", TINY, without(ClusterWait, one), "exit", "exit")
    yield Mistake("a block does not come to the end", TINY, without(ends, one), "deadlock", "deadlock exit")
    yield Mistake("arrives twice at the cluster's barrier", TINY, twice(ClusterArrive, one), "cluster", "cluster")
    yield Mistake("waits without having arrived", TINY, without(ClusterArrive, one), "cluster", "cluster")
    yield Mistake("stages are released at home only", CLUSTER, _home, "stray")
    yield Mistake(
        "the peer's stages are not released",
        CLUSTER,
        without(Arrive, lambda a, n, act: act.barrier.block != a.block),
        "deadlock",
    )
    yield Mistake(
        "B is brought to one block only",
        TINY,
        without(Bring, lambda a, n, act: act.cell.block != a.block),
        "bytes",
        "bytes",
    )
    yield Mistake(
        "B comes to the wrong half",
        TINY,
        other(Bring, both(loads("B"), one), cell=lambda c: c._replace(place=(0, 0))),
        "overwrite",
        "overwrite",
    )
    yield Mistake("the peer's stage is not waited for", CLUSTER, arrivals(-1), "stray")
