"""Inference that gemms share: how blocks walk tiles, swizzles, guards, and the sizes that whole accesses require."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from cutegen.atoms.targets import TARGETS
from cutegen.families.common.planning import default_predication, require_divisible
from cutegen.families.gemm.words import SWIZZLES, GemmWords
from cutegen.language.edits import with_value
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.report import Report

S = TypeVar("S", bound=GemmWords)


def filled(schedule: S, report: Report, path: tuple[str, ...], value: object, why: str) -> S:
    """The schedule with a value at a path that was left out, and why it is that one."""
    report.infer(why, "schedule", *path)
    return with_value(schedule, path, value)


def infer_walk(schedule: S, report: Report, m: str, swizzle: int, why: str) -> S:
    """The schedule with a walk along `m`, in bands of `swizzle` tiles, for which `why` is the reason."""
    walk = schedule.scheduler
    if walk.raster is None:
        schedule = filled(schedule, report, ("scheduler", "raster"), m, "as CUTLASS numbers blocks")
    if walk.swizzle is None:
        schedule = filled(schedule, report, ("scheduler", "swizzle"), swizzle, why)
    return schedule


def infer_swizzle(schedule: S, report: Report, tensor: Tensor, extent: int) -> S:
    """The schedule with the widest swizzle that an operand's tile fills, of `extent` bytes along its contiguous mode.

    It stays as it is where no swizzle does: lint says why.
    """
    own, fitting = schedule.smem.get(tensor.name), [width for width in SWIZZLES if extent % width == 0]
    if not fitting or (own is not None and own.swizzle is not None):
        return schedule
    why = f"the widest that divides {extent} bytes"
    return filled(schedule, report, ("smem", tensor.name, "swizzle"), fitting[0], why)


def infer_guards(
    spec: KernelSpec[S], report: Report, tiles: Mapping[str, int], guards: Mapping[str, str], whose: str
) -> KernelSpec[S]:
    """The spec with a guard of each mode of `tiles`, which is that of `guards` where a size may end inside a tile.

    `whose` are the tiles, in words. The host refuses sizes that end inside one where nothing guards them.
    """
    predication = dict(spec.schedule.predication)
    for mode, tile in tiles.items():
        if mode not in predication:
            predication[mode] = "none" if default_predication(spec, report, mode, tile) else guards[mode]
        if predication[mode] == "none":
            why = f"predication of {mode} is none and {whose} is {tile}"
            spec = require_divisible(spec, report, mode, tile, why)
    ordered = {mode: predication[mode] for mode in tiles}
    return replace(spec, schedule=with_value(spec.schedule, ("predication",), ordered))


def require_whole_accesses(spec: KernelSpec[S], report: Report, tensor: Tensor, vector: int) -> KernelSpec[S]:
    """The spec with the promise that accesses of `vector` elements of a tensor end where its rows do."""
    assert tensor.major is not None
    why = f"accesses of {vector} elements of {tensor.name} along {tensor.major}"
    return require_divisible(spec, report, tensor.major, vector, why)


def room_of(spec: KernelSpec[S]) -> int:
    """Bytes of shared memory that a block has on every target."""
    return min((TARGETS[name].smem_per_block for name in spec.targets if name in TARGETS), default=0)
