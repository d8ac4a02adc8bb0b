"""mbarrier.test_wait and mbarrier.try_wait: whether a phase has ended, and perhaps a wait for that.

The first try at an instruction answers at once. A lane whose try has failed waits at its next one, until the phase has
ended or nothing else can happen; so a loop around it takes few rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import first_lane, spread
from cutegen.emulator.operations.mbarrier_operations import SharedOperand, read_mbarrier
from cutegen.emulator.operations.operands import Getter, Places, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction, Register
from cutegen.emulator.ptx.types import TYPES


@dataclass(frozen=True)
class PhaseWait:
    """A try. `wanted`, in the slot `slot` if it is in a register, is the phase's parity, or with no `parity` its
    number.

    `target` is the slot of the predicate that says whether the phase has ended. A `relaxed` try orders no memory.
    """

    where: SharedOperand
    wanted: Getter
    slot: int
    target: int
    parity: bool
    relaxed: bool
    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes that go on at once: all but those that have failed before. Raises Stop for a fault."""
        done, failed = self._test(lanes, mask), lanes.team.failed
        before = failed.get(id(self))
        missed = mask & ~done
        failed[id(self)] = missed if before is None else (before & ~mask) | missed
        if before is None or not has_any(again := missed & before):
            lanes.put(self.target, done, mask)
            return mask
        lanes.put(self.target, done, mask & ~again)
        return np.asarray(mask & ~again)

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes whose phase has ended. Raises Stop for a fault."""
        done = self._test(lanes, mask)
        if has_any(done):
            lanes.put(self.target, done, done)
            lanes.team.failed[id(self)] &= ~done
        return done

    def changes(self, lanes: Lanes, blocks: Array) -> int:
        """A number that grows with each change that lanes of some blocks could find by another look."""
        changes = lanes.team.mbarriers.changes
        return int((changes[blocks] if self.where.space == "shared" else changes).sum())

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """Lets the lanes go on though the phase has not ended, as a try may."""
        lanes.put(self.target, np.zeros((1, 1), np.bool_), mask)
        return True

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that the phase never ends."""
        some = np.zeros_like(mask)
        some[first_lane(mask, lanes.shape)] = True
        uses = self.where.uses(lanes, some)
        wanted = spread(self.wanted(lanes), lanes.shape)[some].astype(np.int64)
        text = lanes.team.mbarriers.describe(uses, wanted, parity=self.parity)
        return Stop(
            "deadlock", f"waits forever for {text}", self.instruction, uses.lane(0), address=int(uses.offsets[0])
        )

    def _test(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes of a mask whose phase has ended. Raises Stop for a fault."""
        found = self._by_core(lanes, mask) if self.parity else None
        if found is not None:
            return found
        wanted = spread(self.wanted(lanes), lanes.shape)[mask].astype(np.int64)
        if self.slot in lanes.poison:
            lanes.refuse(lanes.poison[self.slot], mask, "which phase to wait for", self.instruction)
        uses = self.where.uses(lanes, mask)
        if self.parity and has_any(neither := wanted >> 1 != 0):
            at = int(neither.argmax())
            text = f"waits for a phase of parity {wanted[at]}: a parity is 0 or 1"
            raise Stop("mbarrier", text, self.instruction, uses.lane(at), address=int(uses.offsets[at]))
        found = np.zeros(lanes.shape, np.bool_)
        found[mask] = lanes.team.mbarriers.test(uses, wanted, parity=self.parity, relaxed=self.relaxed)
        return found

    def _by_core(self, lanes: Lanes, mask: Array) -> Array | None:
        """The same where the core finds that all is in order, else None."""
        mbarriers, wanted = lanes.team.mbarriers, self.wanted(lanes)
        if mbarriers.table is None or not lanes.clean((self.slot,), mask):
            return None
        looked = self.where.looked(lanes, mask, wanted)
        found = None if looked is None else mbarriers.table.learners(looked)
        if found is None:
            return None
        self.where.note_look(lanes, mask)
        mbarriers.see_found(found[1], relaxed=self.relaxed)
        return found[0]


def read_phase_wait(reader: InstructionReader, slots: Mapping[str, int], places: Places) -> PhaseWait:
    """The try that mbarrier.test_wait or mbarrier.try_wait makes. Raises UnsupportedInstruction for other forms."""
    reader.type("b64")
    tries = reader.choice("test_wait", "try_wait") == "try_wait"
    parity = reader.flag("parity")
    relaxed = reader.choice("acquire", "relaxed", default="") == "relaxed"
    reader.choice("cta", "cluster", default="")
    space = reader.choice("shared", "shared::cta", default="")
    target, operand, given, *hint = reader.operands(*((3, 4) if tries else (3,)))
    if hint:
        reader.source(hint[0], TYPES["u32"])  # how long a try may wait, in nanoseconds
    kind = TYPES["u32" if parity else "b64"]
    source = reader.source(given, kind)
    slot = slots[source.name] if isinstance(source, Register) else -1
    return PhaseWait(
        read_mbarrier(reader, operand, space, slots, places),
        getter(source, kind.width, slots, {}, reader.instruction),
        slot,
        slots[reader.target(target, TYPES["pred"]).name],
        parity,
        relaxed,
        reader.instruction,
    )
