"""Inference that all families share: tensors, targets, sizes that an access implies."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from math import lcm

from tensor_layouts import Layout

from cutegen.atoms.targets import WARP
from cutegen.expressions.parsing import Call, Expr, Local, Name, Typed, walk
from cutegen.families.common.pointwise import Operand
from cutegen.language.kinds import MAX_INT as MAX_SIZE
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.promises import fitting_elements, known_divisor, promised
from cutegen.planning.report import Report
from cutegen.planning.targets import infer_targets


def resolve_tensors(spec: KernelSpec, report: Report, default_major: Mapping[str, str]) -> KernelSpec:
    """The spec with majorness and alignment of its tensors.

    Majorness is that of `default_major`, by tensor, else the last mode, torch's default, as of all views; alignment is
    16 bytes (torch's own is more).
    """
    tensors = []
    for tensor in spec.tensors:
        major, align = tensor.major, tensor.align
        if major is None and tensor.modes:
            own = tensor.view is not None  # it lies as its argument does
            major = tensor.contiguous if own else default_major.get(tensor.name, tensor.contiguous)
            last = major == tensor.contiguous
            why = "the last mode, torch's default" if last else f"neighbours lie along {major}"
            report.infer(why, "tensors", tensor.name, "major")
        if align is None:
            align = 16 if tensor.modes else tensor.dtype.bytes
            report.infer("one 128-bit access" if tensor.modes else "one element", "tensors", tensor.name, "align")
        tensors.append(replace(tensor, major=major, align=align))
    return infer_targets(replace(spec, tensors=tuple(tensors)), report)


def require_divisible(spec: KernelSpec, report: Report, mode: str, divisor: int, why: str) -> KernelSpec:
    """The spec with the promise that the size of `mode` is a multiple of `divisor`.

    The host checks it, and the compiler assumes it. A promise that was written stands: one that does not do is
    reported.
    """
    if divisor == 1 or known_divisor(spec, mode) % divisor == 0:
        return spec
    if mode in spec.static:
        size = spec.static[mode]
        near = -(-size // divisor) * divisor
        near = near if near <= MAX_SIZE else near - divisor
        report.say(
            "CG220",
            f"{mode} is fixed at {size}, which is not a multiple of {divisor}",
            "static",
            mode,
            notes=(f"{size} = {size // divisor} * {divisor} + {size % divisor}", why),
            help=f"{near} would work",
        )
        return spec
    given = spec.divisible.get(mode, 1)
    divisible = {**spec.divisible, mode: lcm(given, divisor)}
    if divisible[mode] > MAX_SIZE:
        report.say(
            "CG223",
            f"no size of {mode} is a multiple of both {given} and {divisor}",
            "divisible",
            mode,
            notes=(f"their least common multiple is {divisible[mode]}; sizes are below 2**31", why),
            help=f"{divisor} would work",
        )
        return spec
    if promised(spec, mode) is not None:
        report.say(
            "CG224",
            f"{mode} is a multiple of {given}, and the schedule needs one of {divisible[mode]}",
            "divisible",
            mode,
            notes=(f"{why}: {divisor} does not divide {given}",),
            help=f"write `{mode}: {divisible[mode]}`, or leave out what asks for it",
        )
        return spec
    report.infer(why, "divisible", mode)
    return replace(spec, divisible=divisible)


def default_predication(spec: KernelSpec, report: Report, mode: str, tile: int) -> bool:
    """Whether no predicate is needed: the size is known to be a whole number of tiles. Notes why for `explain`."""
    whole = known_divisor(spec, mode) % tile == 0
    report.infer(
        f"{mode} is a multiple of the tile's {tile}" if whole else f"any {mode} is allowed",
        "schedule",
        "predication",
        mode,
    )
    return whole


def operand(spec: KernelSpec, tensor: Tensor, vector: int, read: bool) -> Operand:
    """How a thread accesses a tensor of the pointwise part; `read` says whether it loads what is there first.

    A tensor that is contiguous as the leading one is takes as many of `vector` elements at a time as its alignment and
    128 bits allow; any other takes one.
    """
    lead = spec.lead
    lacks = tuple(mode for mode in lead.shape if mode not in spec.by_element.tensor(tensor.name).shape)
    along = min(vector, fitting_elements(spec, tensor)) if tensor.runs_along(lead.major) else 1
    return Operand(tensor, along, lacks, read, tensor in spec.outputs)


def names_read(statements: Sequence[Typed]) -> frozenset[str]:
    """The tensors and scalars that statements read element by element, before anything is assigned to them."""
    return frozenset(node.id for typed in statements for node in walk(typed.value) if isinstance(node, Name))


def may_branch(statements: Sequence[Typed]) -> bool:
    """Whether code for the statements may branch on values: functions do, arithmetic and comparisons select."""
    return any(isinstance(node, Call) for typed in statements for node in walk(typed.value))


def may_branch_on(statements: Sequence[Typed], names: Container[str]) -> bool:
    """The same of functions that are given what tensors of these names hold, or values computed of it."""
    found: set[str] = set()

    def holds(value: Expr) -> bool:
        nodes = (node.id for node in walk(value) if isinstance(node, Name | Local))
        return any(name in names or name in found for name in nodes)

    for typed in statements:
        if any(isinstance(node, Call) and holds(node) for node in walk(typed.value)):
            return True
        if holds(typed.value):
            found.add(typed.target)
    return False


# Warps of a block that turns a tile: along the mode that is written in a row, and along the one that is read so
PATCH = (4, 2)


def turning_threads(deep: int) -> tuple[Layout, Layout]:
    """The layouts of threads along the mode that is written in a row, and along the one that is read in a row.

    A warp has `deep` threads along the latter.
    """
    lanes = WARP // deep
    return Layout((lanes, PATCH[0]), (1, WARP)), Layout((deep, PATCH[1]), (lanes, WARP * PATCH[0]))
