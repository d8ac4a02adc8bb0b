"""Kernels that take what their accesses do not fit: they are launched with wide accesses, or with narrow ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import lcm

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.atoms.copies import Fallback
from cutegen.families.common.planning import require_divisible
from cutegen.families.common.pointwise import Operand
from cutegen.language.model import KernelSpec
from cutegen.layouts import pair
from cutegen.planning.promises import known_divisor
from cutegen.planning.report import Report

NARROW = "narrow"  # the way of running with accesses of one element
WORDS = "words"  # that with accesses of 32 bits


def infer_fallback(spec: KernelSpec, report: Report, mode: str, vector: int, tile: int) -> KernelSpec:
    """The spec with what a call gets that accesses of `vector` elements along `mode` do not fit, and with what the
    accesses need of its callers.

    Without predicates a size along `mode` is a multiple of `tile`.
    """
    written = spec.schedule.copy.fallback
    settled = with_copy(spec, fallback=_fallback(spec, report, written, mode, vector, tile))
    return _with_promises(settled, report, written, mode, vector)


def _fallback(
    spec: KernelSpec, report: Report, written: Fallback | None, mode: str, vector: int, tile: int
) -> Fallback | None:
    """The fallback for calls that the accesses do not fit: as `written`, else `narrow`; None where they always fit.

    A size that is fixed never changes, and has accesses that fit it.
    """
    moved = [t for t in spec.tensors if t.runs_along(mode)]
    whole = lcm(known_divisor(spec, mode), tile if spec.schedule.predication.get(mode) == "none" else 1)
    opened = mode not in spec.static and whole % vector != 0
    narrows = vector > 1 and (opened or any(t.name in _free(spec, report) for t in moved))
    if written is None and narrows:
        report.infer("all sizes, strides and addresses are accepted", "schedule", "copy", "fallback")
        return "narrow"
    unaligned = any((t.align or 1) < vector * t.dtype.bytes for t in moved)
    if written == "narrow" and not (narrows or (vector > 1 and unaligned)):
        why = "every access is of one element" if vector == 1 else "what is promised allows all accesses"
        report.say("CG203", f"`narrow` never applies: {why}", "schedule", "copy", "fallback", help="remove `fallback`")
    return written


def _free(spec: KernelSpec, report: Report) -> set[str]:
    """The tensors of whose addresses and strides the spec says nothing."""
    free = (t for t in spec.tensors if ("tensors", t.name, "align") in report.inferred)
    return {t.name for t in free if (t.align or 1) > t.dtype.bytes}


def _with_promises(spec: KernelSpec, report: Report, written: Fallback | None, mode: str, vector: int) -> KernelSpec:
    """The spec with the promises that its accesses need, once its `fallback` is known; `written` is the
    fallback in the text, if any.

    That sizes along `mode` are multiples of `vector`, and alignment; not where there are narrow accesses besides, and
    of tensors with accesses of one element no more than what was written.
    """
    if not spec.schedule.narrows or mode in spec.static:
        spec = require_divisible(spec, report, mode, vector, f"accesses of {vector} elements along {mode}")
    if written == "refuse":
        return spec
    free = _free(spec, report)
    if vector > 1 and not spec.schedule.narrows:
        free -= {t.name for t in spec.tensors if t.runs_along(mode)}
    for name in free:
        report.infer("elements may have any alignment", "tensors", name, "align")
    tensors = tuple(replace(t, align=t.dtype.bytes) if t.name in free else t for t in spec.tensors)
    return replace(spec, tensors=tensors)


# ------------------------------------------------------------------------------------------------- the two ways of one


def promising(spec: KernelSpec, operands: Iterable[Operand], mode: str, vector: int) -> KernelSpec:
    """The spec with the promises that hold where the wide accesses are taken, as if it had no others."""
    wide = {o.tensor.name: o.vector * o.tensor.dtype.bytes for o in operands}
    tensors = tuple(replace(t, align=max(t.align or 1, wide.get(t.name, 1))) for t in spec.tensors)
    divisible: Mapping[str, int] = spec.divisible
    if mode not in spec.static:
        divisible = {**divisible, mode: lcm(divisible.get(mode, 1), vector)}
    return replace(with_copy(spec, fallback="refuse"), tensors=tensors, divisible=divisible)


def with_copy(spec: KernelSpec, **fields: object) -> KernelSpec:
    """The spec with other values of fields of its schedule's `copy`."""
    return replace(spec, schedule=replace(spec.schedule, copy=replace(spec.schedule.copy, **fields)))


def of_spec(operands: Iterable[Operand], spec: KernelSpec) -> tuple[Operand, ...]:
    """The operands with the promises of another spec of the same kernel."""
    return tuple(replace(o, tensor=spec.tensor(o.tensor.name)) for o in operands)


def one_at_a_time(operands: Iterable[Operand]) -> tuple[Operand, ...]:
    """The operands with accesses of one element."""
    return tuple(replace(o, vector=1) for o in operands)


def interleaved(tv_layout: Layout) -> Layout:
    """A (thread, value) layout of the same elements that gives neighbouring threads neighbours.

    Where threads have runs of neighbours, one run after the other, each gets those elements whose number among them
    all, divided by that of the threads, leaves its own; other layouts stay as they are.
    """
    threads, values = (layouts.leaves(mode) for mode in layouts.modes_of(tv_layout))
    run, step = values[0]
    beside = next((i for i, (_, stride) in enumerate(threads) if stride == run * step), None)
    if run == 1 or beside is None:
        return tv_layout
    many = threads[beside][0]
    return pair(
        _layout([*threads[:beside], (many, step), *threads[beside + 1 :]]),
        _layout([(run, many * step), *values[1:]]),
    )


def _layout(leaves: Sequence[tuple[int, int]]) -> Layout:
    shape, stride = zip(*leaves, strict=True)
    return Layout(shape[0], stride[0]) if len(leaves) == 1 else Layout(shape, stride)
