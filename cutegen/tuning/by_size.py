"""Cases of a schedule by the size of one mode: a search for each size, and one case for neighbours with one winner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutegen.codegen import generate
from cutegen.errors import CutegenError
from cutegen.language.diagnostics import SpecError
from cutegen.tuning.editing import EditError, Sheet
from cutegen.tuning.model import Candidate, Shape
from cutegen.tuning.result import Result

Shapes = Mapping[str, tuple[Shape, ...]]  # by kernel
Search = Callable[[Shapes, Sequence[Mapping[str, Any]]], Result]  # over shapes, with schedules to try besides


class NoCases(CutegenError):
    """Says why there is nothing to tell apart by the size of a mode."""


@dataclass(frozen=True)
class OfSize:
    """The result of the search at one size of the mode, and the candidate that is chosen for calls of that size."""

    size: int
    result: Result
    chosen: Candidate

    @property
    def ratio(self) -> float:
        """The chosen candidate's time over that of the spec as it is."""
        return next((score.ratio for one, score in self.result.ranking if one.number == self.chosen.number), 1.0)


@dataclass(frozen=True)
class BySize:
    """The searches by the size of `mode`, smallest first, and the spec's text with a case for each winner.

    `text` is None where the spec as it is wins everywhere; else `failed` says that a search could not run, or why the
    cases make no kernel.
    """

    mode: str
    found: tuple[OfSize, ...]
    text: str | None
    notices: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.text is None and bool(self.notices)

    @property
    def cases(self) -> tuple[tuple[OfSize, ...], ...]:
        """The sizes with one winner each, neighbours together."""
        groups: list[tuple[OfSize, ...]] = []
        for one in self.found:
            same = groups and groups[-1][-1].chosen.bodies == one.chosen.bodies
            groups[-1:] = [(*groups[-1], one)] if same else [*groups[-1:], (one,)]
        return tuple(groups)


def groups_of(shapes: Shapes, mode: str) -> dict[int, Shapes]:
    """The shapes by their size of a mode, smallest first. Raises NoCases where that tells none apart."""
    sizes = sorted({shape[mode] for several in shapes.values() for shape in several if mode in shape})
    if not sizes:
        modes = sorted({name for several in shapes.values() for shape in several for name in shape})
        raise NoCases(f"no shape has a mode `{mode}`", f"their modes are {', '.join(modes)}")
    if len(sizes) == 1:
        help = f"name several sizes of {mode} under `bench`, or with --sizes"
        raise NoCases(f"all shapes have {sizes[0]} as {mode}: there is nothing to tell apart", help)
    found: dict[int, Shapes] = {}
    for size in sizes:
        of_size = {kernel: tuple(s for s in several if s.get(mode) == size) for kernel, several in shapes.items()}
        found[size] = {kernel: several for kernel, several in of_size.items() if several}
    return found


def check_cases(condition: str, mode: str, sheet: Sheet, name: str) -> None:
    """Raises NoCases where no schedule of cases by a condition on a mode can be written, or it makes no kernel."""
    own = sheet.schedule
    try:
        _generated(sheet.with_cases([({mode: condition}, own), ({}, own)]), name)
    except EditError as error:
        raise NoCases(f"a schedule of cases cannot be written: {error}") from None
    except SpecError as error:
        worst = next(d for d in error.diagnostics if d.severity == "error")
        raise NoCases(f"with cases by {mode} the spec makes no kernel: {worst.code}: {worst.message}") from None


def _generated(text: str, name: str) -> None:
    """Generates the modules of a spec's text, with any line ends. Raises SpecError where it has errors."""
    generate(text.replace("\r\n", "\n").replace("\r", "\n"), name)


def search_by(mode: str, shapes: Shapes, sheet: Sheet, name: str, search: Search) -> BySize:
    """Searches at every size of a mode, and writes the winners into the spec as cases.

    What won at the size before is tried as well, and is kept where nothing is faster by more than the spread: fewer
    cases are fewer kernels. A case holds up to the largest size at which it won, the last one for all beyond.
    """
    found: list[OfSize] = []
    for size, of_size in groups_of(shapes, mode).items():
        result = search(of_size, [one.chosen.schedule for one in found[-1:]])
        if result.stopped:
            return BySize(mode, tuple(found), None, (f"{mode} = {size}: {result.stopped}",))
        found.append(OfSize(size, result, _chosen(result, found[-1].chosen if found else None)))
    told = BySize(mode, tuple(found), None)
    if all(one.chosen.number == 0 for one in found):
        return told
    text, notices = _written(told, sheet, name)
    return BySize(mode, tuple(found), text, notices)


def _chosen(result: Result, before: Candidate | None) -> Candidate:
    """The winner; that of the size before, or the spec as it is, where the winner is not surely faster than it."""
    if result.winner is None:
        return result.incumbent
    best = result.ranking[0][1]
    for candidate, score in result.ranking:
        as_before = before is not None and candidate.bodies == before.bodies
        if as_before and score.ratio <= best.ratio * (1 + max(score.spread, best.spread)):
            return candidate
    return result.winner


def _written(told: BySize, sheet: Sheet, name: str) -> tuple[str | None, tuple[str, ...]]:
    """The spec's text with the cases; None, and why, where they make no kernel."""
    groups = told.cases
    try:
        if len(groups) == 1:
            return groups[0][0].chosen.text, ()
        last = len(groups) - 1
        cases = [
            ({told.mode: f"<= {group[-1].size}"} if i < last else {}, group[0].chosen.schedule)
            for i, group in enumerate(groups)
        ]
        text = sheet.with_cases(cases)
        _generated(text, name)
        taken: tuple[str, ...] = ("comments within `schedule` are gone",) if sheet.has_comments else ()
        taken += ("`tune` is for a spec with one schedule, and was taken out",) * ("tune" in sheet.data)
    except EditError as error:
        return None, (f"the cases cannot be written: {error}",)
    except SpecError as error:
        worst = next(d for d in error.diagnostics if d.severity == "error")
        return None, (f"together the cases make no kernel: {worst.code}: {worst.message}",)
    return text, taken
