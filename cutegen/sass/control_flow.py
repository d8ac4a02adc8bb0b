"""Where a function's code leads: which instructions each one comes after, and what its loops repeat.

What stands behind each other need not run so: the assembler moves what is rarely done, such as another try at a wait,
behind the end. So loops are those of the control flow, independent of the position of their parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen.sass.instructions import Function, Instruction

_ENDS = ("EXIT", "RET", "KILL")
_TRIES = ("SYNCS.PHASECHK", "USETMAXREG.TRY_ALLOC")  # that are repeated until they succeed
_TURNS = "BRA.U.ANY"  # back while there are threads whose turn has not come
_IDLE = frozenset({"barriers and waits", "control", "moves", "predicates", "no operation"})  # kinds beside those


@dataclass(frozen=True)
class Loop:
    """The instructions that an innermost loop repeats, predicated ones too, in the order of the code."""

    instructions: tuple[Instruction, ...]

    @property
    def first(self) -> int:
        """The lowest address."""
        return self.instructions[0].address

    @property
    def last(self) -> int:
        """The highest address."""
        return self.instructions[-1].address


def _repeats(body: Sequence[Instruction], back: Sequence[Instruction]) -> bool:
    """Whether what branches `back` repeat is one pass of the program: a try at what has not succeeded, such as the
    wait at a barrier, or the same for threads in turn, where the machine takes one value for all of a warp.
    """
    tries = any(i.mnemonic.startswith(_TRIES) for i in body) and all(i.kind in _IDLE for i in body)
    return tries or all(i.mnemonic == _TURNS for i in back)


@dataclass(frozen=True)
class Flow:
    """The flow of control of a function, by index of its instructions. `order` has those that can be reached, each
    before what comes only after it; `dominator` of each the nearest that all ways to it pass.
    """

    after: tuple[tuple[int, ...], ...]  # of each instruction those that may come next
    order: tuple[int, ...]
    dominator: Mapping[int, int]

    def passes(self, place: int, other: int) -> bool:
        """Whether all ways to `place` pass `other`."""
        while place != other and place != self.dominator[place]:
            place = self.dominator[place]
        return place == other


def flow_of(function: Function) -> Flow | None:
    """Where code leads; None where it is not known where a branch goes."""
    code = function.instructions
    meeting: dict[str, set[int]] = {}  # of each barrier of convergence: where threads meet
    for i in code:
        if i.opcode == "BSSY" and i.target is not None:
            meeting.setdefault(i.operands.split(",")[0].strip(), set()).add(i.target)
    after = []
    for place, i in enumerate(code):
        if i.mnemonic.startswith(("BRX", "JMX")) or (i.branches and i.target is None):
            return None
        after.append(tuple(p for p in dict.fromkeys(_next(i, place, meeting)) if p < len(code)))
    order = _order(after)
    return Flow(tuple(after), order, _dominators(after, order))


def _next(i: Instruction, place: int, meeting: Mapping[str, set[int]]) -> Iterator[int]:
    """Yields the index of each instruction that may run right after this one."""
    if i.opcode == "BSYNC":
        met = meeting.get(i.operands.strip(), {place + 1})
        yield from {place + 1} if place + 1 in met or i.guarded else met
        return
    if i.target is not None and (i.branches or i.opcode == "CALL"):
        yield i.target
    always = not i.guarded and "," not in i.operands.partition("`")[0]
    if not (always and (i.branches or i.opcode in _ENDS)):
        yield place + 1


def _order(after: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The indices of the instructions that are reachable from the first one, in reverse postorder."""
    seen, ended = {0}, list[int]()
    stack = [(0, iter(after[0]))] if after else []
    while stack:
        place, left = stack[-1]
        following = next((p for p in left if p not in seen), None)
        if following is None:
            ended.append(place)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(after[following])))
    return tuple(reversed(ended))


def _dominators(after: Sequence[Sequence[int]], order: Sequence[int]) -> dict[int, int]:
    """Of each instruction that can be reached the nearest other one that all ways to it pass; the first is its own."""
    rank = {place: n for n, place in enumerate(order)}
    before = _before(after, order)
    found = {place: place for place in order[:1]}
    changed = True
    while changed:
        changed = False
        for place in order[1:]:
            known = [p for p in before[place] if p in found]
            nearest = known[0]
            for other in known[1:]:
                while nearest != other:
                    if rank[nearest] > rank[other]:
                        nearest = found[nearest]
                    else:
                        other = found[other]
            if found.get(place) != nearest:
                found[place], changed = nearest, True
    return found


def _before(after: Sequence[Sequence[int]], order: Sequence[int]) -> dict[int, list[int]]:
    """Of each instruction those that it may come right after."""
    before: dict[int, list[int]] = {place: [] for place in order}
    for place in order:
        for following in after[place]:
            before[following].append(place)
    return before


def loops(function: Function) -> tuple[Loop, ...] | None:
    """The innermost loops, in the order of the code, without those that only wait, or take threads in turn.

    None where a branch leads into the middle of what a loop repeats, or where it is not known where one goes.
    """
    flow = flow_of(function)
    if flow is None:
        return None
    rank = {place: n for n, place in enumerate(flow.order)}
    before = _before(flow.after, flow.order)
    bodies: dict[int, set[int]] = {}  # by head
    back: dict[int, list[Instruction]] = {}
    for place in flow.order:
        for head in flow.after[place]:
            if rank[head] <= rank[place]:
                if not flow.passes(place, head):
                    return None
                back.setdefault(head, []).append(function.instructions[place])
                body, left = bodies.setdefault(head, {head}), [place]
                while left:
                    at = left.pop()
                    if at not in body:
                        body.add(at)
                        left += before[at]
    found = {head: Loop(tuple(function.instructions[p] for p in sorted(body))) for head, body in bodies.items()}
    passes = {head: body for head, body in bodies.items() if not _repeats(found[head].instructions, back[head])}
    inner = [head for head, body in passes.items() if not any(other < body for other in passes.values())]
    return tuple(found[head] for head in sorted(inner, key=lambda head: min(bodies[head])))
