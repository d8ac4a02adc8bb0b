"""st.async: stores to shared memory of the cluster whose bytes an mbarrier beside them counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, spread
from cutegen.emulator.operations.deliveries import Write, send_writes
from cutegen.emulator.operations.mbarrier_operations import read_mbarrier
from cutegen.emulator.operations.operands import Note, Operation, Places, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Immediate, Instruction, Register, Vector
from cutegen.emulator.synchronisation.mbarrier import Arrival, Seen
from cutegen.emulator.synchronisation.mbarrier_uses import Uses


def async_store_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of st.async of values of 32 or 64 bits. Raises UnsupportedInstruction for other forms.

    What the thread has done before is not released with it: only the values themselves are.
    """
    reader = InstructionReader(instruction)
    reader.leads("async")
    kind = reader.type("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
    reader.flag("weak")
    space = reader.choice("shared::cluster", default="")
    reader.choice("mbarrier::complete_tx::bytes")
    count = int(reader.choice("v2", "v4", default="v1")[1:])
    if kind.width * count > 128:
        reader.fail(f"{count} values of {kind.width} bits at once")
    target, source, mbarrier = reader.operands(3)
    items = source.items if isinstance(source, Vector) else (source,)
    if len(items) != count or not all(isinstance(item, Register | Immediate) for item in items):
        reader.fail(f"{count} registers were expected")
    given = [reader.source(item, kind) for item in items]
    sources = [getter(item, kind.width, slots, {}, instruction) for item in given]
    origins = [slots[i.name] if isinstance(i, Register) else -1 for i in given]
    size = kind.width // 8
    to = replace(
        read_mbarrier(reader, target, space, slots, places), size=size * count, counted=True, align=size * count
    )
    counter = replace(read_mbarrier(reader, mbarrier, space, slots, places), counted=True)
    note("shared", size)

    def store(lanes: Lanes, mask: Mask) -> None:
        uses = counter.uses(lanes, mask)
        access = to.access(lanes, mask)[0]
        check_same_block(lanes, access, uses)
        lanes.shared.check_free(access, "writes")
        start_writes(lanes, access, uses, size * count)
        values = [get(lanes) for get in sources]
        poison = [lanes.poison.get(origin) for origin in origins]
        lanes.shared.put(access, size, values, poison)

    return store


def check_same_block(lanes: Lanes, access: SharedAccess, uses: Uses) -> None:
    """Raises Stop unless the mbarriers that are used lie in the blocks whose memory the access is."""
    if len(uses.blocks) == 1 and access.columns is None and uses.lane(0)[1] == uses.blocks[0]:
        return
    columns = access.columns
    if columns is not None and columns.size == len(uses.blocks) == 1 and columns.reshape(-1)[0] == uses.blocks[0]:
        return
    own = np.arange(lanes.shape[1])[None, :]
    blocks = spread(own if access.columns is None else access.columns, lanes.shape)[uses.lanes]
    if has_any(bad := blocks != uses.blocks):
        at, size = int(bad.argmax()), lanes.team.size
        text = (
            f"writes shared memory of the block of rank {blocks[at] % size} in the cluster, and its mbarrier lies in "
            f"that of rank {uses.blocks[at] % size}: both must be in one block"
        )
        raise Stop("cluster", text, uses.instruction, uses.lane(at))


def start_writes(
    lanes: Lanes,
    access: SharedAccess,
    uses: Uses,
    size: int,
    seen: Seen | None = None,
    agents: Array | None = None,
) -> None:
    """Starts writes of `size` bytes by each lane of an access, which mbarriers count; they arrive now or later.

    `seen`, if given, gets the first lane that knows that they have. `agents` has the agent of each block's mbarrier,
    where all of that was looked at; otherwise this raises Stop for an mbarrier that is not there, and for what is not
    ordered before the writes.
    """
    team, log = lanes.team, lanes.shared.log
    assert isinstance(log, SharedHistory)
    for offset in dict.fromkeys(uses.offsets.tolist()):
        chosen = uses.offsets == offset
        some, here = uses, access
        if not chosen.all():
            part = np.zeros(lanes.shape, np.bool_)
            part[uses.lanes] = chosen
            some = Uses(part, uses.offsets[chosen], uses.blocks[chosen], uses.instruction)
            here = replace(access, mask=part)
        log.start(team.mbarriers.agents(some) if agents is None else agents, here, agents is not None)
        writes = []
        for block in {*some.blocks.tolist()}:
            entries = np.flatnonzero(some.blocks == block)
            writes.append(Write(here, some, entries, Arrival(block, offset, size * len(entries), seen)))
        send_writes(lanes, writes)
