"""Launches of more blocks than can run here: some of them run, on those parts of tensors that are theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from cutegen.verification.bounds import Expected, evaluate
from cutegen.verification.cases import strides_for
from cutegen.verification.compare import compare
from cutegen.verification.data import data_for
from cutegen.verification.executor import CannotRun
from cutegen.verification.host.judging import Check, Host
from cutegen.verification.tensors import Guarded, guarded

_TILES = (1 << 24) + 3  # with numbers that f32 does not tell apart
_COORDINATES = (1 << 31) - 1  # along a mode
_BYTES = 1 << 37  # of addresses, of a tensor
_FEW = (1 << 8) + 1  # tiles of which all can run


@dataclass(frozen=True)
class _Part:
    """A call with tensors of which only some tiles of a mode are there: `parts` has what is, in the spec's order."""

    arguments: list[object]
    parts: tuple[Guarded, ...]
    expected: Mapping[str, Expected]


def checks(host: Host) -> Iterator[Check]:
    """A check for each mode of the output: some blocks of as many as there can be, or all of just more than 2^8.

    The former where blocks are known to take one tile each, in order. What counts tiles wrong then, in however many
    bits or as a float, touches what another block has, or what nobody has.
    """
    spec = host.spec
    for mode in (m for m in spec.output.shape if m not in spec.static):
        try:
            tiles = _countable(host, mode)
        except CannotRun:
            return
        chosen = _telling(tiles) if tiles else range(_FEW)
        some = f", of which {', '.join(map(str, chosen))} run" if tiles else ""
        what = f"accepts {tiles or _FEW} tiles of {mode}{some}"
        yield Check(spec.output.argument, what, partial(_wrong, host, mode, tiles or _FEW, chosen))


def _countable(host: Host, mode: str) -> int:
    """So many tiles of a mode that their blocks can be told by number, or 0. Raises CannotRun."""
    if any(True for _ in host.spec.family.scratch(host.plan)):
        return 0  # blocks read there what others have written
    # In a small grid the second block must have the second tile and nothing else
    if _wrong(host, mode, 4, [1]):
        return 0
    most = _most(host, mode)
    return next((n for n in (most, most // 2, 1 << 16) if _FEW < n <= most and _launched(host, mode, n) == n), 0)


def _telling(tiles: int) -> list[int]:
    """Numbers of tiles of which at least two become one where a number is cut to fewer bits than the largest has."""
    highest = 1 << max(0, (tiles - 1).bit_length() - 1)
    return sorted(n for n in {0, 1, 1 << 8, 1 << 16, highest, highest + 1, tiles - 1} if n < tiles)


def _most(host: Host, mode: str) -> int:
    """So many tiles of a mode that a launch can have, with as little as there can be of the others."""
    sizes, tile = _sizes(host, mode, 4), _extent(host, mode)
    largest = min(_COORDINATES, host.spec.family.largest(host.plan).get(mode, _COORDINATES))
    for number, tensor in enumerate(host.spec.tensors):
        if mode in tensor.shape:
            strides = strides_for(tensor, sizes, "padded", number)
            step, others = strides[tensor.shape.index(mode)], prod(sizes[m] for m in tensor.shape if m != mode)
            largest = min(largest, _BYTES // (tensor.dtype.bytes * max(step, others)))
    return min(_TILES, largest // tile)


def _sizes(host: Host, mode: str, tiles: int) -> dict[str, int]:
    """Sizes with so many tiles of a mode, the last of them as small as can be, and little of the others."""
    return _little(host, mode, (tiles - 1) * _extent(host, mode) + 1)


def _little(host: Host, mode: str, size: int) -> dict[str, int]:
    """Sizes with at least that of a mode, and little of the others."""
    spec, covered = host.spec, host.spec.family.covered(host.plan)
    inner, sizes = spec.operation.contracted(spec), {}
    for m in spec.modes:
        least = size if m == mode else covered[m] // 2 + 1 if m in inner else 1
        step = max(1, spec.divisible.get(m, 1))
        sizes[m] = spec.static.get(m, -(-least // step) * step)
    return spec.family.accepted(spec, sizes) or sizes


def _extent(host: Host, mode: str) -> int:
    """How far a block reaches along a mode where there is little of the others, which may be a tile for each thread."""
    plan, family = host.plan, host.spec.family
    tile = family.covered(plan)[mode]
    several = plan.threads * tile
    return several if family.blocks(plan, _little(host, mode, several)) == 1 else tile


def _part(host: Host, mode: str, tiles: int, chosen: Sequence[int]) -> _Part | None:
    """A call of so many tiles of a mode of which the chosen ones are there, or None where that cannot be made.

    Tensors are as any others where all of them are.
    """
    spec, tile, sizes = host.spec, _extent(host, mode), _sizes(host, mode, tiles)
    coordinates = [i for t in chosen for i in range(t * tile, min((t + 1) * tile, sizes[mode]))]
    near = {**sizes, mode: len(coordinates)}
    views, parts = {}, []
    for number, tensor in enumerate(spec.tensors):
        shape, strides = tuple(near[m] for m in tensor.shape), strides_for(tensor, near, "padded", number)
        data = data_for(tensor, shape, "random", 7 + number) if tensor.reads else None
        part = guarded(tensor, shape, strides, host.executor.device, data=data, number=number)
        parts.append(part)
        views[tensor.name] = part.view
        if mode in tensor.shape and len(chosen) < tiles:
            shape, strides = tuple(sizes[m] for m in tensor.shape), strides_for(tensor, sizes, "padded", number)
            whole = host.executor.untouched(tensor, shape, strides)
            if whole is None:
                return None
            view = host.executor.part_of(whole, tensor.shape.index(mode), coordinates, part.view)
            if view is None:
                return None
            views[tensor.name] = view
    scalars = {name: value for name, value in host.scalars.items() if isinstance(value, (bool, int, float))}
    expected = evaluate(spec, {p.tensor.name: p.view for p in parts}, scalars, {mode: coordinates})
    return _Part(host.arguments(views), tuple(parts), expected)


def _launched(host: Host, mode: str, tiles: int) -> int:
    """How many blocks a call of so many tiles launches; 0 where it launches several kernels or refuses them."""
    part = _part(host, mode, tiles, [0])
    if part is None:
        return 0
    try:
        launches = host.executor.launched(host.module, host.spec, part.arguments)
    except CannotRun:
        raise
    except Exception:
        return 0
    return prod(launches[0].grid) if len(launches) == 1 else 0


def _wrong(host: Host, mode: str, tiles: int, chosen: Sequence[int]) -> str:
    """What is wrong with a call of so many tiles of which the chosen ones are there, and the blocks of those run."""
    part = _part(host, mode, tiles, chosen)
    if part is None:
        return "no such tensors can be made here"
    wrong: list[str] = []

    def judge(by: str) -> None:
        host.executor.synchronize()
        for made in (p for p in part.parts if p.tensor.name in part.expected):
            result = compare(made.view, *part.expected[made.tensor.name])
            if not result.ok:
                which = f" in {made.tensor.name}" * (len(part.expected) > 1)
                wrong.append(f"{by or 'it'} gives a wrong result{which}: {result.reason}")

    try:
        if len(chosen) < tiles:
            host.executor.some_blocks(host.module, host.spec, part.arguments, chosen, judge)
        else:
            host.executor.run(host.module, host.spec, part.arguments, 1, judge)
    except CannotRun:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:600]}"
    return "; ".join([*wrong, *(problem for made in part.parts if (problem := made.problem()))])
