"""wgmma: products of matrices in shared memory, or of A in registers, which four warps start and wait for later.

Each warp makes its own 16 of the 64 rows. The matrices are read when a product starts; that nobody writes them until
the wait for it is checked, and so is that its accumulators are not touched: they mean nothing until then. The registers
of A may be read until then, although the PTX ISA does not allow even that.

How it computes: as mma.sync does (`tensor_cores`). PTX leaves the order and the rounding of the sums open (PTX ISA 9.1,
section 9.7.15.5.2); here the products are exact, are added in f64 along the depth, and the sum with the accumulator is
rounded once to f32. For 8-bit floats, the sum is truncated to the 14 bits that Hopper's accumulators keep; what that
cuts off before, where it aligns each product to the largest (`cutegen.atoms.mma.HOPPER_F8`), is not modelled.

The order of registers (section 9.7.15.7): a warp needs a wgmma.fence before its first product, and again once it has
written registers that are accumulators or A. The rule is enforced as written, although assemblers accept some
violations, except for zeros in accumulators: compilers move those of a sum's start from before the fence to behind it,
and assemblers start the sum instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import WARP, Mask
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.operations.operands import Note, Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.product_groups import WARPS
from cutegen.emulator.warps.by_warp import (
    first_lane_of,
    poison_of,
    poisoned_by_warp,
    registers_by_warp,
    same_in_warps,
    whole_warps,
)
from cutegen.emulator.warps.core_products import core_products
from cutegen.emulator.warps.product_form import ProductForm, by_lane, read_form
from cutegen.emulator.warps.product_reads import ProductReads, product_reads, unwritten_rows
from cutegen.emulator.warps.product_sums import Addition, add_products
from cutegen.emulator.warps.product_waits import agent_of, threads_of
from cutegen.emulator.warps.register_factors import check_any_fence, factor_of, lost_by_factor, see_at_fence
from cutegen.emulator.warps.shared_matrices import Places, places_told

_ROWS = 16
"""Of the result that one warp makes."""


def warpgroup_operation(
    instruction: Instruction, slots: Mapping[str, int], note: Note, factors: list[int]
) -> Operation:
    """The operation of a wgmma instruction that does not wait. Raises UnsupportedInstruction for other forms.

    `factors` are the slots of all registers that are A in the kernel; those of this instruction are added.
    """
    reader = InstructionReader(instruction)
    what = reader.choice("fence", "commit_group", "mma_async")
    if not reader.leads("sync") or not reader.leads("aligned"):
        reader.fail("only .sync.aligned")
    if what == "mma_async":
        note("shared", PIECE)
        form = read_form(reader, slots)
        factors += form.factor
        return partial(_multiply, form)
    reader.operands(0)
    return partial(_fence, instruction, factors) if what == "fence" else partial(_commit, instruction)


def _fence(instruction: Instruction, factors: Sequence[int], lanes: Lanes, mask: Mask) -> None:
    see_at_fence(lanes, whole_warps(lanes, mask, instruction), factors)


def _commit(instruction: Instruction, lanes: Lanes, mask: Mask) -> None:
    lanes.team.products.commit(whole_warps(lanes, mask, instruction).tolist())


def _multiply(form: ProductForm, lanes: Lanes, mask: Mask) -> None:
    """Starts the products of warps. Raises Stop for a fault."""
    instruction, products = form.instruction, lanes.team.products
    warps = whole_warps(lanes, mask, instruction)
    for slot in form.origins:
        lanes.get(slot)
        lanes.refuse_register(slot, mask, "an operand of wgmma", instruction)
    factor = factor_of(form, lanes, mask, warps) if form.factor else None
    by_core = core_products(lanes, agent_of)
    if by_core is not None and by_core.start(form, lanes, mask, warps, partial(_reads, form, lanes, warps), factor):
        return
    resting, now = _check_fenced(form, lanes, warps)
    *descriptors, keeps = (
        same_in_warps(lanes, get(lanes), warps, instruction, "wgmma") for get in (*form.descriptors, form.keeps)
    )
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    reads = _reads(form, lanes, warps, descriptors)
    raw, unknown = reads.elements(log, lanes.shared, instruction), None
    if raw is None and (written := reads.written(lanes.shared)) is not None:
        raw = written.elements(log, lanes.shared, instruction)
        if raw is not None:
            reads, unknown = written.reads, written.lost
    if raw is None:
        unknown = _check_reads(form, lanes, warps, _all_places(form, lanes, warps, descriptors))
        raw = reads.begun(log, lanes.shared, instruction)
    if factor is not None:
        raw = np.concatenate([raw, factor.bits.view(reads.element).reshape(-1)])
        if (rows := lost_by_factor(form, lanes, mask, warps)) is not None:
            lost = by_lane(np.repeat(rows[:, :, None], form.columns, axis=2))
            unknown = lost if unknown is None else unknown | lost
    agents = [agent_of(lanes, warp) for warp in warps.tolist()]
    products.begin(warps, form.slots, partial(log.products.end, instruction, reads, agents, None), factor)
    addition = Addition(warps, keeps != 0, resting, now)
    _check_accumulators(form, lanes, addition, unknown)
    add_products(form, products, reads, raw, addition)
    if now is not None:
        lanes.lose([form.slots[i] for i in np.flatnonzero(resting.any(axis=1)).tolist()], threads_of(lanes, warps))


def _reads(form: ProductForm, lanes: Lanes, warps: Array, descriptors: Sequence[Array]) -> ProductReads:
    """The reads of warps whose matrices A and B, or only B, have these descriptors. Raises Stop as `_places` does."""
    shape, find = (form.columns, form.depth, form.transposed), partial(_all_places, form, lanes, warps, descriptors)
    key = shape, *(bits.tobytes() for bits in descriptors)
    return product_reads(lanes, warps, key, find, form.itemsize, form.fragment)


def _all_places(form: ProductForm, lanes: Lanes, warps: Array, descriptors: Sequence[Array]) -> list[list[Places]]:
    """Where each warp's part of A lies, unless it is in registers, and each one's B. Raises Stop as `_places` does."""
    sizes, first = (WARPS * _ROWS, form.columns), 2 - len(descriptors)
    return [_places(form, lanes, warps, bits, side, sizes[side]) for side, bits in enumerate(descriptors, first)]


def _places(form: ProductForm, lanes: Lanes, warps: Array, descriptors: Array, side: int, size: int) -> list[Places]:
    """Where each warp's part of A lies (side 0), or all of B (side 1). Raises Stop for a descriptor with an offset."""
    found = []
    for warp, bits in zip(warps.tolist(), descriptors.tolist(), strict=True):
        first = _ROWS * (warp // lanes.shape[1] % WARPS)
        rows = (None, None) if side else (first, first + _ROWS)
        places = places_told(bits, size, form.depth, form.itemsize, form.transposed[side], *rows)
        if isinstance(places, int):
            text = f"a matrix descriptor with a base offset of {places}, which is not emulated"
            raise Stop("wgmma", text, form.instruction, first_lane_of(lanes, warp))
        found.append(places)
    return found


def _check_fenced(form: ProductForm, lanes: Lanes, warps: Array) -> tuple[Array, Array | None]:
    """In which warps no product in flight writes each of the accumulators, shape (slots, warps), and what the registers
    hold where there are such, shape (slots, warps, 32), or None where there are none.

    Raises Stop unless what these hold has been there since the warp's last fence, or is zero.
    """
    products, instruction = lanes.team.products, form.instruction
    check_any_fence(lanes, warps, instruction)
    if not products.has(form.slots):
        new = [slot for slot in dict.fromkeys(form.slots) if slot not in products.slots]
        products.add(new, registers_by_warp(lanes, new))
    rows = products.rows(form.slots)
    resting = products.flying.take(rows[:, 0], axis=0).take(warps, axis=1) == 0
    if not has_any(resting):
        return resting, None
    now = registers_by_warp(lanes, form.slots)[:, warps]
    changed = resting & (now != products.seen[rows, warps]).any(axis=2) & now.any(axis=2)
    if has_any(changed):
        warp = int(warps[int(changed.argmax()) % len(warps)])
        text = "an accumulator was written since the warp's last wgmma.fence, which must come between"
        raise Stop("wgmma", text, instruction, first_lane_of(lanes, warp))
    return resting, now


def _check_reads(form: ProductForm, lanes: Lanes, warps: Array, places: Sequence[Sequence[Places]]) -> Array | None:
    """Raises Stop for the first fault of what warps read, looked for in one matrix after the other.

    Returns which products are made of what was never written, as `by_lane` has them; None where there is none.
    """
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    unknown = np.zeros((len(warps), _ROWS, form.columns), np.bool_)
    for number, (warp, *matrices) in enumerate(zip(warps.tolist(), *places, strict=True)):
        lane = first_lane_of(lanes, warp)
        for side, one in enumerate(matrices, 2 - len(matrices)):
            lost = unwritten_rows(lanes, one, lane, lane[1], form.itemsize, form.instruction)
            if lost is not None:
                unknown[number] |= lost[None, :] if side else lost[:, None]
            rows = one.rows(lanes.shared.unit)
            each = len(rows) // len(one.pieces)
            log.check_gather(
                form.instruction, log.gathered(rows, lane[1], lane[0] + np.arange(len(rows)) // each % WARP)
            )
    return by_lane(unknown) if has_any(unknown) else None


def _check_accumulators(form: ProductForm, lanes: Lanes, addition: Addition, unknown: Array | None) -> None:
    """Raises Stop for an accumulator that is added to, and was never written, and notes which mean nothing from now on.

    Those products that are `unknown`, as `by_lane` has them, mean nothing.
    """
    products, warps, keeps, resting = lanes.team.products, addition.warps, addition.keeps, addition.resting
    lost, kept = products.unknown, keeps[:, None]
    if addition.now is not None and (lost is not None or has_any(keeps & resting)):
        rows, poisoned = products.rows(form.slots), poisoned_by_warp(lanes, poison_of(lanes, form.slots), warps)
        bad = keeps & resting & (poisoned if lost is None else poisoned & ~lost[rows, warps]).any(axis=2)
        if has_any(bad):
            text = "wgmma adds to an accumulator that was never written"
            warp = int(warps[int(bad.argmax()) % len(warps)])
            raise Stop("never-written", text, form.instruction, first_lane_of(lanes, warp))
        kept = kept & (~resting[:, :, None] | poisoned)
    elif unknown is None and keeps.all():
        return  # nothing rests
    if unknown is not None or lost is not None:
        products.lose(form.slots, warps, unknown, kept if lost is not None else None)
