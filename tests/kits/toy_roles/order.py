"""The acts of the warps of a block, for proofs and over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.timelines import PALETTE, Sheet, hue
from cutegen.families.common.ordering import rounds
from cutegen.parts.acting import Geometry, value_of
from cutegen.parts.acts import Act, Bring, Multiply, Run, Use
from cutegen.parts.faults import refuse
from cutegen.parts.statements import Body
from cutegen.parts.timing import Taken, timed
from cutegen.parts.tracing import traced
from toy_roles.plan import BestPlan
from toy_roles.roles import kernel_body
from toy_roles.text import constants_of

Sizes = tuple[int, int]  # tiles along N, and along K
AGENTS = {("consumer", 0, 0): range(32), ("consumer", 0, 1): range(32, 128), ("producer", 0, 0): range(128, 160)}


def counts(plan: BestPlan) -> Iterator[Sizes]:
    """The tiles that a block has, or as many of them as take all stages round three times."""
    most = rounds(plan.stages or 1)
    yield min(plan.steps[0], most), min(plan.steps[1], most)


def run_of(plan: BestPlan, sizes: Sizes, tree: Body | None = None) -> Run:
    """The acts of all warps. Raises `Unproved` as `traced` does, and if a tile is not multiplied exactly once."""
    given: dict[str, int] = {}
    for constant in constants_of(plan):
        given[constant.name] = value_of(constant.value, given)
    given |= dict(zip(("N_TILES", "K_TILES"), sizes, strict=True))
    agents = {agent: tuple(threads) for agent, threads in AGENTS.items()}
    run = traced(kernel_body(plan) if tree is None else tree, agents, Geometry(), [given])
    made = Counter(act.cells[0][1] for acts in run.acts.values() for act in acts if isinstance(act, Multiply))
    wanted = {(n, k): 2 for n in range(sizes[0]) for k in range(sizes[1])}  # by both agents of the warpgroup
    if made != wanted:
        refuse("sum", f"of {len(wanted)} tiles these are not multiplied once: {[t for t in wanted if made[t] != 2]}")
    return run


def draw(plan: BestPlan) -> Figure:
    """The roles over time: as early as barriers let them, if a load takes three steps and all else one."""
    run, sheet = run_of(plan, (min(plan.steps[0], 3), min(plan.steps[1], 4))), Sheet()
    spans = timed(run, {agent: list(map(_taken, acts)) for agent, acts in run.acts.items()})
    for span in spans:
        start, end = int(span.start), int(span.done)
        match span.act:
            case Bring(cell, tile) if cell.name == plan.a.name:
                sheet.bar("producer", start, start + 1, f"{tile}", hue(int(str(tile[0]))), f"starts tile {tile}")
                sheet.bar(f"stage {cell.place[0]}", start, end, f"{tile}", hue(int(str(tile[0]))), "comes", faint=True)
            case Multiply(cells) if span.agent.part == 0:
                tile = cells[0][1]
                sheet.bar("consumer", end - 1, end, f"{tile}", hue(int(str(tile[0]))), f"multiplies tile {tile}")
            case Use() if span.agent.part == 0:
                sheet.bar("consumer", end - 1, end, "max", len(PALETTE) - 1, "the largest of its rows so far")
    for step in range(int(max(span.done for span in spans))):
        sheet.step(str(step))
    lanes = ["producer", *(f"stage {i}" for i in range(plan.stages or 1) if sheet.has(f"stage {i}")), "consumer"]
    title = "A warp that loads, and four that multiply and reduce"
    subjects = (Subject(("schedule", "stages")),)
    return Figure("roles", title, (sheet.timeline("steps", lanes),), PALETTE, subjects=subjects)


def _taken(act: Act) -> Taken:
    return Taken(0, 3) if isinstance(act, Bring) else Taken(1, 1) if isinstance(act, Multiply | Use) else Taken()
