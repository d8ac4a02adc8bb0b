"""The sums of tcgen05.mma in the tensor memory of a block.

PTX leaves the order and the rounding of the sums open. P. Xie et al., MMA-Sim (arXiv 2511.10909), fitted a model to a
B200: all products of an instruction and D are aligned to the largest exponent, cut toward zero to 25 bits behind the
point, added, and the sum is cut to f32, or rounded to f16 (`cutegen.atoms.mma.BLACKWELL_SUMS`). Here the products and
their sum with D are exact, and the result is cut, or rounded, as there; what the alignment cuts off is not modelled. So
sums of small integers are exact. Sums that f32 does not have are infinite. Nothing of this was compared with a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutegen.atoms.mma import BLACKWELL_SUMS
from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.arithmetic.formats import NAN32
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.tensor_history import GROUP, Touch
from cutegen.emulator.memory.tensor_memory import EMPTY, LANES, UNDEFINED, WRITTEN, TensorMemory
from cutegen.emulator.warps.product_types import cut
from cutegen.emulator.warps.tensor_factors import Factor
from cutegen.emulator.warps.tensor_places import product_places
from cutegen.emulator.warps.tensor_product_types import ProductShape

_TOO_LARGE = 2.0**128  # for f32


@dataclass(frozen=True)
class Target:
    """The place of D in the tensor memory of the block `block`, at `address`.

    Sums are added to it if it `keeps` what it has. `enabled` says which lanes are written, None for all.
    """

    block: int
    address: int
    keeps: bool
    enabled: Array | None


def write_sums(
    memory: TensorMemory, touch: Touch, to: Target, shape: ProductShape, kind: str, a: Factor, b: Factor
) -> None:
    """Writes the rows of D that a block has: products of its rows of A with all of B.

    Raises Stop for a place that D cannot have, for accesses that are not ordered before, and where something is added
    to what was never written.
    """
    row, column = to.address >> 16, to.address & 0xFFFF
    places = product_places(len(a.values), shape.columns, halved=shape.halved)
    highest = int(places.lanes.max())
    if row not in ((0,) if highest >= LANES - GROUP else (0, GROUP)):
        text = f"D of {len(a.values)} rows at lane {row} of tensor memory"
        raise Stop("misaligned", text, touch.instruction, touch.lane)
    groups, enabled = places.groups + row // GROUP, None
    if to.enabled is not None:
        written = np.asarray(to.enabled.reshape(-1, GROUP).any(axis=1))
        groups = groups[written[groups[:, 0]]]
        enabled = to.enabled[places.lanes + row]
        if not groups.size:
            return
    part = memory.part(to.block, groups, places.every_column + column, touch)
    memory.history.check_write(touch, part)
    where = to.block, places.lanes + row, places.columns + column
    before, held = memory.state[where], memory.data[where]
    with np.errstate(all="ignore"):
        sums = a.values @ b.values.T * shape.sign
    state = np.full(sums.shape, WRITTEN, np.uint8)
    if to.keeps:
        if has_any((before == EMPTY) & (True if enabled is None else enabled)):
            text = "tcgen05.mma adds to an accumulator that was never written"
            raise Stop("never-written", text, touch.instruction, touch.lane)
        state, sums = before, sums + _values(held, shape.sums)
    for factor, along in ((a, (-1, 1)), (b, (1, -1))):
        if factor.lost is not None:
            state = np.where(factor.lost.reshape(along), np.uint8(UNDEFINED), state)
    bits = cells_of(sums, shape.sums, kind)
    memory.data[where] = bits if enabled is None else np.where(enabled, bits, held)
    memory.state[where] = state if enabled is None else np.where(enabled, state, before)
    memory.history.note_write(touch, part)


def _values(bits: Array, kind: str) -> Array:
    """Cells of D as float64."""
    if kind == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    return bits.view(np.float32).astype(np.float64)


def cells_of(sums: Array, kind: str, of_kind: str) -> Array:
    """Sums in float64, of a product of a kind, as cells of D of the type `kind`."""
    with np.errstate(all="ignore"):
        if kind == "f16":
            return sums.astype(np.float16).view(np.uint16).astype(np.uint32)
        found = cut(sums, BLACKWELL_SUMS[of_kind].result_bits)
    if has_any(large := np.abs(sums) >= _TOO_LARGE):  # which a cut would bring to the largest number
        found = np.where(large, np.copysign(np.float32(np.inf), found), found)
    nan = np.isnan(found)
    return np.where(nan, NAN32, found.view(np.uint32)) if has_any(nan) else found.view(np.uint32)
