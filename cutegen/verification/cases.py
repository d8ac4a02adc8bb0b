"""The plan of shapes: which sizes, strides, base addresses and data a kernel is run on, chosen to break it.

Pure functions of a plan and its resolved spec: no torch, no clock, no chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType

from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.plan import Plan
from cutegen.verification.asked import family_of
from cutegen.verification.case_request import CaseRequest, Data, Layout
from cutegen.verification.case_requests import allowed, between, derived, tiles_of
from cutegen.verification.forms import runners_of_forms
from cutegen.views.extents import size_of

NO_UNITS: Mapping[str, int] = MappingProxyType({})
WELL_ALIGNED = 256  # bytes: of a base address that is not at its least alignment
_SEVERAL = 3  # rows: one alone may have the memory of others


@dataclass(frozen=True)
class Case:
    """One run of a kernel.

    `sizes` maps every mode to its size. `layout`: `compact` has no gaps; `padded` separates rows by gaps that `align`
    allows, the least for the first tensor; `offset` is padded, with base address and strides aligned to `align` bytes
    and to no more.
    `data`: `random` normal numbers, `integers` small ones for which results are exact, `special` with NaN, infinities,
    signed zeros, subnormals and the largest numbers mixed in. `scalars` has values of some scalars by name. `aligned`
    has the bytes in which tensors stand, by name, where that is more than their `align`; the tensor `shifted` starts
    further by no more than its `align`. Of the tensor `apart`, named with one of its modes, only the distance along
    that is a multiple of no more than its `align`. The tensors `infinite` have infinities at some places of the last
    row of all that are reduced along. `blocks` is the number of those of a persistent kernel instead of
    its own, so that few tiles are several for each of them. `chosen` is the number of the kernel that the call takes,
    where it would take the one with the least cost.
    """

    name: str
    why: str
    sizes: Mapping[str, int]
    layout: Layout = "compact"
    data: Data = "random"
    seed: int = 0
    scalars: Mapping[str, float] = field(default_factory=dict)
    aligned: Mapping[str, int] = field(default_factory=dict)
    shifted: str = ""
    apart: tuple[str, str] | None = None
    infinite: tuple[str, ...] = ()
    blocks: int | None = None
    chosen: int | None = None
    ends: tuple[int, ...] = ()  # of the segments of a mode, or its lengths; empty: they follow from the seed
    of: tuple[str, int] = field(default=("", 0), compare=False)  # the kernel and its way of running; -1: none

    def align_of(self, argument: Tensor) -> int:
        """The bytes in which an argument stands: its own `align`, or more where it or a view of it is `aligned` so."""
        return max(argument.align or 1, *(self.aligned.get(name, 1) for name in argument.names))

    @property
    def empty(self) -> bool:
        """Whether some tensor of the case has no elements; which one follows from the spec."""
        return 0 in self.sizes.values()


# ---------------------------------------------------------------------------------------------------- strides


def align_unit(tensor: Tensor) -> int:
    """A tensor's `align` in elements: the alignment of its base address and of every stride but the major one."""
    return max(1, (tensor.align or 1) // tensor.dtype.bytes)


def strides_for(
    tensor: Tensor, sizes: Mapping[str, int], layout: Layout, number: int = 0, units: Mapping[str, int] = NO_UNITS
) -> tuple[int, ...]:
    """A tensor's strides in elements, in the order of its shape. `units` has what those of some modes are multiples of,
    by name, instead of the tensor's `align`.

    The major mode has stride 1; the others follow from the last to the first. Gaps between rows are wider the higher
    the `number` of the tensor, so that tensors of one shape have different strides.
    """
    if not tensor.shape:
        return ()
    major, sizes = tensor.contiguous, tensor.sized(sizes)
    order = [major, *(m for m in reversed(tensor.shape) if m != major)]
    strides = {major: 1}
    for inner, mode in pairwise(order):
        unit = units.get(mode, align_unit(tensor))
        extent = strides[inner] * max(1, size_of(inner, sizes))
        if mode in tensor.dense:
            strides[mode] = extent
            continue
        if layout != "compact":
            extent = -(-(extent + 1) // unit) * unit
            if layout == "offset" and (extent // unit) % 2 == 0:
                extent += unit  # an odd multiple of `align`: aligned to no more than the spec promises
            extent += 2 * number * unit
        strides[mode] = extent
    return tuple(strides[m] for m in tensor.shape)


def compact_allowed(spec: KernelSpec, sizes: Mapping[str, int]) -> bool:
    """Whether strides without gaps keep every tensor's `align`."""
    for tensor in spec.by_argument.tensors:
        major = tensor.major or (tensor.shape[-1] if tensor.shape else "")
        for mode, stride in zip(tensor.shape, strides_for(tensor, sizes, "compact"), strict=True):
            if mode != major and mode not in tensor.dense and stride % align_unit(tensor):
                return False
    return True


def derive_cases(plan: Plan) -> tuple[Case, ...]:
    """Every case that the kernel of a plan is verified on, in a fixed order."""
    cases: dict[tuple[object, ...], Case] = {}
    more: list[Case] = []
    general, runners = _general(plan.kernels), runners_of_forms(plan)
    # Targets of kernels that had every case of `_all_but_one`: one set for the module's own choice among its kernels,
    # and one for each family whose kernels choose a way themselves
    told: dict[str, set[str]] = {}
    for place, kernel in enumerate(plan.kernels):
        ways = kernel.ways
        for number, way in enumerate(ways):
            tiles = tiles_of(way)
            own = family_of(way.spec).requests(way, tiles)
            for request in derived(way, tiles) if own is None else own:
                wanted = (place in general or not request.once) and (place in runners or not request.form)
                if wanted and (number == 0 or request.every_way):
                    _add(cases, plan, kernel, way, request, tiles, number)
        own_cases = [case for case in cases.values() if case.of[0] == kernel.case]
        beside = [*_just_beyond(plan, ways[0], len(cases), own_cases)]
        if len(ways) > 1 or kernel is not plan:
            targets = told.setdefault(_family(kernel) if len(ways) > 1 else "", set())
            whole = not targets.issuperset(kernel.spec.targets)
            targets.update(kernel.spec.targets)
            beside = [*_all_but_one(plan, ways[0], len(cases), whole=whole), *beside]
        if kernel is not plan:
            beside = [
                case for case in beside if family_of(plan.spec).accepted(plan.spec, dict(case.sizes)) == case.sizes
            ]
        more += (replace(case, of=(kernel.case, -1)) for case in beside)
    return (*cases.values(), *_different(more))


def _general(kernels: Sequence[Plan]) -> set[int]:
    """The places of a module's general kernels: the last one of each family for some target, which takes what the
    kernels before it do not.
    """
    own = [{(_family(kernel), target) for target in kernel.spec.targets} for kernel in kernels]
    return {place for place, pairs in enumerate(own) if pairs.difference(*own[place + 1 :])}


def _family(kernel: Plan) -> str:
    return type(family_of(kernel.spec)).__name__


def _different(cases: Iterable[Case]) -> Iterator[Case]:
    """The cases without those that another one is like but for its name."""
    seen: list[Case] = []
    for case in cases:
        if not any(replace(case, name=other.name, seed=other.seed) == other for other in seen):
            seen.append(case)
            yield case


def _all_but_one(plan: Plan, usual: Plan, seed: int, *, whole: bool) -> Iterator[Case]:
    """Cases that fit the first way in which a kernel runs but for one thing: a size, an address or a tensor's rows.

    Unless the `whole` list is wanted, there is one case for each such size and each such tensor. They test that this
    kernel checks it; how it is checked, by functions that a module has once, is tested by the cases of another kernel.
    """
    kernel, spec = plan.spec, usual.spec
    tiles = tiles_of(usual)
    several = {m: max(tiles[m], 2) for m in _outer(spec)}  # with 1, distances between them count for nothing
    sizes = next(allowed(spec, tiles, CaseRequest("", "", several)), None)
    if sizes is None:
        return
    least = next(allowed(spec, tiles, CaseRequest("", "", {**sizes, **dict.fromkeys(several, 1)})), sizes)
    least = family_of(plan.spec).accepted(plan.spec, dict(least)) or least
    of = f", {usual.case}" if usual.case else ""
    aligned = {t.name: t.align or 1 for t in spec.tensors if t.align != kernel.tensor(t.name).align}
    for mode in spec.divisible:
        for step in _steps(spec.divisible[mode], kernel.divisible.get(mode, 1))[0 if whole else -1 :]:
            beyond = sizes[mode] + step > spec.sizes_of(mode)[1]  # too long for this kernel anyway: stay below
            unfit = sizes[mode] + step - beyond * spec.divisible[mode]
            more = next(allowed(kernel, tiles, CaseRequest("", "", {**sizes, mode: unfit})), sizes)
            if more[mode] % spec.divisible[mode] == 0:
                continue
            why = "accesses fit all but its end" + f", a multiple of {step}" * (step > 1)
            name = f"{mode} alone does not fit" + f" by {step}" * (step > 1)
            yield Case(f"{name}{of}", why, more, "padded", seed=seed, aligned=aligned)
    for name, bytes_ in aligned.items():
        why, half = "accesses fit all else", bytes_ // 2
        if half > (kernel.tensor(name).align or 1):
            at_half = {**aligned, name: half}
            yield Case(f"{name} alone stands at {half}{of}", why, least, "offset", seed=seed, aligned=at_half)
            if not whole:
                continue
        yield Case(f"{name} alone starts elsewhere{of}", why, least, "padded", seed=seed, aligned=aligned, shifted=name)
        if not whole:
            continue
        others = {other: bytes_ for other, bytes_ in aligned.items() if other != name}
        if len(spec.tensor(name).shape) > max(1, len(spec.tensor(name).dense)):
            yield Case(f"{name} alone has rows elsewhere{of}", why, sizes, "padded", seed=seed, aligned=others)
            own = spec.tensor(name)
            outer = [mode for mode in own.shape if mode not in (own.major, *own.dense)]
            for mode in outer if len(outer) > 1 else ():
                what = f"{name} alone is elsewhere along {mode}{of}"
                yield Case(what, why, sizes, "padded", seed=seed, aligned=aligned, apart=(name, mode))
            if half > (kernel.tensor(name).align or 1):
                at_half = {**aligned, name: half}
                yield Case(f"{name} alone has rows at {half}{of}", why, sizes, "padded", seed=seed, aligned=at_half)


def _just_beyond(plan: Plan, usual: Plan, seed: int, others: Sequence[Case]) -> Iterator[Case]:
    """Cases of the largest sizes that one of several kernels is for, unless one of its `others` has them with as many
    rows, and of the least that are too large for it and fit it else.
    """
    kernel, spec = plan.spec, usual.spec
    aligned = {t.name: t.align or 1 for t in spec.tensors if t.align != kernel.tensor(t.name).align}
    for mode in spec.within:
        step = max(1, spec.divisible.get(mode, 1))
        most = spec.sizes_of(mode)[1] // step * step
        least = {m: kernel.static.get(m, between(kernel, m, 1)) for m in kernel.modes}
        beyond = {**least, mode: most + step}
        if not _taken(kernel, beyond):
            continue
        own = {m: spec.static.get(m, between(spec, m, _SEVERAL)) for m in spec.modes} | {mode: most}
        if _taken(kernel, own) and not any(_has(other, own, mode) for other in others):
            why = "the most that the case is for"
            yield Case(f"{mode} at most {usual.case}", why, own, "padded", seed=seed, aligned=aligned)
        why = "the least that the case is not for"
        yield Case(f"{mode} beyond {usual.case}", why, beyond, "padded", seed=seed, aligned=aligned)


def _has(case: Case, sizes: Mapping[str, int], mode: str) -> bool:
    """Whether a case has that size of a mode, and of the others no less."""
    return case.sizes[mode] == sizes[mode] and all(case.sizes[m] >= size for m, size in sizes.items())


def _taken(spec: KernelSpec, sizes: dict[str, int]) -> bool:
    """Whether a call may have these sizes."""
    return spec.takes(sizes) and family_of(spec).accepted(spec, dict(sizes)) == sizes


def _outer(spec: KernelSpec) -> Iterator[str]:
    """The modes along which some tensor is not contiguous, and whose sizes are free."""
    for mode in spec.modes:
        if mode not in spec.static and any(mode in t.shape and mode != t.contiguous for t in spec.tensors):
            yield mode


def _steps(divisor: int, known: int) -> list[int]:
    """The powers of two below `divisor`, by which sizes may miss a multiple of it; none if `known` is `divisor`."""
    if divisor == known:
        return []
    return [step for step in (1 << i for i in range(divisor.bit_length())) if step % divisor]


def _add(
    cases: dict[tuple[object, ...], Case],
    plan: Plan,
    kernel: Plan,
    way: Plan,
    request: CaseRequest,
    tiles: Mapping[str, int],
    number: int,
) -> None:
    """Adds the case of a request, unless there is one like it.

    The spec of `plan` says what every call keeps to, that of `kernel`, one of its kernels, what those do that it is
    for, and that of `way`, which has that number, what those do that run in it. In all ways but the first no tensor
    stands as the first one could use it.
    """
    spec = way.spec
    aligned = {t.name: t.align or 1 for t in spec.tensors if t.align != plan.spec.tensor(t.name).align}
    of = f", {kernel.case}" if kernel.case else ""
    for wanted in allowed(spec, tiles, request):
        sizes = plan.own_sizes(kernel, wanted)
        if sizes is not None and kernel is not plan:  # the limits of other kernels may hold for it
            fitting = family_of(plan.spec).accepted(plan.spec, sizes)
            sizes = fitting and plan.own_sizes(kernel, fitting)
            sizes = sizes if sizes == fitting else None
        if sizes is None:
            continue
        layout: Layout = request.layout
        if number and layout == "compact":
            layout = "offset"
        elif layout == "compact" and not compact_allowed(spec, sizes):
            layout = "padded"
        key = (
            kernel.case,
            number,
            tuple(sizes.items()),
            layout,
            request.data,
            tuple(request.scalars.items()),
            request.infinite,
            request.blocks,
            request.ends,
        )
        if key not in cases:
            name = (f"{request.name}, {way.way}" if number else request.name) + of
            case = Case(name, request.why, sizes, layout, request.data, len(cases), request.scalars, aligned)
            case = replace(case, infinite=request.infinite, blocks=request.blocks, ends=request.ends)
            cases[key] = replace(case, chosen=plan.chosen_as(kernel), of=(kernel.case, number))
            return  # rounding the other way would be another request's case
