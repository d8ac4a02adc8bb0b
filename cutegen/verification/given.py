"""The arguments of a case and its expected outputs. They depend on the spec only, so they can be made ahead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cutegen.expressions.tree import Reduce, walk
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan
from cutegen.reference.bounds import Expected, evaluate, statements
from cutegen.reference.masks import some
from cutegen.verification.agenda import Agenda
from cutegen.verification.asked import family_of
from cutegen.verification.cases import Case
from cutegen.verification.scalars import scalar_values
from cutegen.verification.tensors import Guarded, digest, make_tensors

MOST = 700 << 20  # bytes that are made ahead
_EXPECTED = 16  # bytes of a value and its bound


@dataclass(frozen=True)
class Given:
    """The tensors and scalars of a case, and the outputs that are expected of these.

    `case` has the data of these tensors, which may be others than those it was to have; `unjudged` has the outputs
    without any judged element, and `digest` is one of the inputs. `of_torch` is what the module's `reference` must
    give: the same, but on a GPU with the bounds of torch's means there.
    """

    case: Case
    tensors: tuple[Guarded, ...]
    scalars: Mapping[str, int | float | bool]
    expected: Mapping[str, Expected]
    of_torch: Mapping[str, Expected]
    unjudged: tuple[str, ...]
    digest: str

    @property
    def bytes(self) -> int:
        """The memory that it takes."""
        tensors = [tensor for made in self.tensors for tensor in (made.buffer, made.original)]
        each = {id(e): e for e in (*self.expected.values(), *self.of_torch.values())}.values()
        expected = [tensor for e in each for tensor in (e.value, e.bound, e.moved)]
        return sum(tensor.nbytes for tensor in (*tensors, *expected) if tensor is not None)

    def again(self, spec: KernelSpec, device: str, run: int) -> Given:
        """The same for another run, with tensors that nothing has run on, and another poison."""
        return replace(self, tensors=make_tensors(spec, self.case, device, run))


def give(plan: Plan, case: Case, device: str) -> Given:
    """The arguments of a case and its expected outputs. If the bound says nothing about an output for the case's data,
    other data are used, where better ones exist.
    """
    spec, additions = plan.spec.by_argument, partial(_additions, plan, case.sizes)
    for data in _data(case):
        tensors = make_tensors(spec, data, device)
        scalars = scalar_values(spec, data)
        views = {t.tensor.name: t.view for t in tensors}
        expected = evaluate(spec, views, scalars, additions=additions)
        unjudged = tuple(name for name, e in expected.items() if e.bound.numel() and not some(e.bound < float("inf")))
        if not unjudged:
            break
    inputs, of_torch = digest(t.view for t in tensors if t.tensor.reads), expected
    if any(view.is_cuda for view in views.values()) and _has_means(spec.by_view):
        of_torch = evaluate(spec, views, scalars, additions=additions, by_torch=True)
    return Given(data, tensors, scalars, expected, of_torch, unjudged, inputs)


def _has_means(spec: KernelSpec) -> bool:
    """Whether something is a mean."""
    nodes = (node for statement in statements(spec) for node in walk(statement.value))
    return any(isinstance(node, Reduce) and node.function == "mean" for node in nodes)


class MadeAhead:
    """The data of some of an agenda's cases, made before these run, by their positions in its turns. Each can be taken
    for one run, and no longer once a later one has begun.
    """

    def __init__(self, most: int = MOST) -> None:
        """Takes so many bytes at most."""
        self._room = most
        self._made: dict[int, Given] = {}

    def make(self, agenda: Agenda, device: str) -> Iterator[None]:
        """Makes one after another, as long as there is room. Raises what `give` raises."""
        for place, number in enumerate(agenda.turns):
            case = agenda.planned[number]
            if _least(agenda.plan, case) <= self._room:
                self._made[place] = made = give(agenda.plan, case, device)
                self._room -= made.bytes
                yield

    def take(self, place: int) -> Given | None:
        """The data made for the case at that position, None if there are none. Drops those and all earlier ones."""
        found = self._made.get(place)
        self._made = {later: made for later, made in self._made.items() if later > place}
        return found

    def forget(self) -> None:
        """Drops what is left."""
        self._made.clear()


def _least(plan: Plan, case: Case) -> int:
    """The least memory that what a case is given takes: of tensors without gaps, and of what is expected of these."""
    tensors = plan.spec.by_argument.tensors
    return sum((2 * t.dtype.bytes + _EXPECTED * t.writes) * math.prod(t.extents(case.sizes)) for t in tensors)


def _additions(plan: Plan, sizes: Mapping[str, int], modes: Sequence[str]) -> int | None:
    """The most additions of a sum that follow each other, in whichever way a call of these sizes runs."""
    most = 0
    for kernel in plan.kernels:
        for way in kernel.ways:
            family, own = family_of(way.spec), dict(sizes)
            if kernel is not plan and not kernel.spec.takes(own) or family.accepted(way.spec, own) != own:
                continue
            found = family.additions(way, sizes, modes)
            if found is None:
                return None
            most = max(most, found)
    return most or None


def _data(case: Case) -> Iterator[Case]:
    """The case, then its like with other data: of other seeds, of the other kind, and last as it is."""
    yield case
    for again in range(1, 4):
        yield replace(case, seed=case.seed + 1009 * again)
    if case.data != "special":
        yield replace(case, data="integers" if case.data == "random" else "random")
    yield case
