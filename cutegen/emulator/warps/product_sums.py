"""The sums of wgmma: products of the elements that warps have read, added to the accumulators of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cutegen.atoms.mma import HOPPER_F8
from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS
from cutegen.emulator.arithmetic.formats import NAN32
from cutegen.emulator.native.library import AccessResult, Core
from cutegen.emulator.synchronisation.product_groups import ProductGroups
from cutegen.emulator.warps.product_form import ProductForm, by_lane
from cutegen.emulator.warps.product_reads import ProductReads
from cutegen.emulator.warps.product_types import SINGLE_BITS, cut, widened

_ROWS = 16
"""Of the result that one warp makes."""

_KINDS = {"bf16": 0, "f16": 1, "tf32": 2, "e4m3": 3, "e5m2": 3}
_NONE, _NO_REGISTERS = np.zeros(1), np.zeros(1, np.uint32)


@dataclass(frozen=True)
class Addition:
    """The accumulators that products of `warps` are added to. `keeps` says which warps keep theirs; others start at 0.

    `resting`, shape (slots, warps), says which accumulators no product in flight writes: these are in registers, which
    hold `now`, shape (slots, warps, 32), or None if there are none.
    """

    warps: Array
    keeps: Array
    resting: Array
    now: Array | None


def add_products(form: ProductForm, products: ProductGroups, reads: ProductReads, raw: Array, to: Addition) -> None:
    """Multiplies the elements of `reads`, whose bits are `raw`, and adds that to accumulators, or starts those that are
    not kept.
    """
    if products.core is not None and _added_by_core(products.core, form, products, reads, raw, to):
        return
    sums = np.empty((len(to.warps), _ROWS, form.columns))
    rows = widened(raw[reads.where[0]], form.kinds[0])
    for number, columns in enumerate(widened(raw[reads.where[1]], form.kinds[1])):
        those = np.flatnonzero(reads.matrix[1] == number)
        one = rows[reads.matrix[0][those]].reshape(-1, form.depth) @ columns.T
        sums[those] = one.reshape(-1, _ROWS, form.columns)
    places = products.rows(form.slots), to.warps
    sign = form.signs[0] * form.signs[1]
    products.held[places] = _added(form, sums * sign, to, products.held[places])


def _added(form: ProductForm, sums: Array, to: Addition, held: Array) -> Array:
    """The accumulators with the sums added: to registers where they rest, else to `held`, or to zero if not kept."""
    parts = by_lane(sums)
    bits = held if to.now is None else np.where(to.resting[:, :, None], to.now, held)
    start = bits.view(np.float32).astype(np.float64)
    if not to.keeps.all():
        start = np.where(to.keeps[:, None], start, 0.0)
    with np.errstate(all="ignore"):
        exact = start + parts
        total = cut(exact, HOPPER_F8.bits) if form.kinds[0] in F8_FORMATS else exact.astype(np.float32)
    nan = np.isnan(total)
    return np.where(nan, NAN32, total.view(np.uint32)) if has_any(nan) else total.view(np.uint32)


def _added_by_core(
    core: Core, form: ProductForm, products: ProductGroups, reads: ProductReads, raw: Array, to: Addition
) -> bool:
    """Lets the core multiply and add. False, and nothing is changed, where it has no memory for that."""
    rows = products.rows(form.slots)
    registers = _NO_REGISTERS if to.now is None else np.ascontiguousarray(to.now)
    arrays: tuple[Array, ...] = (raw, *reads.where, *reads.matrix, *tables_of(form.kinds), products.held, rows)
    arrays += (to.warps, to.keeps, to.resting, registers)
    given = np.array((len(rows), len(to.warps), form.columns, form.depth, products.count, *numbers_of(form)), np.int64)
    return core.accesses["multiply_warpgroups"](arrays, given.ctypes.data) == AccessResult.FINE


@lru_cache(maxsize=16)
def tables_of(kinds: tuple[str, str]) -> tuple[Array, ...]:
    """The values of all elements of A and of B, where those have 8 bits."""
    return tuple(F8_FORMATS[kind].values if kind in F8_FORMATS else _NONE for kind in kinds)


def numbers_of(form: ProductForm) -> tuple[int, ...]:
    """The core's numbers for a form: the sign, its types, whether sums are cut, and the mask of the bits cut off."""
    of_8_bits = form.kinds[0] in F8_FORMATS
    dropped = (1 << SINGLE_BITS - HOPPER_F8.bits) - 1 if of_8_bits else 0
    return form.signs[0] * form.signs[1], _KINDS[form.kinds[0]], _KINDS[form.kinds[1]], of_8_bits, dropped
