"""tcgen05.mma: products that one thread starts, for its block or a pair of blocks, with sums in tensor memory.

What a product computes is in tensor memory at once. But nobody knows of it, nor that its operands have been read,
before a wait for the mbarrier of a tcgen05.commit that the same thread has executed behind it
(`synchronisation.issued_operations`).

In a pair, both blocks have the descriptors' matrices at the same places: each has half of the rows of A and of B, and
gets the products of its rows of A with all of B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.tensor_history import Touch
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.memory.tensor_memory import LANES
from cutegen.emulator.operations.operands import Note, Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Address, Instruction, Vector
from cutegen.emulator.warps.shared_matrices import DescriptorError
from cutegen.emulator.warps.tensor_factors import Factor, factor_in_cells, shared_factor
from cutegen.emulator.warps.tensor_pairs import blocks_of, read_group
from cutegen.emulator.warps.tensor_product_types import SCALED, TYPES_OF, ProductShape, read_shape
from cutegen.emulator.warps.tensor_scales import read_scales, scaled
from cutegen.emulator.warps.tensor_sums import Target, write_sums
from cutegen.emulator.warps.thread_operands import ThreadOperand, read_number_operand, read_tensor_address

Lane = tuple[int, int]
_COLLECTORS = tuple(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard"))
_WORD = 32  # lanes that a word of a mask of lanes has
_DEPTHS = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
_VECTORS = {"mxf8f6f4": (32,), "mxf4": (32,), "mxf4nvf4": (16, 32)}
"""The kinds with scale factors: the depth of a product, and for how many elements of a row a factor may be."""


@dataclass(frozen=True)
class TensorProductForm:
    """A tcgen05.mma of a kind, for so many blocks as `group` says, and how to find its operands.

    `a` is A's descriptor or, where it is `in_cells`, its address in tensor memory. `disabled` are the words of the mask
    of the lanes of D that are not written, block by block. `scales` are the addresses of the scale factors of A and B,
    where there are such, one for each `vector` elements of a row.
    """

    instruction: Instruction
    kind: str
    group: int
    d: ThreadOperand
    a: ThreadOperand
    in_cells: bool
    b: ThreadOperand
    shape: ThreadOperand
    keeps: ThreadOperand
    disabled: tuple[ThreadOperand, ...]
    scales: tuple[ThreadOperand, ...] = ()
    vector: int = 0

    @property
    def operands(self) -> tuple[ThreadOperand, ...]:
        """All of them."""
        return (self.d, self.a, self.b, self.shape, self.keeps, *self.disabled, *self.scales)


def tensor_product(reader: InstructionReader, slots: Mapping[str, int], note: Note) -> Operation:
    """The operation of tcgen05.mma, whose first modifier has been taken.

    Raises UnsupportedInstruction for integers, sparse and weight-stationary products.
    """
    group = read_group(reader)
    kind = reader.choice(*(f"kind::{kind}" for kind in TYPES_OF)).partition("::")[2]
    for collector in _COLLECTORS:  # buffers, which change no result: operands must stay until the product has ended
        reader.flag(collector)
    vector = _read_vector(reader, kind) if kind in SCALED else 0
    d, a, b, shape, *more, keeps = reader.operands(*((7,) if vector else (5, 6)))
    scales = tuple(read_tensor_address(reader, more.pop(0), slots) for _ in range(2)) if vector else ()
    words = more[0].items if more and isinstance(more[0], Vector) else ()
    if more and len(words) != group * LANES // _WORD:
        reader.fail("a scale of D, or a mask that has not a bit for each lane")
    note("shared", PIECE)
    in_cells = isinstance(a, Address)
    form = TensorProductForm(
        reader.instruction,
        kind,
        group,
        read_tensor_address(reader, d, slots),
        read_tensor_address(reader, a, slots) if in_cells else read_number_operand(reader, a, "b64", slots),
        in_cells,
        read_number_operand(reader, b, "b64", slots),
        read_number_operand(reader, shape, "b32", slots),
        read_number_operand(reader, keeps, "pred", slots),
        tuple(read_number_operand(reader, word, "b32", slots) for word in words),
        scales,
        vector,
    )
    return partial(_multiply, form)


def _read_vector(reader: InstructionReader, kind: str) -> int:
    """Takes the modifiers of scale factors; returns for how many elements each is."""
    if not reader.flag("block_scale"):
        reader.fail("a product of this kind without .block_scale")
    named = {f"block{size}": size for size in _VECTORS[kind]}
    named |= {f"scale_vec::{_DEPTHS[kind] // size}X": size for size in _VECTORS[kind]}
    found = reader.choice(*named, default=f"block{_VECTORS[kind][0]}" if len(_VECTORS[kind]) == 1 else None)
    return named[found]


def _multiply(form: TensorProductForm, lanes: Lanes, mask: Mask) -> None:
    """Starts the product of each lane of the mask. Raises Stop for a fault."""
    for operand in form.operands:
        operand.check_known(lanes, mask)
    for thread, block in np.argwhere(whole(lanes.active(mask), lanes.shape)).tolist():
        try:
            _start(form, lanes, (thread, block))
        except DescriptorError as problem:
            text = f"a descriptor of tcgen05.mma: {problem}"
            raise Stop("tcgen05", text, form.instruction, (thread, block)) from problem


def _start(form: TensorProductForm, lanes: Lanes, lane: Lane) -> None:
    """Starts the product of one lane. Raises Stop for a fault, DescriptorError for a descriptor."""
    team, log, instruction = lanes.team, lanes.shared.log, form.instruction
    assert isinstance(log, SharedHistory)
    blocks = blocks_of(lanes, lane, form.group, instruction)
    shape = read_shape(form.shape.at(lanes, lane), form.kind, form.group)
    bits = form.b.at(lanes, lane)
    parts = [shared_factor(lanes, lane, block, bits, shape, 1, instruction) for block in blocks]
    b = reduce(lambda one, other: one.beside(other), parts)
    touched = [b.cells]
    keeps, address = bool(form.keeps.at(lanes, lane)), form.d.at(lanes, lane)
    if form.scales and shape.halved:
        raise DescriptorError("M is 128 for a pair of blocks, with scale factors, which is not emulated")
    touch = Touch(instruction, lane, team.issued.agent(lane), "writes", pipelined=True)
    for number, block in enumerate(blocks):
        where = form.a.at(lanes, lane)
        if form.in_cells:
            a = factor_in_cells(lanes, lane, block, where, shape, instruction)
        else:
            a = shared_factor(lanes, lane, block, where, shape, 0, instruction)
        touched.append(a.cells)
        to = Target(block, address, keeps, _enabled(form, lanes, lane, number))
        a, all_of_b = _scaled(form, lanes, lane, block, shape, (a, b)) if form.scales else (a, b)
        write_sums(team.tensor_memory, touch, to, shape, form.kind, a, all_of_b)
    team.issued.begin(lane, blocks, np.unique(np.concatenate(touched)), instruction.line, log)


def _scaled(
    form: TensorProductForm,
    lanes: Lanes,
    lane: Lane,
    block: int,
    shape: ProductShape,
    factors: tuple[Factor, Factor],
) -> tuple[Factor, Factor]:
    """A and B times the scale factors that a block has for them: of its rows of A, and of all rows of B."""
    scales = read_scales(form.shape.at(lanes, lane), form.kind, shape.depth // form.vector)
    addresses = [one.at(lanes, lane) for one in form.scales]
    a, b = (
        scaled(lanes, lane, block, factors[side], addresses[side], side, scales, form.instruction) for side in (0, 1)
    )
    return a, b


def _enabled(form: TensorProductForm, lanes: Lanes, lane: Lane, number: int) -> Array | None:
    """Which lanes of the block with that number in its pair are written; None for all."""
    each = LANES // _WORD
    words = [word.at(lanes, lane) for word in form.disabled[number * each : (number + 1) * each]]
    if not any(words):
        return None
    return np.asarray([not words[one // _WORD] >> one % _WORD & 1 for one in range(LANES)])
