"""Differences between two orders of one launch: the first tensor that differs, and two accesses that changed places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cutegen.emulator.arithmetic.arrays import has_any
from cutegen.emulator.checks.faults import Fault, Kind, Note, triple
from cutegen.emulator.checks.journal import Journal, Touch, swapped
from cutegen.emulator.checks.places import place_of
from cutegen.emulator.machine.machine import Machine
from cutegen.emulator.memory.arenas import Arena, GlobalMemory
from cutegen.emulator.ptx.model import Kernel

Again = Callable[[int, Journal], Machine]
"""Runs the launch again in the order of a seed, and notes what is touched."""


def differences(first: GlobalMemory, second: GlobalMemory, kernel: str) -> list[Fault]:
    """A fault for the first tensor that two orders of the same launch leave different; none if there is no such."""
    for one, other in zip(first.arenas, second.arenas, strict=True):
        different = one.bytes != other.bytes
        if has_any(different):
            text = f"{one.name} differs between this order of blocks and warps and the first"
            return [in_tensor("order-dependent", text, kernel, one, one.start + int(different.argmax()))]
    return []


def in_tensor(kind: Kind, text: str, kernel: str, arena: Arena, address: int) -> Fault:
    """A fault at an address in a tensor."""
    return Fault(kind, text, kernel, address=address, tensor=arena.name, element=arena.element(address))


def with_accesses(fault: Fault, again: Again, seeds: tuple[int, int], kernel: Kernel, file: str | None) -> Fault:
    """A fault that two orders differ, with the first two accesses that changed places between them.

    The fault as it is where none are found: what bulk copies and products touch is not noted.
    """
    journals = Journal(), Journal()
    machine = [again(seed, journal) for seed, journal in zip(seeds, journals, strict=True)][0]
    found = swapped(*journals)
    if found is None:
        return fault

    def said(touch: Touch, text: str) -> Note:
        block, thread = machine.numbered(touch.lane)
        instruction = next(i for i in kernel.instructions if i.line == touch.line)
        verb = "writes" if touch.writes else "reads"
        who = f"block {triple(block)}, thread {triple(thread)} {verb} here: {text}"
        return Note(who, place_of(instruction, kernel.instructions, file))

    one, other = (f"the order of seed {seed}" for seed in seeds)
    notes = (
        said(found.first, f"before the other one in {one}, after it in {other}"),
        said(found.second, f"after the other one in {one}, before it in {other}"),
    )
    block, thread = machine.numbered(found.second.lane)
    at = notes[1].place
    assert at is not None
    return replace(
        fault,
        explanation=f"{fault.explanation}: two accesses to one place change places, and nothing orders them",
        block=block,
        thread=thread,
        line=at.line,
        text=at.text,
        source_file=at.source_file,
        source_line=at.source_line,
        source_text=at.source_text,
        near=at.near,
        notes=(*fault.notes, *notes),
    )
