"""Calls whose sizes do not fit, to each other or to the kernel, and those in which some strides mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import lcm, prod
from typing import TYPE_CHECKING

from cutegen.contract import copies
from cutegen.hostchecks.asked import family_of
from cutegen.hostchecks.judging import Check, Host, unnamed
from cutegen.hostchecks.packed import between, telling
from cutegen.hostchecks.parts import COORDINATES
from cutegen.hostchecks.strides import as_torch_makes_it, far_along, odd_along, odd_along_all
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.taken import lacking
from cutegen.verification.asked import op_of
from cutegen.verification.cases import Case, strides_for
from cutegen.verification.executor import CannotRun
from cutegen.verification.places import input_for
from cutegen.verification.tensors import Guarded, guarded, make_tensors

if TYPE_CHECKING:
    import torch

_ELEMENTS = 1 << 16  # of the largest tensor of a call
_PLACES = 8  # more along a mode than it would have if nothing were taken there
_SCRATCH = 1 << 34  # bytes that a call allocates itself, of which each is one of this machine
_COORDINATES = 1 << 31  # that 32 bits do not number
_ADDRESSES = 1 << 45  # bytes from the first element of a tensor to its last
_ROOM = 1 << 46  # bytes of all tensors of a call: half of the addresses of a process, with what is mapped amid them
_BLOCKS = 65535  # of a grid's second and third extent (CUDA C++ Programming Guide, table of compute capabilities)


def small(spec: KernelSpec) -> dict[str, int]:
    """Small sizes, all above 1 where the spec lets them, and different; more places than elements that have one.

    Rows of each tensor are longer than its alignment, as far as that makes no tensor large.
    """
    for rows in (2, 1, 0):
        sizes = {}
        for i, mode in enumerate(spec.modes):
            along = [t for t in spec.tensors if t.contiguous == mode]
            least = max(
                [
                    2 + i + _PLACES * (mode in spec.taken),
                    *(-(-rows * max(t.align or 1, 16) // t.dtype.bytes) + 1 for t in along),
                ]
            )
            step = max(1, spec.divisible.get(mode, 1))
            sizes[mode] = spec.static.get(mode, -(-least // step) * step + i * step * bool(along))
        sizes = family_of(spec).accepted(spec.by_view, sizes) or sizes
        if max(prod(tensor.extents(sizes)) for tensor in spec.tensors) <= _ELEMENTS:
            break
    return sizes


def checks(host: Host) -> Iterator[Check]:
    yield from _disagreeing(host)
    yield from _other_blocks(host)
    yield from _not_taken(host)
    yield from _meaningless_strides(host, "")
    if (usual := as_promised(host)) is not None:
        yield from _meaningless_strides(usual, ", wide accesses")
    yield from _limits(host)
    yield from _far_apart(host)


def as_promised(host: Host) -> Host | None:
    """The same with tensors that stand as the kernel takes them, where a call would else copy them before; None where
    it copies none.
    """
    case = _wide_case(host)
    if case is None or not copies(host.module):
        return None
    return replace(host, case=case, tensors=make_tensors(host.spec, case, host.executor.device))


def _wide_case(host: Host) -> Case | None:
    """The case with tensors aligned for accesses as wide as can be, steps included; None where no sizes fit both.

    Of several kernels it is one for that which has the smallest tensors of the kind.
    """
    usual = min((kernel.ways[0].spec for kernel in host.plan.kernels), key=lambda spec: prod(small(spec).values()))
    aligned = {t.name: t.align or 1 for t in usual.tensors if t.align != host.plan.spec.tensor(t.name).align}
    sizes = small(usual)
    taken = host.spec.takes(sizes) and usual.takes(sizes)
    return replace(host.case, sizes=sizes, aligned=aligned) if taken else None


def made_of(host: Host, names: Iterable[str], sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """The tensors of those names, aligned as those of the call, with other sizes."""
    made = {}
    for tensor in map(host.spec.tensor, names):
        tensor = replace(tensor, align=host.case.align_of(tensor))
        shape = tensor.extents(sizes)
        data = input_for(host.spec, tensor, sizes, "integers", 3)
        strides = strides_for(tensor, sizes, "padded")
        made[tensor.name] = guarded(tensor, shape, strides, host.executor.device, data=data).view
    return made


def _having(spec: KernelSpec, mode: str) -> list[Tensor]:
    return [tensor for tensor in spec.tensors if mode in tensor.shape]


def _having_blocks(spec: KernelSpec, mode: str) -> list[Tensor]:
    """The tensors with an element for each block of a mode: of another size they have other sizes."""
    return [tensor for tensor in spec.tensors if any(block.of == mode for block in tensor.blocks)]


def _disagreeing(host: Host) -> Iterator[Check]:
    """Sizes that differ between tensors, that are fixed, or that a number does not divide."""
    spec, sizes = host.spec, host.case.sizes
    for tensor in (t for t in spec.tensors if t.views):
        yield from between(host, tensor)
    for mode in spec.modes:
        having = telling(spec, mode)
        names, arguments = [t.name for t in having], tuple(t.argument for t in having)
        step = max(1, spec.divisible.get(mode, 1))
        larger = {**sizes, mode: sizes[mode] + step}
        for size in (larger[mode], *({0, 1} - {sizes[mode]})) if len(having) > 1 else ():
            for tensor in having:  # sizes of 1 as well, which torch would repeat
                what, other = f"{mode} is {size}, elsewhere {sizes[mode]}", {**sizes, mode: size}
                yield host.refuses(tensor.argument, what, made_of(host, [tensor.name], other), arguments)
        names += [t.name for t in _having_blocks(spec, mode)]
        if mode in spec.static and having:
            what = f"{mode} is {larger[mode]}, fixed at {spec.static[mode]}"
            yield host.refuses(arguments[0], what, made_of(host, names, larger), arguments)
        elif step > 1 and having:
            for more in sorted({1, step // 2}):
                odd = {**sizes, mode: sizes[mode] + more}
                what = f"{mode} is {odd[mode]}, which {step} does not divide"
                yield host.refuses(arguments[0], what, made_of(host, names, odd), arguments)


def _other_blocks(host: Host) -> Iterator[Check]:
    """One block more, and where there is one, one less, than a mode has."""
    for tensor in host.spec.tensors:
        for block in tensor.blocks:
            size, step = host.case.sizes[block.of], block.size
            for other in (size + step, *[size - step] * (size > step)):
                sizes = {**host.case.sizes, block.of: other}
                what = f"{block.mode} is {block.count(sizes)}, of {size} along {block.of}"
                names = [t.argument for t in host.spec.tensors if block.of in t.spread]
                yield host.refuses(tensor.argument, what, made_of(host, [tensor.name], sizes), names)


def _not_taken(host: Host) -> Iterator[Check]:
    """Sizes that are right for each mode alone, and that the family's host refuses together."""
    spec, sizes = host.spec, host.case.sizes
    for mode in (m for m in spec.lead.shape if m not in spec.static):
        more = {**sizes, mode: sizes[mode] + max(1, spec.divisible.get(mode, 1))}
        refused = family_of(spec).refused(spec.by_view, more)
        if refused is not None:
            names, arguments = ([getattr(t, key) for t in telling(spec, mode)] for key in ("name", "argument"))
            names += [t.name for t in _having_blocks(spec, mode)]
            arguments += [spec.output.argument] * (spec.output.argument not in arguments)
            yield host.refuses(spec.output.argument, refused, made_of(host, names, more), arguments)
            return


def _meaningless_strides(host: Host, of: str) -> Iterator[Check]:
    """Strides that nobody steps along, which torch lets be anything: along modes of size 1, and where there are no
    elements. `of` is added to the checks' names.
    """
    spec = host.spec
    empty = op_of(spec).modes_that_may_be_empty(spec.compute, {t.name: t for t in spec.by_view.tensors})
    free = [m for m in spec.modes if m not in spec.static and (m in empty or m in spec.lead.shape)]
    without = [(mode, {**host.case.sizes, mode: 0}) for mode in free]
    ways = (
        ("any stride along {} where that is 1", where_strides_mean_nothing(host), odd_along),
        ("steps of more than 2^32 elements along {}, which is 1", _fixed_at_one(host), far_along),
        ("what torch makes where {} is 0", without, as_torch_makes_it),
        ("any strides where {} is 0", without, odd_along_all),
    )
    for where, cases, strided in ways:
        for mode, sizes in cases:
            having = _having(spec, mode)
            if not having:  # of a size that is computed more than one element is left
                continue
            if not _can_be(spec, sizes):
                continue
            made = made_of(host, [t.name for t in spec.tensors], sizes)
            for tensor in having:
                made[tensor.name] = strided(tensor, made[tensor.name], mode)
            yield host.with_sizes(sizes).takes(having[0].argument, where.format(mode) + of, made)


def where_strides_mean_nothing(host: Host) -> Iterator[tuple[str, dict[str, int]]]:
    """Modes that may have size 1, along which nothing steps, each with the sizes of such a call, if there is one."""
    spec = host.spec
    for mode in (m for m in spec.modes if m not in spec.static and spec.divisible.get(m, 1) == 1):
        sizes = {**host.case.sizes, mode: 1}
        written = {name for t in spec.tensors if t.writes for _, name in t.at}
        indices = [spec.tensor(name) for t in spec.tensors for m, name in t.at if m == mode and name in written]
        # no two elements are written at one place
        sizes |= {m: spec.static.get(m, max(1, spec.divisible.get(m, 1))) for index in indices for m in index.shape}
        for fitting in (sizes, family_of(spec).accepted(spec.by_view, dict(sizes))):
            if fitting is not None and fitting[mode] == 1 and _can_be(spec, fitting):
                yield mode, fitting
                break


def _can_be(spec: KernelSpec, sizes: Mapping[str, int]) -> bool:
    """Whether a call can have these sizes, with as many places as elements are written at."""
    together = family_of(spec).refused(spec.by_view, sizes) is None
    return spec.takes(sizes) and lacking(spec.by_view.tensors, sizes) is None and together


def _fixed_at_one(host: Host) -> Iterator[tuple[str, dict[str, int]]]:
    """Modes that always have a size of 1, each with the sizes of a call."""
    yield from ((mode, dict(host.case.sizes)) for mode in host.spec.modes if host.spec.static.get(mode) == 1)


def _limits(host: Host) -> Iterator[Check]:
    """Sizes at the limits of a launch and of coordinates, of memory that nobody touches: launched, or refused."""
    spec = host.spec
    covered = family_of(spec).covered(host.plan)
    free = [mode for mode in spec.lead.shape if mode not in spec.static]
    least = least_of(host)
    fitting = family_of(spec).accepted(spec.by_view, dict(least)) or least

    def rounded(mode: str, size: int) -> int:
        return -(-size // least[mode]) * least[mode]

    for mode in free:
        most = _BLOCKS * covered[mode] // least[mode] * least[mode]
        if most <= family_of(spec).largest(host.plan).get(mode, _COORDINATES) and most < _COORDINATES - (1 << 22):
            yield from _far(host, {**least, mode: most}, f"{mode} of {_BLOCKS} tiles", taken=True)
        yield from _far(host, {**least, mode: rounded(mode, most + 1)}, f"{mode} of {_BLOCKS + 1} tiles")
        most = min(COORDINATES, family_of(spec).largest(host.plan).get(mode, COORDINATES)) // least[mode] * least[mode]
        yield from _far(host, {**least, mode: most}, f"{mode} of {most} elements", taken=True)
        beside = family_of(spec).largest(host.plan, fitting).get(mode, most) // fitting[mode] * fitting[mode]
        if 0 < beside < most:  # tiles of other modes count as well
            yield from _far(host, {**fitting, mode: beside}, f"{mode} of {beside} elements", taken=True)
        if (more := most + least[mode]) <= COORDINATES:
            yield from _far(host, {**least, mode: more}, f"{mode} of {more} elements")
        yield from _far(host, {**least, mode: rounded(mode, _COORDINATES)}, f"{mode} of 2^31 elements", taken=False)
        if covered[mode] > least[mode]:  # whose last tile has coordinates beyond 31 bits
            last = _COORDINATES - least[mode]
            yield from _far(host, {**least, mode: last}, f"{mode} of 2^31 - {least[mode]} elements", taken=False)
    for mode, most in family_of(spec).largest(host.plan).items():
        if mode not in spec.lead.shape and mode not in spec.static:
            yield from _far(host, {**least, mode: rounded(mode, most + 1)}, f"{mode} beyond what a grid counts")
    if len(free) > 1:
        sizes = {**least, **{m: rounded(m, (_BLOCKS + 1) * covered[m]) for m in free[:2]}}
        yield from _far(host, sizes, f"{free[0]} and {free[1]} of {_BLOCKS + 1} tiles each")
        tiles = 1 << (COORDINATES // covered[free[0]]).bit_length() - 1  # of the first, times those of the second
        sizes = {**least, free[0]: rounded(free[0], (tiles - 1) * covered[free[0]] + 1)}
        sizes |= {free[1]: rounded(free[1], ((1 << 31) // tiles - 1) * covered[free[1]] + 1)}
        yield from _far(host, sizes, f"{free[0]} and {free[1]} of 2^31 tiles")
        sizes = {**least, free[0]: rounded(free[0], 1 << 16), free[1]: rounded(free[1], 3 << 14)}
        yield from _far(host, sizes, f"{spec.output.argument} of more than 2^31 elements")


def least_of(host: Host) -> dict[str, int]:
    """The least size of each mode that is not 0, in calls that copy nothing."""
    spec, divisible = host.spec, _uncopied(host).divisible
    return {mode: spec.static.get(mode, max(1, divisible.get(mode, 1))) for mode in spec.modes}


def _uncopied(host: Host) -> KernelSpec:
    """The spec with the promises under which a call copies nothing: there is no memory for more of what is large."""
    spec = host.spec
    if not copies(host.module):
        return spec
    usual = [kernel.ways[0].spec for kernel in host.plan.kernels]
    aligned = tuple(replace(t, align=max(one.tensor(t.name).align or 1 for one in usual)) for t in spec.tensors)
    divisible = {mode: lcm(*(one.divisible.get(mode, 1) for one in usual)) for mode in spec.modes}
    return replace(spec, tensors=aligned, divisible=divisible)


def _far_apart(host: Host) -> Iterator[Check]:
    """Tensors whose rows are so far apart that no 32 bits count the elements or bytes between them, one by one."""
    if not copies(host.module):  # whose Python looks at addresses, among which what is not there seems to be others'
        yield from _each_far_apart(host, host.tensors, 1, "")
    case = _wide_case(host)
    if case is not None and case.aligned:
        yield from _each_far_apart(host, make_tensors(host.spec, case, host.executor.device), 128, ", wide accesses")


def _each_far_apart(host: Host, tensors: Sequence[Guarded], unit: int, how: str) -> Iterator[Check]:
    """Those checks for each of the tensors, beside all others, with steps that are a multiple of `unit` elements.

    Where such steps keep no tensor as it is aligned, a call in which all tensors have them is made once: what takes
    that takes each of them. Each has them alone, so that it is named, where that call is wrong.
    """
    others = {item.tensor.name: item.view for item in tensors}
    far: dict[tuple[str, str], torch.Tensor | None] = {}
    for item in tensors:
        for axis in _stepped(item.tensor, item.view):
            # not those of neighbouring rows in the lower 32 bits either
            step = (1 << 32) + -(-3 * item.view.stride(axis) // unit) * unit
            addressed = item.view.shape[axis] * step * item.view.itemsize < _ADDRESSES
            made = host.executor.far_apart(item.view, axis, step) if addressed else None
            if made is not None:
                far[item.tensor.name, item.tensor.shape[axis]] = made
    first = {name: made for (name, _), made in reversed(far.items())}
    together = cache(host.takes("", "", {**others, **first}).run)
    for (name, mode), made in far.items():
        what = f"steps of more than 2^32 elements along {mode}{how}"
        alone = host.takes(host.spec.tensor(name).argument, what, {**others, name: made})
        known = unit == 1 and made is first[name]  # in the call of all
        yield replace(alone, run=partial(_where_wrong, together, alone.run)) if known else alone


def _stepped(tensor: Tensor, view: torch.Tensor) -> Iterator[int]:
    """The modes of a tensor along which steps may be far: the outermost first, then those that are taken at places,
    whose steps the kernel multiplies itself.
    """
    fixed = {tensor.contiguous, *tensor.dense}  # modes along which steps are what they are
    outermost = max(range(view.dim()), key=view.stride, default=0)
    taken = [axis for axis, mode in enumerate(tensor.shape) if mode in dict(tensor.at) and axis != outermost]
    for axis in (outermost, *taken) if view.dim() else ():
        if view.shape[axis] > 1 and tensor.shape[axis] not in fixed:
            yield axis


def _where_wrong(together: Callable[[], str], alone: Callable[[], str]) -> str:
    """Returns what is wrong with `alone`. It runs only if `together`, which has all such tensors at once, is wrong."""
    return together() and alone()


def _far(host: Host, sizes: Mapping[str, int], what: str, taken: bool | None = None) -> Iterator[Check]:
    """A check of sizes whose kernel is not run: it must be launched with a grid that there can be, or refused by name.

    `taken` says which of the two; None leaves it to the module. Nothing where tensors of more than `_ROOM` bytes have
    no addresses: no machine need have room for those.
    """
    spec = host.spec
    accepted = family_of(spec).accepted(spec.by_view, dict(sizes))
    if accepted is None or max(accepted.values()) > 2 * max(sizes.values()):
        return
    largest = max(max(t.extents(accepted), default=1) for t in spec.tensors)
    if taken and (largest > COORDINATES or not _counted(host, accepted)):
        taken = None  # packed arguments are larger than their views, and other sizes may make more tiles of each size
    if taken is False and accepted != dict(sizes):
        accepted = dict(sizes)  # it is to be refused
    if sum(scratch.bytes(accepted) for scratch in host.scratch) > _SCRATCH:
        return
    if not host.executor.chooses_blocks:
        return
    names = [t.argument for t in spec.tensors]
    if _room(host, accepted) > _ROOM:
        try:
            never_touched(host, accepted)
        except MemoryError:
            return

    def run() -> str:
        made = never_touched(host, accepted)
        try:
            launches = host.executor.launched(host.module, spec, host.arguments(made))
        except CannotRun:
            raise
        except (ValueError, TypeError) as error:
            return f"was refused: {str(error)[:300]}" if taken else unnamed(error, names)
        except Exception as error:
            host.look_at_memory(error, made.values(), accepted)
            must = "must be taken" if taken else "must be accepted or rejected by name"
            return f"{must}, failed: {type(error).__name__}: {str(error)[:300]}"
        if taken is False:
            return "was accepted"
        grids = [launch.grid for of_target in launches for launch in of_target]
        wrong = next((g for g in grids if max(g[1:]) > _BLOCKS or g[0] >= _COORDINATES), None)
        if wrong is not None:
            return f"is launched with a grid of {wrong}"
        return "" if grids else "is accepted, and nothing is launched"

    yield Check(spec.output.argument, ("accepts " if taken else "") + what, run)


def _counted(host: Host, sizes: Mapping[str, int]) -> bool:
    """Whether the kernel counts the blocks and tiles of a call of these sizes."""
    most = family_of(host.spec).largest(host.plan, sizes)
    blocks = family_of(host.spec).blocks(host.plan, sizes)
    return blocks < _COORDINATES and all(sizes[mode] <= size for mode, size in most.items())


def _room(host: Host, sizes: Mapping[str, int]) -> int:
    """How many bytes there are from the first element of a tensor to its last, of all tensors together."""
    shapes = [(t, t.extents(sizes), strides_for(t, sizes, "padded")) for t in _uncopied(host).tensors]
    return sum(t.dtype.bytes * (1 + sum((n - 1) * s for n, s in zip(*of, strict=True))) for t, *of in shapes)


def never_touched(host: Host, sizes: Mapping[str, int]) -> dict[str, torch.Tensor | None]:
    """Tensors of these sizes that nobody looks into. Raises MemoryError where there are not so many addresses."""
    made = {}
    for tensor in _uncopied(host).tensors:
        shape, strides = tensor.extents(sizes), strides_for(tensor, sizes, "padded")
        made[tensor.name] = host.executor.untouched(tensor, shape, strides)
    return made
