"""tcgen05.mma: products that one thread starts, of matrices in shared memory, with sums in tensor memory.

What a product computes is in tensor memory at once. But nobody knows of it, nor that its operands have been read,
before a wait for the mbarrier of a tcgen05.commit that the same thread has executed behind it
(`synchronisation.issued_operations`).

How it computes: PTX leaves the order and the rounding of the sums open. P. Xie et al., MMA-Sim (arXiv 2511.10909),
fitted a model to a B200: all products of an instruction and D are aligned to the largest exponent, cut toward zero to
25 bits behind the point, added, and the sum is cut to f32, or rounded to f16 (`cutegen.atoms.mma.BLACKWELL_SUMS`). Here
the products and their sum with D are exact, and the result is cut, or rounded, as there; what the alignment cuts off is
not modelled. So sums of small integers are exact. Nothing of this was compared with a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cutegen.atoms.mma import BLACKWELL_SUMS
from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.arithmetic.formats import NAN32
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.tensor_history import GROUP, TensorPart, Touch
from cutegen.emulator.checks.touches import Touches
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.memory.tensor_memory import EMPTY, LANES, UNDEFINED, WRITTEN, TensorMemory
from cutegen.emulator.operations.operands import Note, Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Address, Instruction, Vector
from cutegen.emulator.warps.product_reads import unwritten_rows
from cutegen.emulator.warps.product_types import cut, widened
from cutegen.emulator.warps.shared_matrices import DescriptorError, Places, tensor_core_places
from cutegen.emulator.warps.tensor_places import CellPlaces, factor_places, product_places
from cutegen.emulator.warps.tensor_product_types import DEPTH_BYTES, TYPES_OF, ProductShape, read_shape
from cutegen.emulator.warps.thread_operands import ThreadOperand, read_group, read_number_operand, read_tensor_address

Lane = tuple[int, int]
_ELEMENTS: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
_COLLECTORS = tuple(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard"))
_FACTOR_COLUMNS = DEPTH_BYTES // 4  # of A in tensor memory


@dataclass(frozen=True)
class TensorProductForm:
    """A tcgen05.mma of a kind, and how to find its operands.

    `a` is A's descriptor or, where it is `in_cells`, its address in tensor memory. `disabled` are the words of the mask
    of the lanes of D that are not written.
    """

    instruction: Instruction
    kind: str
    d: ThreadOperand
    a: ThreadOperand
    in_cells: bool
    b: ThreadOperand
    shape: ThreadOperand
    keeps: ThreadOperand
    disabled: tuple[ThreadOperand, ...]

    @property
    def operands(self) -> tuple[ThreadOperand, ...]:
        """All of them."""
        return (self.d, self.a, self.b, self.shape, self.keeps, *self.disabled)


def tensor_product(reader: InstructionReader, slots: Mapping[str, int], note: Note) -> Operation:
    """The operation of tcgen05.mma, whose first modifier has been taken.

    Raises UnsupportedInstruction for pairs of blocks, block scaling, integers, sparse and weight-stationary products.
    """
    read_group(reader)
    kind = reader.choice(*(f"kind::{kind}" for kind in TYPES_OF)).partition("::")[2]
    for collector in _COLLECTORS:  # buffers, which change no result: operands must stay until the product has ended
        reader.flag(collector)
    d, a, b, shape, *more, keeps = reader.operands(5, 6)
    words = more[0].items if more and isinstance(more[0], Vector) else ()
    if more and len(words) != LANES // 32:
        reader.fail("a scale of D, or a mask that has not a bit for each lane")
    note("shared", PIECE)
    in_cells = isinstance(a, Address)
    form = TensorProductForm(
        reader.instruction,
        kind,
        read_tensor_address(reader, d, slots),
        read_tensor_address(reader, a, slots) if in_cells else read_number_operand(reader, a, "b64", slots),
        in_cells,
        read_number_operand(reader, b, "b64", slots),
        read_number_operand(reader, shape, "b32", slots),
        read_number_operand(reader, keeps, "pred", slots),
        tuple(read_number_operand(reader, word, "b32", slots) for word in words),
    )
    return partial(_multiply, form)


def _multiply(form: TensorProductForm, lanes: Lanes, mask: Mask) -> None:
    """Starts the product of each lane of the mask. Raises Stop for a fault."""
    for operand in form.operands:
        operand.check_known(lanes, mask)
    for thread, block in np.argwhere(whole(lanes.active(mask), lanes.shape)).tolist():
        try:
            _start(form, lanes, (thread, block))
        except DescriptorError as problem:
            raise Stop(
                "tcgen05", f"a descriptor of tcgen05.mma: {problem}", form.instruction, (thread, block)
            ) from problem


@dataclass(frozen=True)
class _Factor:
    """A or B as float64, which of its rows are `lost`, as something in them was never written, and the units of shared
    memory that it lies in, over all blocks.
    """

    values: Array
    lost: Array | None
    cells: Array


def _start(form: TensorProductForm, lanes: Lanes, lane: Lane) -> None:
    """Starts the product of one lane. Raises Stop for a fault, DescriptorError for a descriptor."""
    team, memory = lanes.team, lanes.team.tensor_memory
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    shape = read_shape(form.shape.at(lanes, lane), form.kind)
    agent = team.issued.agent(lane)
    b = _shared_factor(form, lanes, lane, form.b.at(lanes, lane), shape, 1)
    if form.in_cells:
        a = _factor_in_cells(form, lanes, lane, shape, agent)
    else:
        a = _shared_factor(form, lanes, lane, form.a.at(lanes, lane), shape, 0)
    keeps = bool(form.keeps.at(lanes, lane))
    disabled = sum(word.at(lanes, lane) << 32 * i for i, word in enumerate(form.disabled))
    touch = Touch(form.instruction, lane, agent, "writes", pipelined=True)
    target = _target(form, memory, touch, form.d.at(lanes, lane), shape, disabled)
    if target is not None:
        part, rows, row_lanes, columns = target
        memory.history.check_write(touch, part)
        lost = None if a.lost is None and b.lost is None else _either(a.lost, b.lost, shape)
        _write(form, memory, touch, shape, (part.block, row_lanes, columns), (a.values, b.values, lost, rows), keeps)
        memory.history.note_write(touch, part)
    cells = np.unique(np.concatenate([a.cells, b.cells]))
    team.issued.begin(lane, [lane[1]], cells, form.instruction.line, log)


def _target(
    form: TensorProductForm, memory: TensorMemory, touch: Touch, address: int, shape: ProductShape, disabled: int
) -> tuple[TensorPart, Array, Array, Array] | None:
    """The part of tensor memory that D is written to, the rows that it has there, and the lane and column of each of
    their elements. None where all lanes are disabled. Raises Stop for an address that D cannot have.
    """
    row, column = address >> 16, address & 0xFFFF
    places = product_places(shape.rows, shape.columns)
    if row not in ((0,) if shape.rows == LANES else (0, GROUP)):
        text = f"D of {shape.rows} rows at lane {row} of tensor memory"
        raise Stop("misaligned", text, form.instruction, touch.lane)
    lanes_of_rows = places.lanes[:, 0] + row
    rows: Array = np.arange(shape.rows)
    if disabled:
        rows = rows[[not disabled >> one & 1 for one in lanes_of_rows.tolist()]]
        if not rows.size:
            return None
    groups = np.unique(lanes_of_rows[rows] // GROUP)[:, None]
    part = memory.part(touch.lane[1], groups, places.every_column + column, touch)
    return part, rows, places.lanes[rows] + row, places.columns[rows] + column


def _write(
    form: TensorProductForm,
    memory: TensorMemory,
    touch: Touch,
    shape: ProductShape,
    where: tuple[int, Array, Array],
    factors: tuple[Array, Array, Array | None, Array],
    keeps: bool,
) -> None:
    """Writes some rows of D. Raises Stop where it is added to and was never written."""
    a, b, lost, rows = factors
    with np.errstate(all="ignore"):
        sums = (a[rows] @ b.T) * shape.sign
    state = np.full(sums.shape, WRITTEN, np.uint8)
    if keeps:
        before = memory.state[where]
        if has_any(before == EMPTY):
            text = "tcgen05.mma adds to an accumulator that was never written"
            raise Stop("never-written", text, form.instruction, touch.lane)
        state, sums = before, sums + _values(memory.data[where], shape.sums)
    if lost is not None:
        state = np.where(lost[rows], np.uint8(UNDEFINED), state)
    memory.data[where], memory.state[where] = cells_of(sums, shape.sums, form.kind), state


def _values(bits: Array, kind: str) -> Array:
    """Cells of D as float64."""
    if kind == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    return bits.view(np.float32).astype(np.float64)


def cells_of(sums: Array, kind: str, of_kind: str) -> Array:
    """Sums in float64 as cells of D."""
    with np.errstate(all="ignore"):
        if kind == "f16":
            return sums.astype(np.float16).view(np.uint16).astype(np.uint32)
        found = cut(sums, BLACKWELL_SUMS[of_kind].result_bits)
    nan = np.isnan(found)
    return np.where(nan, NAN32, found.view(np.uint32)) if has_any(nan) else found.view(np.uint32)


def _either(a: Array | None, b: Array | None, shape: ProductShape) -> Array:
    """Which elements of D are made of a row of A or B that is lost, shape (rows, columns)."""
    rows = np.zeros(shape.rows, np.bool_) if a is None else a
    columns = np.zeros(shape.columns, np.bool_) if b is None else b
    return np.asarray(rows[:, None] | columns[None, :])


def _shared_factor(
    form: TensorProductForm, lanes: Lanes, lane: Lane, bits: int, shape: ProductShape, side: int
) -> _Factor:
    """A (side 0) or B (side 1) in shared memory. Raises Stop for what may not be read yet, DescriptorError."""
    itemsize = shape.itemsizes[side]
    size = (shape.rows, shape.columns)[side]
    places = tensor_core_places(bits, size, DEPTH_BYTES // itemsize, itemsize, shape.transposed[side])
    block, memory = lane[1], lanes.shared
    lost = unwritten_rows(lanes, places, lane, block, itemsize, form.instruction)
    raw, cells = _gathered(form, lanes, lane, block, places)
    values = widened(raw.view(_ELEMENTS[itemsize])[places.where // itemsize], shape.types[side])
    assert len(raw) == len(places.pieces) * PIECE // memory.unit
    return _Factor(values, lost, cells)


def _gathered(form: TensorProductForm, lanes: Lanes, lane: Lane, block: int, places: Places) -> tuple[Array, Array]:
    """The units of a block's shared memory that a matrix lies in, and their numbers over all blocks.

    Raises Stop for one whose last write is not ordered before, in the async proxy.
    """
    memory, clocks, log = lanes.shared, lanes.team.clocks, lanes.shared.log
    assert isinstance(log, SharedHistory)
    rows = places.rows(memory.unit)
    ones = np.ones(len(rows), np.int64)
    touches = Touches(rows, ones * block, ones * clocks.cluster[lane], ones * clocks.member[lane], lanes.shape[1])
    log.check_gather(form.instruction, touches)
    return memory.data[rows, block], touches.cells


def _factor_in_cells(form: TensorProductForm, lanes: Lanes, lane: Lane, shape: ProductShape, agent: int) -> _Factor:
    """A in tensor memory, packed along its depth, 32 bytes a row. Raises Stop as `_shared_factor` does."""
    memory, address = lanes.team.tensor_memory, form.a.at(lanes, lane)
    places: CellPlaces = factor_places(shape.rows, _FACTOR_COLUMNS)
    row, column = address >> 16, address & 0xFFFF
    if shape.transposed[0] or row not in ((0,) if shape.rows == LANES else (0, GROUP)):
        text = f"A of {shape.rows} rows{', MN-major,' * shape.transposed[0]} at lane {row} of tensor memory"
        raise Stop("misaligned", text, form.instruction, lane)
    touch = Touch(form.instruction, lane, agent, "reads")
    part = memory.part(lane[1], places.groups + row // GROUP, places.every_column + column, touch)
    memory.history.check_read(touch, part)
    memory.history.note_read(touch, part)
    where = lane[1], places.lanes + row, places.columns + column
    state = memory.state[where]
    if has_any(state == EMPTY):
        raise Stop("never-written", "A in tensor memory was never written", form.instruction, lane)
    lost = (state == UNDEFINED).any(axis=1)
    raw = np.ascontiguousarray(memory.data[where]).view(_ELEMENTS[shape.itemsizes[0]])
    return _Factor(widened(raw, shape.types[0]), lost if has_any(lost) else None, np.zeros(0, np.int64))
