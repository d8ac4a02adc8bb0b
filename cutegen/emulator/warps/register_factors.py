"""A of wgmma in registers: its elements, and the rules for these registers before a product and until its wait.

Registers are never changed in place: one that holds the same array as before was not written. Lanes in which a register
means nothing may hold anything, and other bits whenever other lanes write it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.lanes import WARP, Mask
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.product_groups import Factor
from cutegen.emulator.warps.by_warp import (
    first_lane_of,
    gather_registers,
    peek_by_warp,
    poison_of,
    poisoned_by_warp,
    see_registers,
)
from cutegen.emulator.warps.product_form import ProductForm

_KNOWN = "factors of wgmma"  # under which lanes keep that a fence has made rows for them
_ROWS = 16
"""Of A that one warp has."""


def see_at_fence(lanes: Lanes, warps: Array, factors: Sequence[int]) -> None:
    """Notes what all registers of products hold at a fence by warps. `factors` are the slots of those of any A."""
    products = lanes.team.products
    if factors and _KNOWN not in lanes.kept:
        lanes.kept[_KNOWN] = True
        new = [slot for slot in dict.fromkeys(factors) if slot not in products.slots]
        products.add(new, peek_by_warp(lanes, new))
    products.fenced[warps] = True
    if products.core is None or not see_registers(products.core, lanes, products.slots, warps, products.seen):
        products.seen[:, warps] = peek_by_warp(lanes, products.slots)[:, warps]


def check_any_fence(lanes: Lanes, warps: Array, instruction: Instruction) -> None:
    """Raises Stop unless each of the warps has had a fence."""
    fenced = lanes.team.products.fenced[warps]
    if not fenced.all():
        text = "no wgmma.fence comes before the warp's first product"
        raise Stop("wgmma", text, instruction, first_lane_of(lanes, int(warps[int(fenced.argmin())])))


def factor_of(form: ProductForm, lanes: Lanes, mask: Mask, warps: Array) -> Factor:
    """The registers of A as warps give them to a product.

    Raises Stop for one that was never written, that a product in flight writes, or that was written since the warp's
    last fence.
    """
    products, instruction = lanes.team.products, form.instruction
    for slot, name in zip(form.factor, form.names, strict=True):
        if lanes.bits[slot] is None and lanes.wide[slot] is None:
            lanes.get(slot)
            lanes.refuse_register(slot, mask, f"register {name} of A", instruction)
    check_any_fence(lanes, warps, instruction)
    rows = products.rows(form.factor)
    busy = products.flying[rows, warps] != 0
    if has_any(busy):
        text = "of A is an accumulator of a product that the warp has not waited for"
        raise _stop(form, lanes, warps, busy, text)
    arrays, poison = tuple(map(lanes.get, form.factor)), poison_of(lanes, form.factor)
    bits = _gathered(lanes, form.factor, warps)
    changed = bits != products.seen[rows, warps]
    if has_any(changed):
        changed = (changed & ~poisoned_by_warp(lanes, poison, warps)).any(axis=2)
        if has_any(changed):
            text = "of A was written since the warp's last wgmma.fence, which must come between"
            raise _stop(form, lanes, warps, changed, text)
    return Factor(form.factor, form.names, arrays, poison, bits, instruction.line)


def check_untouched(lanes: Lanes, left: int, warps: Sequence[int], instruction: Instruction) -> None:
    """Raises Stop for a register of A that a warp has written since the start of a product that it waits for now.

    The wait is for all but the last `left` groups of products. A write of what the register held before is not seen.
    """
    for factor, some, numbers in lanes.team.products.ending_factors(left, warps):
        if all(lanes.bits[slot] is array for slot, array in zip(factor.slots, factor.arrays, strict=True)):
            continue
        those = np.asarray(some)
        changed = _gathered(lanes, factor.slots, those) != factor.bits[:, numbers]
        if not has_any(changed):
            continue
        before, now = (poisoned_by_warp(lanes, one, those) for one in (factor.poison, poison_of(lanes, factor.slots)))
        changed = (changed & ~(before & now)).any(axis=2)
        if has_any(changed):
            number, warp = np.argwhere(changed)[0].tolist()
            text = f"register {factor.names[number]} of A was written while a product that this waits for reads it"
            witness = Witness("the product starts here", factor.line)
            raise Stop("wgmma", text, instruction, first_lane_of(lanes, some[warp]), witnesses=(witness,))


def lost_by_factor(form: ProductForm, lanes: Lanes, mask: Mask, warps: Array) -> Array | None:
    """Which rows of A have a poisoned element, shape (warps, 16); None where there is none."""
    if lanes.clean(form.factor, mask):
        return None
    poisoned = poisoned_by_warp(lanes, poison_of(lanes, form.factor), warps)
    # Register i of lane l has elements of row l // 4 + 8 * (i % 2) only
    by_row = poisoned.reshape(2, 2, len(warps), WARP // 4, 4).transpose(2, 1, 3, 0, 4)
    found = np.asarray(by_row.reshape(len(warps), _ROWS, -1).any(axis=2))
    return found if has_any(found) else None


def _gathered(lanes: Lanes, slots: Sequence[int], warps: Array) -> Array:
    """The contents of registers in some warps, shape (slots, warps, 32)."""
    core = lanes.team.products.core
    found = None if core is None else gather_registers(core, lanes, slots, warps)
    return peek_by_warp(lanes, slots)[:, warps] if found is None else found


def _stop(form: ProductForm, lanes: Lanes, warps: Array, bad: Array, text: str) -> Stop:
    """The fault of the first register of A that is `bad`, shape (slots, warps)."""
    number, warp = np.argwhere(bad)[0].tolist()
    lane = first_lane_of(lanes, int(warps[warp]))
    return Stop("wgmma", f"register {form.names[number]} {text}", form.instruction, lane)
