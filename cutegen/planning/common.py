"""Inference that every op shares: tensors, targets, sizes that an access implies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import lcm

from tensor_layouts import Layout

from cutegen.language.expressions import Call, Expr, walk
from cutegen.language.model import KernelSpec, Predicate, Tensor
from cutegen.language.reader import MAX_INT as MAX_SIZE
from cutegen.planning.plan import Operand
from cutegen.planning.report import Report
from cutegen.planning.targets import DEFAULT_TARGETS, MAX_VECTOR_BITS, WARP


def resolve_tensors(spec: KernelSpec, report: Report, default_major: Mapping[str, str]) -> KernelSpec:
    """Majorness (the last mode, as torch lays out a new tensor) and alignment (16 bytes, torch's own is more)."""
    tensors = []
    for tensor in spec.tensors:
        major, align = tensor.major, tensor.align
        if major is None:
            major = default_major.get(tensor.name, tensor.shape[-1])
            report.infer("the last mode, as torch lays out a new tensor", "tensors", tensor.name, "major")
        if align is None:
            align = 16
            report.infer("one 128-bit access", "tensors", tensor.name, "align")
        tensors.append(replace(tensor, major=major, align=align))
    targets = spec.targets
    if not targets:
        targets = DEFAULT_TARGETS
        report.infer("cp.async from Ampere on, and Hopper", "targets")
    return replace(spec, tensors=tuple(tensors), targets=targets)


def aligned_elements(tensor: Tensor) -> int:
    """The widest vector of this tensor, in elements, that its alignment and 128 bits allow."""
    assert tensor.align is not None
    return max(1, min(tensor.align * 8, MAX_VECTOR_BITS) // tensor.dtype.bits)


def whole_accesses(spec: KernelSpec, mode: str | None) -> int:
    """The widest vector, in elements, that a fixed size of `mode` is a multiple of."""
    fixed = spec.static.get(mode or "", 0)
    return fixed & -fixed or MAX_VECTOR_BITS


def known_divisor(spec: KernelSpec, mode: str) -> int:
    """What the size of a mode is known to be a multiple of."""
    return spec.static.get(mode) or spec.divisible.get(mode, 1)


def require_divisible(spec: KernelSpec, report: Report, mode: str, divisor: int, why: str) -> KernelSpec:
    """Note that the size of `mode` must be a multiple of `divisor`: the host checks it, the compiler is told."""
    if divisor == 1 or known_divisor(spec, mode) % divisor == 0:
        return spec
    if mode in spec.static:
        size = spec.static[mode]
        near = -(-size // divisor) * divisor
        near = near if near <= MAX_SIZE else near - divisor
        report.error(
            "CG220",
            f"{mode} is fixed at {size}, which is no multiple of {divisor}",
            "static",
            mode,
            notes=(f"{size} = {size // divisor} * {divisor} + {size % divisor}", why),
            help=f"{near} would work",
        )
        return spec
    given = spec.divisible.get(mode, 1)
    divisible = {**spec.divisible, mode: lcm(given, divisor)}
    if divisible[mode] > MAX_SIZE:
        report.error(
            "CG223",
            f"no size of {mode} is a multiple of both {given} and {divisor}",
            "divisible",
            mode,
            notes=(f"their least common multiple is {divisible[mode]}; sizes are below 2**31", why),
            help=f"{divisor} would work",
        )
        return spec
    report.infer(why, "divisible", mode)
    return replace(spec, divisible=divisible)


def default_predication(spec: KernelSpec, report: Report, mode: str, tile: int, masked: Predicate) -> Predicate:
    """No predicate where the size is known to be a whole number of tiles, else `masked`."""
    whole = known_divisor(spec, mode) % tile == 0
    report.infer(
        f"{mode} is a multiple of the tile's {tile}" if whole else f"any {mode} is allowed",
        "schedule",
        "predication",
        mode,
    )
    return "none" if whole else masked


def operand(spec: KernelSpec, tensor: Tensor, vector: int, read: bool) -> Operand:
    """How a thread accesses a tensor of the pointwise part.

    Where it is contiguous as the output is, as many of `vector` elements at a time as its alignment and 128 bits allow,
    else one.
    """
    output = spec.output
    lacks = tuple(mode for mode in output.shape if mode not in tensor.shape)
    along = min(vector, aligned_elements(tensor)) if tensor.major == output.major else 1
    return Operand(tensor, along, lacks, read, tensor.name == output.name)


def may_branch(value: Expr) -> bool:
    """Whether code for `value` may branch on it: functions do, arithmetic and comparisons select."""
    return any(isinstance(node, Call) for node in walk(value))


# Warps of a block that turns a tile: along the mode that is written in a row, and along the one that is read so
PATCH = (4, 2)


def turning_threads(deep: int) -> tuple[Layout, Layout]:
    """Threads along the mode that is written in a row and along the one that is read so, `deep` of a warp along it."""
    lanes = WARP // deep
    return Layout((lanes, PATCH[0]), (1, WARP)), Layout((deep, PATCH[1]), (lanes, WARP * PATCH[0]))
