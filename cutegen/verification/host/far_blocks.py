"""Launches of more blocks than can run here: some of them run, on those parts of tensors that are theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Literal

from cutegen.verification.bounds import Expected, evaluate
from cutegen.verification.cases import strides_for
from cutegen.verification.compare import compare
from cutegen.verification.costs import seconds
from cutegen.verification.data import data_for
from cutegen.verification.executor import CannotRun
from cutegen.verification.host.judging import Check, Host
from cutegen.verification.tensors import Guarded, guarded

_TILES = (1 << 24) + 3  # with numbers that f32 does not tell apart, along tiles of fewer than 2^7
_COORDINATES = (1 << 31) - (1 << 21)  # along a mode: those of 32 bits, but for a tile beyond the last
_BYTES = 1 << 37  # of addresses, of a tensor
_FEW = (1 << 8) + 1  # tiles of which all run where blocks cannot be told
_SMALL = 300  # tiles of a grid of which some blocks show in which order they take tiles
_DEAR = 0.6  # seconds

Order = Literal["slow", "fast"]
"""Whether the blocks of one tile of a mode have numbers one after the other, or those of one tile of the others."""
_ORDERS: tuple[Order, ...] = ("slow", "fast")


@dataclass(frozen=True)
class _Call:
    """A call with so many `tiles` of a mode, each of `extent`, and little of the other modes, which have `others` tiles
    in all. Of the mode the tiles `chosen` are there.
    """

    mode: str
    sizes: Mapping[str, int]
    extent: int
    others: int
    chosen: Sequence[int]

    @property
    def tiles(self) -> int:
        return -(-self.sizes[self.mode] // self.extent)

    @property
    def whole(self) -> bool:
        return len(self.chosen) == self.tiles

    @property
    def coordinates(self) -> Sequence[int]:
        """Those of the mode that are there."""
        end, extent = self.sizes[self.mode], self.extent
        return (
            range(end)
            if self.whole
            else [i for t in self.chosen for i in range(t * extent, min((t + 1) * extent, end))]
        )

    def blocks(self, order: Order) -> list[int]:
        """The numbers of the chosen tiles' blocks."""
        step, across = (self.others, 1) if order == "slow" else (1, self.tiles)
        return sorted(tile * step + other * across for tile in self.chosen for other in range(self.others))


def checks(host: Host) -> Iterator[Check]:
    """A check for each mode of the output: some blocks of as many as there can be, or all of what can be run.

    The former where blocks are seen to take tiles in order. What counts tiles wrong then, in however many bits or as a
    float, touches what another block has, or what nobody has.
    """
    if host.executor.chooses_blocks:
        for mode in (m for m in host.spec.output.shape if m not in host.spec.static):
            if _affordable(host, _all(host, mode, 1)):
                what = f"accepts as many tiles of {mode} as can be run"
                yield Check(host.spec.output.argument, what, partial(_wrong_with_many, host, mode))


def _wrong_with_many(host: Host, mode: str) -> str:
    """What is wrong with as many tiles of a mode as can be run."""
    order = _order(host, mode)
    if order is None:
        return _wrong_with_all(host, mode, _FEW)
    most = _most(host, mode)
    for tiles in (most, most // 2, 1 << 16):
        call = _call(host, mode, min(tiles, most), None)
        if call.tiles < _FEW or not _affordable(host, call):
            continue
        launched = _launched(host, call)
        if launched and launched < call.tiles * call.others:
            # Each block may take several tiles: that shows where there are a few more tiles than blocks
            more = _all(host, mode, -(-launched // call.others) + 3)
            problem = _wrong(host, more, None) if _affordable(host, more) else "fewer tiles have a block each"
            return problem and f"{launched} blocks are launched for {call.tiles} tiles of {mode}: {problem}"
        if launched == call.tiles * call.others:
            problem = _wrong(host, call, order)
            ran = ", ".join(map(str, call.chosen))
            return problem and f"of {call.tiles} tiles of {mode} the blocks of {ran} ran: {problem}"
    return _wrong_with_all(host, mode, _FEW)


def _wrong_with_all(host: Host, mode: str, tiles: int) -> str:
    """What is wrong with so many tiles of a mode, or fewer if they are dear, all of whose blocks run."""
    while tiles > 1 and not _affordable(host, _all(host, mode, tiles)):
        tiles //= 2
    return _wrong(host, _all(host, mode, tiles), None)


def _all(host: Host, mode: str, tiles: int) -> _Call:
    """A call of so many tiles of a mode, all of which are there."""
    return _call(host, mode, tiles, range(tiles))


def _order(host: Host, mode: str) -> Order | None:
    """In which order blocks take tiles, as a small grid shows; None where it shows none."""
    if any(True for _ in host.spec.family.scratch(host.plan)):
        return None  # blocks read there what others have written
    call = _call(host, mode, _SMALL, [1, _SMALL // 2, _SMALL - 1])
    if _affordable(host, call) and _launched(host, call) == call.tiles * call.others:
        return next((order for order in _ORDERS if not _wrong(host, call, order)), None)
    return None


def _telling(tiles: int) -> list[int]:
    """Numbers of tiles of which at least two become one where a number is cut to fewer bits than the largest has."""
    highest = 1 << max(0, (tiles - 1).bit_length() - 1)
    return sorted(n for n in {0, 1, 1 << 8, 1 << 16, highest, highest + 1, tiles - 1} if n < tiles)


def _most(host: Host, mode: str) -> int:
    """So many tiles of a mode that a launch can have, with as little as there can be of the others."""
    call = _call(host, mode, 4, [0])
    largest = min(_COORDINATES, host.spec.family.largest(host.plan).get(mode, _COORDINATES))
    for number, tensor in enumerate(host.spec.tensors):
        if mode in tensor.shape:
            strides = strides_for(tensor, call.sizes, "padded", number)
            step, others = strides[tensor.shape.index(mode)], prod(call.sizes[m] for m in tensor.shape if m != mode)
            largest = min(largest, _BYTES // (tensor.dtype.bytes * max(step, others)))
    step = max(1, host.spec.divisible.get(mode, 1))
    return min(_TILES, largest // step * step // call.extent)


def _call(host: Host, mode: str, tiles: int, chosen: Sequence[int] | None) -> _Call:
    """A call of at least so many tiles of a mode, the last one as small as can be; by default with telling ones."""
    spec, plan, covered = host.spec, host.plan, host.spec.family.covered(host.plan)
    extent = covered[mode]
    several = plan.threads * extent
    if spec.family.blocks(plan, _little(host, mode, several)) == 1:
        extent = several  # a tile for each thread
    sizes = _little(host, mode, (tiles - 1) * extent + 1)
    others = prod(-(-sizes[m] // covered[m]) for m in spec.output.shape if m != mode)
    call = _Call(mode, sizes, extent, others, ())
    if chosen is None:
        chosen = _telling(call.tiles)
    elif len(chosen) == tiles:
        chosen = range(call.tiles)
    return _Call(mode, sizes, extent, others, chosen)


def _little(host: Host, mode: str, size: int) -> dict[str, int]:
    """Sizes with at least that of a mode, and little of the others."""
    spec, covered = host.spec, host.spec.family.covered(host.plan)
    inner, sizes = spec.operation.contracted(spec), {}
    for m in spec.modes:
        least = size if m == mode else covered[m] // 2 + 1 if m in inner else 1
        step = max(1, spec.divisible.get(m, 1))
        sizes[m] = spec.static.get(m, -(-least // step) * step)
    return spec.family.accepted(spec, sizes) or sizes


def _affordable(host: Host, call: _Call) -> bool:
    """Whether what is there of a call's tensors is neither too large nor too dear."""
    return seconds(host.plan, {**call.sizes, call.mode: len(call.coordinates)}) <= _DEAR


def _made(host: Host, call: _Call) -> tuple[list[object], tuple[Guarded, ...], Mapping[str, Expected]]:
    """The arguments of a call, what is there of each tensor, and what is expected.

    Raises MemoryError where there are not so many addresses.
    """
    spec, mode = host.spec, call.mode
    coordinates, views, parts = call.coordinates, {}, []
    near = {**call.sizes, mode: len(coordinates)}
    for number, tensor in enumerate(spec.tensors):
        shape, strides = tuple(near[m] for m in tensor.shape), strides_for(tensor, near, "padded", number)
        data = data_for(tensor, shape, "random", 7 + number) if tensor.reads else None
        part = guarded(tensor, shape, strides, host.executor.device, data=data, number=number)
        parts.append(part)
        views[tensor.name] = part.view
        if mode in tensor.shape and not call.whole:
            shape, strides = (
                tuple(call.sizes[m] for m in tensor.shape),
                strides_for(tensor, call.sizes, "padded", number),
            )
            view = host.executor.part_of(tensor, shape, strides, tensor.shape.index(mode), coordinates, part.view)
            if view is None:
                raise MemoryError(f"no {shape} of {tensor.dtype} can be addressed here")
            views[tensor.name] = view
    scalars = {name: value for name, value in host.scalars.items() if isinstance(value, (bool, int, float))}
    given = {part.tensor.name: part.view for part in parts}
    return host.arguments(views), tuple(parts), evaluate(spec, given, scalars, {mode: coordinates})


def _launched(host: Host, call: _Call) -> int:
    """How many blocks a call launches; 0 where it launches several kernels or is refused."""
    try:
        launches = host.executor.launched(host.module, host.spec, _made(host, call)[0])
    except CannotRun:
        raise
    except Exception:
        return 0
    return prod(launches[0].grid) if len(launches) == 1 else 0


def _wrong(host: Host, call: _Call, order: Order | None) -> str:
    """What is wrong with a call of which all blocks run, or those of the chosen tiles, by the `order` of blocks."""
    wrong: list[str] = []
    parts: tuple[Guarded, ...] = ()
    try:
        arguments, parts, expected = _made(host, call)

        def judge(by: str) -> None:
            host.executor.synchronize()
            for made in (part for part in parts if part.tensor.name in expected):
                which = f" in {made.tensor.name}" * (len(expected) > 1)
                result = compare(made.view, *expected[made.tensor.name])
                if said := result.reason or made.unwritten():
                    wrong.append(f"{by or 'it'} gives a wrong result{which}: {said}")

        if order is None:
            host.executor.run(host.module, host.spec, arguments, 1, judge)
        else:
            host.executor.some_blocks(host.module, host.spec, arguments, call.blocks(order), judge)
    except CannotRun:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:600]}"
    return "; ".join([*wrong, *(problem for part in parts if (problem := part.problem()))])
