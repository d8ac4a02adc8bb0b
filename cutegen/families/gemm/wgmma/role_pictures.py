"""Producer and consumers over time: loads into the stages, products, epilogues and the buffers of their stores."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from cutegen.analysis.words import count
from cutegen.drawing.model import Figure, Subject, Timeline
from cutegen.drawing.timelines import PALETTE, STORED, Sheet, hue
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.synchronisation import Counts, run_of
from cutegen.parts.acts import Act, Agent, Bring, Content, Look, Multiply, Use
from cutegen.parts.courses import Warpgroup
from cutegen.parts.timing import Span, Taken, Time, timed

MOST_K_TILES = 4  # of a tile: what follows is alike
FLIGHT = 2  # steps that a load takes in the picture
EPILOGUE = 2  # and an epilogue
EXCHANGE = 1  # and the exchange of sums before it, of blocks that have a tile together
MOST_PIECES = 12  # that are drawn of one


@dataclass(frozen=True)
class Step:
    """A tile along k of an output tile: when its load starts, when it is there, and when it is multiplied."""

    tile: int
    k: int
    stage: int
    load: int
    product: int

    @property
    def there(self) -> int:
        return self.load + FLIGHT


@dataclass(frozen=True)
class Schedule:
    """The steps of one block: a product of a tile along k takes one. `ends` are the ends of epilogues, by tile."""

    steps: tuple[Step, ...]
    ends: Mapping[int, int]

    def products(self, tile: int) -> list[Step]:
        return [step for step in self.steps if step.tile == tile]


def k_tiles(plan: WarpspecializedPlan) -> int | None:
    """Tiles along k that a block has of every output tile, of blocks along k the most; None where the size is not
    fixed.
    """
    size = plan.spec.static.get(plan.k)
    return None if size is None else -(-size // (plan.tile[plan.k] * plan.split))


def exchange(plan: WarpspecializedPlan) -> int:
    """Steps of the exchange of sums."""
    return EXCHANGE if plan.split > 1 else 0


def schedule_of(plan: WarpspecializedPlan) -> Schedule:
    """When a block does what, by what its warps do: everything as early as its barriers let it."""
    known, stages = k_tiles(plan), plan.stages or 1
    depth = MOST_K_TILES if known is None else min(known, MOST_K_TILES)
    tiles = (4 if plan.pingpong else 3) if plan.persistent else 1
    if not plan.persistent:  # nothing follows: a whole turn of the stages is drawn
        depth = min(known or stages + 2, stages + 2)
    run = run_of(plan, Counts(tiles, depth * plan.split))
    taken = {agent: _taken(agent, acts) for agent, acts in run.acts.items()}
    # Warpgroups that take turns have the tensor cores by themselves
    spans = timed(run, taken, _block if plan.pingpong else lambda group: group)
    return _schedule(plan, [span for span in spans if span.agent.block == 0])


def _block(group: Warpgroup) -> int:
    return group.block


def _schedule(plan: WarpspecializedPlan, spans: Sequence[Span]) -> Schedule:
    """The steps of one block's spans."""
    loads: dict[Content, tuple[int, Time]] = {}  # of what each stage holds: the stage, and when its load starts
    products: dict[Content, Time] = {}
    ends: dict[int, int] = {}
    tiles: dict[Agent, int] = {}  # that each agent multiplied last
    for span in spans:
        match span.act:
            case Bring(cell, brought) if span.agent.role == "producer":
                loads.setdefault(brought, (cell.place[0], span.start))
            case Multiply():
                content = _content(span.act)
                products[content], tiles[span.agent] = span.done - 1, _number(content[0])
            case Use() if span.end > span.start:
                ends[tiles[span.agent]] = int(span.end)
    first = min(_number(step) for _, step in loads)
    steps = [
        Step(_number(tile), _number(step) - first, stage, int(start), int(products[tile, step]))
        for (tile, step), (stage, start) in loads.items()
    ]
    return Schedule(tuple(steps), ends)


def _content(product: Act) -> Content:
    """The content of the stage that a product reads: the tile, and the step along k."""
    assert isinstance(product, Multiply)
    return product.cells[0][1]


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _taken(agent: Agent, acts: Sequence[Act]) -> list[Taken]:
    """How long an agent's acts take in the picture: the loads of a stage one step together, its products too, what a
    warpgroup does with its sums `EPILOGUE`, and what it sends of them before `EXCHANGE`.
    """
    parts = Counter(_content(act) for act in acts if isinstance(act, Multiply))  # of the rows of a stage, one by one
    found = [Taken(0, Fraction(1, parts[_content(act)])) if isinstance(act, Multiply) else Taken() for act in acts]
    products = [n for n, act in enumerate(acts) if isinstance(act, Multiply)]
    tiles = {_content(acts[n])[0]: n for n in products}  # each tile's last product
    for start, end in pairwise([*tiles.values(), len(acts)]):
        added = [n for n in range(start, end) if isinstance(act := acts[n], Look) and act.cells[0][0].name == "sums"]
        used = [n for n in range(max(added, default=start), end) if isinstance(acts[n], Use)]
        sent = [n for n in range(start, end) if isinstance(acts[n], Bring)]
        for numbers, steps in ((used, EPILOGUE), (sent, EXCHANGE)):
            for n in numbers:
                found[n] = Taken(Fraction(steps, len(numbers)))
    stages: dict[Content, list[int]] = defaultdict(list)
    for n, act in enumerate(acts):
        if isinstance(act, Bring) and agent.role == "producer":
            stages[act.content].append(n)
    for numbers in stages.values():
        for place, n in enumerate(numbers):  # all of them have come at once
            found[n] = Taken(Fraction(1, len(numbers)), FLIGHT - Fraction(place, len(numbers)))
    return found


def group_of(plan: WarpspecializedPlan, tile: int) -> list[int]:
    """The warpgroups that multiply a tile: all, or one where two take turns."""
    return [tile % plan.consumers] if plan.pingpong else list(range(plan.consumers))


def draw_roles(plan: WarpspecializedPlan) -> Figure:
    """The figure of what each role does, over some tiles of one block."""
    how = "take turns with tiles" if plan.pingpong else "share each tile" if plan.consumers > 1 else "multiplies"
    whose = "two warpgroups" if plan.pingpong else count(plan.consumers, "warpgroup")
    verb = f"{whose} that {how}" if plan.consumers > 1 else f"a warpgroup that {how}"
    return Figure(
        "roles",
        f"A warp that loads, {count(plan.stages or 1, 'stage')}, and {verb}, over time",
        (_timeline(plan),),
        PALETTE,
        caption=_caption(plan),
        notes=tuple(_notes(plan)),
        subjects=(
            Subject(("schedule", "pipeline")),
            Subject(("schedule", "warps")),
            *(Subject(("schedule", "copies"), f"load of {t.name}") for x in plan.sides for t in x.tensors),
        ),
    )


def _timeline(plan: WarpspecializedPlan) -> Timeline:
    sheet, found = Sheet(), schedule_of(plan)
    names = " and ".join(tensor.name for x in plan.sides for tensor in x.tensors)
    starts = {found.products(tile)[0].product: tile for tile in found.ends}
    for step in range(max(found.ends.values())):
        if step in starts:
            sheet.mark(f"tile {starts[step]}")
        sheet.step(str(step))
    for one in found.steps:
        what, colour, stage = f"tile {one.tile}, {plan.k} tile {one.k}", hue(one.tile), f"stage {one.stage}"
        loads = f"one thread starts the loads of {names} of {what} and tells the barrier of {stage} their bytes"
        sheet.bar("producer", one.load, one.load + 1, f"k{one.k}", colour, loads)
        sheet.bar(stage, one.load, one.there, f"k{one.k} comes", colour, f"{what} is on its way", faint=True)
        about = f"{what} waits to be multiplied"
        sheet.bar(stage, one.there, one.product, "full", colour, about, faint=True)
        about = f"{what} is multiplied; then {count(plan.groups * plan.peers, 'arrival')} say that {stage} is free"
        sheet.bar(stage, one.product, one.product + 1, f"k{one.k}", colour, about)
        for group in group_of(plan, one.tile):
            about = f"warpgroup {group} multiplies {what} in {stage}"
            sheet.bar(_lane(group), one.product, one.product + 1, f"k{one.k}", colour, about)
    for tile, end in found.ends.items():
        for group in group_of(plan, tile) if plan.sources else ():
            # As soon as the warpgroup has read what came for its tile before
            before = found.ends.get(tile - (2 if plan.pingpong else 1), 0)
            what = " and ".join(x.tensor.name for x in plan.sources)
            about = (
                f"a warp starts the loads of {what} of tile {tile} to the {count(plan.source_buffers, 'buffer')} of "
                f"warpgroup {group}, and of the rest as pieces have been read"
            )
            sheet.bar(_loader(group), before, end - EPILOGUE, f"tile {tile}", hue(tile), about, faint=True)
        for group in group_of(plan, tile):
            about = f"the {plan.split} blocks of a cluster along {plan.k} send each other their parts of tile {tile}"
            sheet.bar(_lane(group), end - EPILOGUE - exchange(plan), end - EPILOGUE, "sums", hue(tile), about)
            about = f"warpgroup {group} computes the epilogue of tile {tile} and stores it"
            sheet.bar(_lane(group), end - EPILOGUE, end, f"epilogue {tile}", STORED, about)
    loaders = [_loader(group) for group in range(plan.consumers)] if plan.sources else []
    lanes = ["producer", *loaders, *(f"stage {i}" for i in range(plan.stages or 1)), *map(_lane, range(plan.consumers))]
    return sheet.timeline("steps", lanes)


def _loader(group: int) -> str:
    return f"loads for {group}"


def _lane(group: int) -> str:
    return f"consumer {group}"


def _caption(plan: WarpspecializedPlan) -> str:
    boxes = ", ".join(
        f"{x.block * plan.tile[plan.k] * t.dtype.bytes} of {t.name}" for x in plan.sides for t in x.tensors
    )
    text = (
        f"The barrier of a stage waits for {plan.stage_bytes} bytes, {boxes}; that it is free again say "
        f"{count(plan.groups * plan.peers, 'arrival')}"
    )
    peers = f", of {count(plan.groups, 'warpgroup')} in each of {plan.peers} blocks" * (plan.peers > 1)
    registers = f"{plan.producer_registers} and {plan.consumer_registers} registers"
    return f"{text}{peers}. Threads that load and threads that multiply have {registers}."


def _notes(plan: WarpspecializedPlan) -> Iterator[str]:
    example = f"A step is a product along {plan.k}; that a load and an epilogue take {FLIGHT} is an example."
    if plan.in_flight:
        yield (
            f"{example} One product is in flight while the next one starts: a stage is free when the product after it "
            "has begun."
        )
    else:
        scaled = ", is scaled, and is added to the sums" if plan.scaled else ""
        yield f"{example} Each product is waited for{scaled} before the next one starts: then its stage is free."
    if plan.split > 1:
        yield (
            f"The {plan.split} blocks of a cluster along {plan.k} have a part of the sum each: they send each other "
            f"{plan.sent_bytes} bytes of every tile, and each stores {plan.own_columns} columns of it."
        )
    if plan.pingpong:
        yield "A named barrier hands the tensor cores over: one warpgroup's epilogue hides behind the other's products."
        if plan.in_turn:
            yield "Another one hands over the buffers of outputs, when all has been read of what is stored."
    elif plan.consumers > 1:
        yield f"Each of {plan.consumers} warpgroups has {plan.tile[plan.m] // plan.consumers} of the tile's rows."
    if plan.sources:
        what = " and ".join(x.tensor.name for x in plan.sources)
        yield f"What epilogues read of {what} comes while products are made: a warp loads it for each warpgroup."
    if plan.persistent:
        yield "Loads of the next tile start as stages become free, independently of the consumers."
    known, drawn = k_tiles(plan), len(schedule_of(plan).products(0))
    if known != drawn:
        tiles = "an example" if known is None else f"the first of {known}"
        each = " of a block" * (plan.split > 1)
        yield f"Drawn for {count(drawn, 'tile')} along {plan.k}{each}, {tiles}."


# ------------------------------------------------------------------------------------------ pieces of the epilogue


def draw_pieces(plan: WarpspecializedPlan) -> Figure:
    """The figure of an epilogue: its pieces are written to buffers in turn, from where tensor maps store them."""
    names = " and ".join(x.tensor.name for x in plan.passing)
    sheet, free = Sheet(), [0] * plan.buffers
    at = 0
    drawn = min(plan.pieces, MOST_PIECES)
    for piece in range(drawn):
        buffer = piece % plan.buffers
        start = max(at, free[buffer])
        sheet.bar("threads", at, start, "waits", hue(piece), f"piece {piece} waits for buffer {buffer}", faint=True)
        columns = _place(plan, piece)
        about = f"128 threads write piece {piece}, {columns}, to buffer {buffer}"
        sheet.bar("threads", start, start + 1, f"piece {piece}", hue(piece), about)
        sheet.bar(f"buffer {buffer}", start, start + 1, "written", hue(piece), about)
        about = f"a tensor map stores piece {piece} from buffer {buffer}"
        sheet.bar(f"buffer {buffer}", start + 1, start + 2, f"stores {piece}", hue(piece), about, faint=True)
        at, free[buffer] = start + 1, start + 2
    for step in range(max(at, *free)):
        sheet.step(str(step))
    lanes = ["threads", *(f"buffer {i}" for i in range(plan.buffers) if sheet.has(f"buffer {i}"))]
    size = sum(64 * plan.columns * x.tensor.dtype.bytes for x in plan.passing)
    wait = f"cp.async.bulk.wait_group.read {plan.buffers - 1}"
    notes = [f"A step is what it takes to write a piece; that a store is read in one is an example. {wait} waits."]
    if plan.pieces > drawn:
        notes.append(f"Drawn are {drawn} of {plan.pieces} pieces.")
    return Figure(
        "pieces",
        f"Pieces of {names} of a warpgroup on their way through {count(plan.buffers, 'buffer')}",
        (sheet.timeline("steps", lanes),),
        PALETTE,
        caption=f"A warpgroup has {count(plan.pieces, 'piece')} of a tile, of 64 x {plan.columns} "
        f"({size} bytes); a buffer is written when the store before has read it.",
        notes=tuple(notes),
        subjects=tuple(
            Subject(("schedule", "copies", plan.passing[0].tensor.name), name)
            for name in ("a free buffer", "store of a piece")
        ),
    )


def _place(plan: WarpspecializedPlan, piece: int) -> str:
    """The rows, of those of the warpgroup, and the columns of a piece."""
    block, part = divmod(piece, plan.own_columns // plan.columns)
    first = part * plan.columns
    return f"rows {block * 64}-{block * 64 + 63} of its own and {plan.n} {first}-{first + plan.columns - 1}"
