"""wgmma: products of matrices in shared memory, which four warps start together and wait for later.

Each warp makes its own 16 of the 64 rows. The matrices are read when a product starts; that nobody writes them until
the wait for it is checked, and so is that its accumulators are not touched: they mean nothing until then.

How it computes: as mma.sync does (`tensor_cores`). PTX leaves the order and the rounding of the sums open (PTX ISA 9.1,
section 9.7.15.5.2); here the products are exact, are added in f64 along the depth, and the sum with the accumulator is
rounded once to f32. For 8-bit floats, the sum is truncated to the 14 bits that Hopper's accumulators keep; what that
cuts off before, where it aligns each product to the largest (`cutegen.atoms.mma.HOPPER_F8`), is not modelled.

The order of registers (section 9.7.15.7): a warp needs a wgmma.fence before its first product, and again once it has
written registers that are accumulators. The rule is enforced as written, although assemblers accept some violations,
except for zeros: compilers move those of a sum's start from before the fence to behind it, and assemblers start the sum
instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.poison import poison_whole, poisoned_lanes
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import WARP, Mask, spread
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.memory.shared_memory import TABOO
from cutegen.emulator.native.library import Core
from cutegen.emulator.operations.operands import Getter, Note, Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Immediate, Instruction
from cutegen.emulator.synchronisation.product_groups import WARPS
from cutegen.emulator.warps.by_warp import (
    by_thread,
    by_thread_of_several,
    by_warp,
    registers_by_warp,
    see_registers,
    taking_part,
    whole_warps,
)
from cutegen.emulator.warps.core_products import core_products
from cutegen.emulator.warps.product_form import ProductForm, by_lane, read_form
from cutegen.emulator.warps.product_reads import ProductReads, lost_rows, product_reads
from cutegen.emulator.warps.product_sums import Addition, add_products
from cutegen.emulator.warps.shared_matrices import Places, places_told

_MOST_GROUPS = 7
"""That a wait may leave."""

_ROWS = 16
"""Of the result that one warp makes."""


def warpgroup_operation(instruction: Instruction, slots: Mapping[str, int], note: Note) -> Operation:
    """The operation of a wgmma instruction that does not wait. Raises UnsupportedInstruction for other forms."""
    reader = InstructionReader(instruction)
    what = reader.choice("fence", "commit_group", "mma_async")
    if not reader.leads("sync") or not reader.leads("aligned"):
        reader.fail("only .sync.aligned")
    if what == "mma_async":
        note("shared", PIECE)
        return partial(_multiply, read_form(reader, slots))
    reader.operands(0)
    return partial(_fence if what == "fence" else _commit, instruction)


def _lane(lanes: Lanes, warp: int) -> tuple[int, int]:
    """The first lane (thread, block) of a warp."""
    return warp // lanes.shape[1] * WARP, warp % lanes.shape[1]


def _fence(instruction: Instruction, lanes: Lanes, mask: Mask) -> None:
    products, warps = lanes.team.products, whole_warps(lanes, mask, instruction)
    products.fenced[warps] = True
    if products.core is None or not see_registers(products.core, lanes, products.slots, warps, products.seen):
        products.seen[:, warps] = registers_by_warp(lanes, products.slots)[:, warps]


def _commit(instruction: Instruction, lanes: Lanes, mask: Mask) -> None:
    lanes.team.products.commit(whole_warps(lanes, mask, instruction).tolist())


@dataclass(frozen=True)
class ProductWait:
    """wgmma.wait_group for all but the last `left` groups of a warp's products."""

    left: int
    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes that go on at once. Raises Stop for a part of a warp."""
        return self._open(lanes, mask, whole_warps(lanes, mask, self.instruction))

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes of warps whose products have ended, as all warps of their warpgroup have started them."""
        return self._open(lanes, mask, np.flatnonzero(taking_part(lanes, mask).any(axis=1)))

    def _open(self, lanes: Lanes, mask: Array, warps: Array) -> Array:
        """The same, of which `warps` are the numbers."""
        products = lanes.team.products
        ready = np.asarray([warp for warp in warps.tolist() if products.is_open(self.left, warp)], np.int64)
        if not ready.size:
            return np.zeros_like(mask)
        _end(lanes, products.wait(self.left, ready.tolist()), self.instruction)
        through = _threads(lanes, ready)
        _learn(lanes, ready)
        return through

    def changes(self, lanes: Lanes, blocks: Array) -> None:
        """Nothing that is counted."""

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """No warp goes on before its products have ended."""
        return False

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that another warp of the warpgroup never starts its part of a product."""
        warp = int(np.flatnonzero(taking_part(lanes, mask).any(axis=1))[0])
        late = lanes.team.products.late(self.left, warp)
        text = f"waits forever for products that warp {late // lanes.shape[1]} of its warpgroup never starts"
        return Stop("deadlock", text, self.instruction, _lane(lanes, warp))


def read_product_wait(reader: InstructionReader) -> ProductWait:
    """Reads wgmma.wait_group. Raises UnsupportedInstruction for other forms."""
    reader.choice("wait_group")
    if not reader.leads("sync") or not reader.leads("aligned"):
        reader.fail("only .sync.aligned")
    (left,) = reader.operands(1)
    if not isinstance(left, Immediate) or left.width is not None or left.bits > _MOST_GROUPS:
        reader.fail(f"a count that is no constant from 0 to {_MOST_GROUPS}")
    return ProductWait(left.bits, reader.instruction)


def _end(lanes: Lanes, landed: Iterable[tuple[tuple[int, ...], Array]], instruction: Instruction) -> None:
    """Puts into the registers what accumulators hold, in the warps where no product writes them any more."""
    products = lanes.team.products
    for slots, warps in landed:
        for unknown in {id(one): one for one in map(lanes.poison.get, slots)}.values():
            bits = by_warp(lanes, np.zeros((), np.uint32) if unknown is None else unknown)[warps]
            touched = (bits != np.uint32(0xFFFFFFFF)).any(axis=1)
            if has_any(touched):
                warp = int(warps[int(touched.argmax())])
                text = "a register of an accumulator was written while a product that this waits for writes it, too"
                raise Stop("wgmma", text, instruction, _lane(lanes, warp))
        rows, mask = products.rows(slots), _threads(lanes, warps)
        lost = _lost(lanes, rows[:, 0], warps)
        merged = None if products.core is None else _merged(products.core, lanes, slots, rows, mask)
        held = products.held[rows[:, 0]] if merged is None else merged
        for slot, bits, some in zip(
            slots, by_thread_of_several(lanes, held) if merged is None else held, lost, strict=True
        ):
            if merged is None:
                lanes.put(slot, bits, mask, some)
            else:
                lanes.put_merged(slot, bits, mask, some)
        products.seen[rows, warps] = products.held[rows, warps]


def _lost(lanes: Lanes, rows: Array, warps: Array) -> Sequence[Array | None]:
    """The poison that accumulators in some rows have in warps: None for none."""
    unknown = lanes.team.products.unknown
    if unknown is None or not has_any(unknown[rows[:, None], warps]):
        return [None] * len(rows)
    made: dict[bytes, Array | None] = {}  # what is lost is so in many rows alike
    for one in (some := unknown[rows]):
        if (key := one.tobytes()) not in made:
            made[key] = poison_whole(by_thread(lanes, one), 32) if has_any(one[warps]) else None
    return [made[one.tobytes()] for one in some]


def _merged(core: Core, lanes: Lanes, slots: Sequence[int], rows: Array, mask: Array) -> Array | None:
    """The contents of registers, shape (slots, threads, blocks), after the core puts accumulators into them in the
    lanes of a mask. None where a register was never written, or is not of 32 bits.
    """
    bits, products = lanes.bits, lanes.team.products
    if any(bits[slot] is None and lanes.wide[slot] is None for slot in slots):
        return None
    arrays = [np.asarray(lanes.get(slot)) for slot in slots]
    if any(array.itemsize != products.held.itemsize for array in arrays):
        return None
    made = np.empty((len(slots), *lanes.shape), np.uint32)
    given = np.array((*lanes.shape, len(slots), products.count), np.int64)
    core.accesses["land_accumulators"]((products.held, rows, mask, made, *arrays), given.ctypes.data)
    return made


def _learn(lanes: Lanes, warps: Array) -> None:
    """Lets the lanes of warps know that the products of their warpgroups which have ended so far are in the past."""
    clocks = lanes.team.clocks
    now = clocks.tick()
    agents = np.asarray([_agent(lanes, warp) for warp in warps.tolist()])
    for agent in np.unique(agents).tolist():
        clocks.learn_of(_threads(lanes, warps[agents == agent]), agent, now)


def _agent(lanes: Lanes, warp: int) -> int:
    """The number of the agent that reads for the products of a warp's warpgroup."""
    number, block = divmod(warp, lanes.shape[1])
    return lanes.team.product_agent(number // WARPS) + block % lanes.team.size


def _threads(lanes: Lanes, warps: Array) -> Array:
    """The mask of the threads of some warps."""
    key = f"threads of {warps.tobytes().hex()}"
    found = lanes.kept.get(key)
    if found is None:
        rows = np.zeros((lanes.team.products.count, 1), np.bool_)
        rows[warps] = True
        found = lanes.kept[key] = by_thread(lanes, rows)
    assert isinstance(found, np.ndarray)
    return lanes.known(found)


def _multiply(form: ProductForm, lanes: Lanes, mask: Mask) -> None:
    """Starts the products of warps. Raises Stop for a fault."""
    instruction, products = form.instruction, lanes.team.products
    warps = whole_warps(lanes, mask, instruction)
    for slot in form.origins:
        lanes.get(slot)
        lanes.refuse_register(slot, mask, "an operand of wgmma", instruction)
    by_core = core_products(lanes, _agent)
    if by_core is not None and by_core.start(form, lanes, mask, warps, partial(_reads, form, lanes, warps)):
        return
    resting, now = _check_fenced(form, lanes, warps)
    found = [_of_warp(lanes, get, warps, instruction) for get in (form.a, form.b, form.keeps)]
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    reads = _reads(form, lanes, warps, found[:2])
    raw, unknown = reads.elements(log, lanes.shared, instruction), None
    if raw is None and (written := reads.written(lanes.shared)) is not None:
        raw = written.elements(log, lanes.shared, instruction)
        if raw is not None:
            reads, unknown = written.reads, written.lost
    if raw is None:
        unknown = _check_reads(form, lanes, warps, _all_places(form, lanes, warps, found[:2]))
        raw = reads.begun(log, lanes.shared, instruction)
    agents = [_agent(lanes, warp) for warp in warps.tolist()]
    products.begin(warps, form.slots, partial(log.products.end, instruction, reads, agents, None))
    addition = Addition(warps, found[2] != 0, resting, now)
    _check_accumulators(form, lanes, addition, unknown)
    add_products(form, products, reads, raw, addition)
    if now is not None:
        lanes.lose([form.slots[i] for i in np.flatnonzero(resting.any(axis=1)).tolist()], _threads(lanes, warps))


def _reads(form: ProductForm, lanes: Lanes, warps: Array, descriptors: Sequence[Array]) -> ProductReads:
    """The reads of warps whose matrices A and B have these descriptors. Raises Stop as `_places` does."""
    shape, find = (form.columns, form.depth, form.transposed), partial(_all_places, form, lanes, warps, descriptors)
    return product_reads(lanes, warps, (shape, *(bits.tobytes() for bits in descriptors)), find, form.itemsize)


def _all_places(form: ProductForm, lanes: Lanes, warps: Array, descriptors: Sequence[Array]) -> list[list[Places]]:
    """Where each warp's part of A lies, and each one's B. Raises Stop as `_places` does."""
    sizes = WARPS * _ROWS, form.columns
    return [_places(form, lanes, warps, descriptors[side], side, sizes[side]) for side in range(2)]


def _places(form: ProductForm, lanes: Lanes, warps: Array, descriptors: Array, side: int, size: int) -> list[Places]:
    """Where each warp's part of A lies (side 0), or all of B (side 1). Raises Stop for a descriptor with an offset."""
    found = []
    for warp, bits in zip(warps.tolist(), descriptors.tolist(), strict=True):
        first = _ROWS * (warp // lanes.shape[1] % WARPS)
        rows = (None, None) if side else (first, first + _ROWS)
        places = places_told(bits, size, form.depth, form.itemsize, form.transposed[side], *rows)
        if isinstance(places, int):
            text = f"a matrix descriptor with a base offset of {places}, which is not emulated"
            raise Stop("wgmma", text, form.instruction, _lane(lanes, warp))
        found.append(places)
    return found


def _of_warp(lanes: Lanes, get: Getter, warps: Array, instruction: Instruction) -> Array:
    """The value of an operand in each of the warps. Raises Stop unless all lanes of a warp have the same."""
    given = np.asarray(get(lanes))
    if given.size == 1:
        return np.full(len(warps), given.reshape(-1)[0])
    threads, blocks = lanes.shape
    if given.shape[0] == threads and given.ndim == 2 and not threads % WARP:
        of_warps = given.reshape(-1, WARP, given.shape[1])
        first = of_warps[:, 0]
        if (of_warps == first[:, None]).all():  # in all warps, as is the rule
            return np.asarray(spread(first, (len(first), blocks)).reshape(-1)[warps])
    values = by_warp(lanes, given)[warps]
    differing = (values != values[:, :1]).any(axis=1)
    if has_any(differing):
        warp = int(warps[int(differing.argmax())])
        raise Stop("wgmma", "the lanes of a warp give different operands", instruction, _lane(lanes, warp))
    return np.asarray(values[:, 0])


def _check_fenced(form: ProductForm, lanes: Lanes, warps: Array) -> tuple[Array, Array | None]:
    """In which warps no product in flight writes each of the accumulators, shape (slots, warps), and what the registers
    hold where there are such, shape (slots, warps, 32), or None where there are none.

    Raises Stop unless what these hold has been there since the warp's last fence, or is zero.
    """
    products, instruction = lanes.team.products, form.instruction
    if not products.fenced[warps].all():
        warp = int(warps[int(products.fenced[warps].argmin())])
        raise Stop("wgmma", "no wgmma.fence comes before the warp's first product", instruction, _lane(lanes, warp))
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
        raise Stop("wgmma", text, instruction, _lane(lanes, warp))
    return resting, now


def _check_reads(form: ProductForm, lanes: Lanes, warps: Array, places: Sequence[Sequence[Places]]) -> Array | None:
    """Raises Stop for the first fault of what warps read, looked for in one matrix after the other.

    Returns which products are made of what was never written, as `by_lane` has them; None where there is none.
    """
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    unknown = np.zeros((len(warps), _ROWS, form.columns), np.bool_)
    for number, (warp, *matrices) in enumerate(zip(warps.tolist(), *places, strict=True)):
        lane = _lane(lanes, warp)
        for side, one in enumerate(matrices):
            lost = _unwritten(form, lanes, one, lane)
            if lost is not None:
                unknown[number] |= lost[None, :] if side else lost[:, None]
            rows = one.rows(lanes.shared.unit)
            each = len(rows) // len(one.pieces)
            log.check_gather(
                form.instruction, log.gathered(rows, lane[1], lane[0] + np.arange(len(rows)) // each % WARP)
            )
    return by_lane(unknown) if has_any(unknown) else None


def _unwritten(form: ProductForm, lanes: Lanes, places: Places, lane: tuple[int, int]) -> Array | None:
    """Which rows of a matrix in the shared memory of a lane's block have an element that was never written; None where
    there is none. Raises Stop for places that hold no data.
    """
    memory, low, high, instruction = lanes.shared, places.low, places.high, form.instruction
    if low < 0 or high > memory.size:
        text = f"wgmma reads shared memory at bytes {low} to {high - 1}; the block has {memory.size} bytes"
        raise Stop("out-of-bounds", text, instruction, lane, address=low)
    rows = places.rows(memory.unit)
    flags = memory.flags[rows, lane[1]]
    if not has_any(flags):
        return None
    taboo = (flags & TABOO) != 0
    if has_any(taboo):
        byte = int(rows[int(taboo.argmax())]) * memory.unit
        text = f"wgmma reads byte {byte} of shared memory, where no data lie that it may read"
        raise Stop("out-of-bounds", text, instruction, lane, address=byte)
    return lost_rows(flags != 0, places.where, form.itemsize, memory.unit)


def _check_accumulators(form: ProductForm, lanes: Lanes, addition: Addition, unknown: Array | None) -> None:
    """Raises Stop for an accumulator that is added to, and was never written, and notes which mean nothing from now on.

    Those products that are `unknown`, as `by_lane` has them, mean nothing.
    """
    products, warps, keeps, resting = lanes.team.products, addition.warps, addition.keeps, addition.resting
    lost, kept = products.unknown, keeps[:, None]
    if addition.now is not None and (lost is not None or has_any(keeps & resting)):
        rows, poisoned = products.rows(form.slots), _poisoned(lanes, form.slots, warps)
        bad = keeps & resting & (poisoned if lost is None else poisoned & ~lost[rows, warps]).any(axis=2)
        if has_any(bad):
            text = "wgmma adds to an accumulator that was never written"
            warp = int(warps[int(bad.argmax()) % len(warps)])
            raise Stop("never-written", text, form.instruction, _lane(lanes, warp))
        kept = kept & (~resting[:, :, None] | poisoned)
    elif unknown is None and keeps.all():
        return  # nothing rests
    if unknown is not None or lost is not None:
        products.lose(form.slots, warps, unknown, kept if lost is not None else None)


def _poisoned(lanes: Lanes, slots: Sequence[int], warps: Array) -> Array:
    """In which lanes of warps registers are poisoned, shape (slots, warps, 32)."""
    found: dict[int, Array] = {}
    of_slots = [lanes.poison.get(slot) for slot in slots]  # many of which are one array
    for poison in of_slots:
        if id(poison) not in found:
            lost = np.zeros((), np.bool_) if poison is None else poisoned_lanes(poison)
            found[id(poison)] = by_warp(lanes, lost)[warps]
    if len(found) == 1:
        (only,) = found.values()
        return np.broadcast_to(only, (len(slots), *only.shape))
    number_of = {key: number for number, key in enumerate(found)}
    numbers = [number_of[id(poison)] for poison in of_slots]
    return np.stack(list(found.values()))[numbers]
