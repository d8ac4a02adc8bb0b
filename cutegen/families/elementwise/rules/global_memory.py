"""Advice on accesses to global memory: sectors that are not filled, and accesses narrower than they could be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.analysis import Access
from cutegen.analysis.widths import width
from cutegen.atoms.targets import MAX_VECTOR_BITS, WARP
from cutegen.families.common.rules import global_memory
from cutegen.families.common.rules.candidates import in_tiler
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.elementwise.rules.accesses import BITS
from cutegen.families.elementwise.schedule import Spec
from cutegen.families.elementwise.tiles import widest_bits
from cutegen.language.kinds import Path
from cutegen.lint.rule import Accesses, Candidate, Finding
from cutegen.lint.trial import changed, first_written, is_written, say_layout, written


def uncoalesced(spec: Spec, plan: ElementwisePlan, made: Accesses) -> Iterator[Finding]:
    """A warp's instruction touches no more sectors of global memory than its bytes fill."""
    return global_memory.uncoalesced(spec, made, partial(_other_walks, spec, plan))


def _other_walks(spec: Spec, plan: ElementwisePlan, access: Access) -> Iterator[Candidate]:
    major = spec.lead.shape.index(str(spec.lead.major))
    mode, rank = str(spec.lead.major), len(spec.lead.shape)
    if plan.partition == "inner":
        if plan.tile_order[0] != major:
            yield written(f"write `raster: {mode}`"), changed(spec, {"scheduler.raster": mode})
        yield in_tiler(spec, mode, access.vector)
        return
    extent, values = plan.tiler[major], plan.pointwise.vector
    for along in (WARP, 16, 8, 4, plan.threads):
        if plan.threads % along or (plan.partition == "inner_outer" and extent % (along * values)):
            continue
        shape = [1] * rank
        shape[major] = along
        shape[major - 1 if major else rank - 1] *= plan.threads // along
        threads = layouts.row_major(shape, major)
        fields: dict[str, Layout] = {"thread_layout": threads}
        text = say_layout("thread_layout", threads)
        if plan.partition == "thread_value":
            own = [1] * rank
            own[major] = values
            own[major - 1 if major else rank - 1] *= plan.pointwise.values // values
            fields["value_layout"] = layouts.row_major(own, major)
            text += f" and {say_layout('value_layout', fields['value_layout']).removeprefix('write ')}"
        yield written(text), changed(spec, fields)


def narrow(spec: Spec, plan: ElementwisePlan, made: Accesses) -> Iterator[Finding]:
    """An access is as wide as the alignment and 128 bits allow."""

    def whole(access: Access) -> bool:
        return access.memory(spec).major == spec.lead.major

    def place(access: Access, asked: bool) -> Path:
        dealt = plan.partition == "inner_outer"  # `bits` decides what is in a row
        if (asked or dealt) and is_written(spec, *BITS):
            return BITS
        value_layout: Path = ("schedule", "value_layout")
        return first_written(spec, value_layout, access.path, access.path[:-1], ("tensors", access.tensor))

    return global_memory.narrow(spec, made, partial(_wider, spec, plan), whole, place)


def _wider(spec: Spec, plan: ElementwisePlan, access: Access) -> Iterator[Candidate]:
    unsaid = not is_written(spec, *BITS)
    for bits in (128, 64, 32, 16):
        text = f"write `copy: {{bits: {bits}}}`" if unsaid else f"write `bits: {bits}`"
        yield written(text), changed(spec, {"copy.bits": bits})
    wanted = width(spec, access).allowed
    yield _longer_runs(spec, plan, wanted) if plan.partition == "inner_outer" else _more_values(spec, plan, wanted)


def _more_values(spec: Spec, plan: ElementwisePlan, wanted: int) -> Candidate:
    """A changed kernel in which a thread has `wanted` elements in a row, and the width of accesses
    is left to planning.
    """
    mode = str(spec.lead.major)
    and_bits = ", and leave `bits` out" if is_written(spec, *BITS) else ""
    if plan.partition == "inner":
        text = f"write `{mode}: {wanted}` in the tiler{and_bits}"
        return written(text), changed(spec, {f"tiler.{mode}": wanted, "copy.bits": None})
    assert plan.thread_layout is not None
    sides = layouts.mode_sizes(plan.thread_layout)
    own = [extent // side for extent, side in zip(plan.tiler, sides, strict=True)]
    own[spec.lead.shape.index(mode)] = wanted
    value = layouts.row_major(own, spec.lead.shape.index(mode))
    fields = {"copy.bits": None, "tiler": None, "thread_layout": plan.thread_layout, "value_layout": value}
    return written(f"{say_layout('value_layout', value)}{and_bits}"), changed(spec, fields)


def _longer_runs(spec: Spec, plan: ElementwisePlan, wanted: int) -> Candidate:
    """A changed kernel in which the threads of inner_outer deal out whole accesses of up to `wanted` elements."""
    assert plan.thread_layout is not None
    mode, element = str(spec.lead.major), widest_bits(spec)
    run = min(wanted, MAX_VECTOR_BITS // element)
    step = run * layouts.mode_sizes(plan.thread_layout)[spec.lead.shape.index(mode)]
    extent = -(-plan.tile[mode] // step) * step
    text = f"write `{mode}: {extent}` in the tiler and `copy: {{bits: {run * element}}}`"
    return written(text), changed(spec, {f"tiler.{mode}": extent, "copy.bits": run * element})
