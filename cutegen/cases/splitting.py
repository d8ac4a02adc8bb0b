"""A spec of several cases as one spec for each: the same tensors and statements, its own schedule and promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import lcm
from typing import Any

from cutegen.cases.calls import left_by
from cutegen.language.cases import Cases
from cutegen.language.kinds import MAX_INT, Path
from cutegen.language.model import Bench, Expect, KernelSpec, Source, Verify
from cutegen.planning.recent import Recent

Spec = KernelSpec[Cases]


_CASES: Recent[Spec, dict[int, KernelSpec]] = Recent(8)


def of_case(spec: Spec, number: int) -> KernelSpec:
    """The case of that number as a kernel of its own. Those of the last specs are kept, as they are asked for often.

    Its conditions are promises: a size that they fix is static, what they divide by is promised, and so is alignment.
    It is verified on those listed shapes that it is taken for; what it is measured at and expected of what is compiled
    are of the whole kernel.
    """
    found = _CASES.of(spec, lambda _: {})
    if number not in found:
        found[number] = _of_case(spec, number)
    return found[number]


def _of_case(spec: Spec, number: int) -> KernelSpec:
    """Makes the spec that `of_case` keeps and returns."""
    case = spec.schedule.cases[number]
    own, conditions = case.conditions, [one.conditions for one in spec.schedule.cases]
    within = {mode: left_by(conditions, number, mode) for mode in spec.modes}
    fixed = {mode: low for mode, (low, high) in within.items() if low == high > 0}
    static = {**spec.static, **fixed}
    divisible = dict(spec.divisible)
    for mode in own.sizes:
        if mode not in static and own.divisor(mode) > 1:
            divisible[mode] = lcm(divisible.get(mode, 1), own.divisor(mode))
    tensors = spec.tensors
    if own.align > 1:
        tensors = tuple(replace(t, align=max(t.align or 1, own.align, t.dtype.bytes)) for t in tensors)
    shapes = tuple(shape for shape in spec.verify.shapes if _gets(spec, number, {**shape, **spec.static}))
    whole: KernelSpec = spec
    return replace(
        whole,
        schedule=case.schedule,
        targets=tuple(target for target in spec.targets if own.takes_target(target)),
        tensors=tensors,
        static=static,
        divisible={mode: step for mode, step in divisible.items() if mode not in fixed},
        within={mode: sides for mode, sides in within.items() if sides != (0, MAX_INT) and mode not in static},
        verify=Verify(shapes, spec.verify.tolerance),
        bench=Bench(),
        expect=Expect(),
        tune={},
        source=_source(spec, number),
    )


def _gets(spec: Spec, number: int, sizes: Mapping[str, int]) -> bool:
    """Whether the case of that number is the first one whose size conditions match."""
    cases = [case.conditions for case in spec.schedule.cases]
    if not cases[number].takes_sizes(sizes):
        return False
    others = (one for one in cases[:number] if one.align == 1 and not one.targets)
    return not any(one.takes_sizes(sizes) for one in others)


def inside(path: Path, number: int) -> Path:
    """Where in the whole spec that stands which a case's own spec has at `path`."""
    return ("schedule", number, *path[1:]) if path[:1] == ("schedule",) else path


def _source(spec: Spec, number: int) -> Source:
    """The places of a case's own spec: what is written in it stands at `schedule`, what it promises is written, too."""
    source, where = spec.source, ("schedule", number)

    def moved(places: Mapping[Path, Any]) -> dict[Path, Any]:
        found = {}
        for path, place in places.items():
            if path[:2] == where:
                key: Path = ("schedule", *path[2:])
                found[key] = place
            elif path[:1] != ("schedule",):
                found[path] = place
        return found

    conditions = spec.schedule.cases[number].conditions
    values = {path: place for path, place in moved(source.values).items() if path[:1] != ("targets",) or len(path) == 1}
    own = [(i, target) for i, target in enumerate(spec.targets) if conditions.takes_target(target)]
    for ours, (theirs, target) in enumerate(own):
        at: Path = ("targets", theirs)
        if conditions.targets:
            single = len(conditions.targets) == 1  # and then no list, if it was written so
            listed = (*where, "for", "target", conditions.targets.index(target))
            at = listed[:-1] if single and listed not in source.values else listed
        values["targets", ours] = source.at(*at)
    for mode in (mode for mode in conditions.sizes if mode not in spec.static):
        place = source.at(*where, "for", mode)
        values |= {("static", mode): place, ("divisible", mode): place}
    for tensor in (t for t in spec.tensors if (t.align or 1) < conditions.align):
        values["tensors", tensor.name, "align"] = source.at(*where, "for", "align")
    return Source(source.path, moved(source.keys), values)
