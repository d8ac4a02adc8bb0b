"""Multiply-adds that find all three of their operands in one bank of the register file, and so take a cycle more.

From Volta on there are two banks: the even registers and the odd ones. Three registers of one bank are more than it has
ready for one instruction, even where those before and after read the other one. Not counted are runs that read a bank
more often than once a cycle, two operands at a time: an H200 stalls on those as well (`stall_dispatch` in a profile).

An operand that the instruction before kept (`R4.reuse`, for the same place among the operands) is not read again, nor
is a register that one instruction names twice, a constant, a uniform register or `RZ`.

What is not sure counts as read: only a multiply-add right before keeps anything, none that is predicated, and nothing
is kept across a label, since a branch may come in there. So where the count is 0 there is none. `FFMA2`, which reads
pairs of an even and an odd register, is no `FFMA`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cutegen.compiling.artefact import INSTRUCTION

REGISTER_BANKS = 2
OPCODE = "FFMA"
_REGISTER = re.compile(r"[-~!|]*R(?P<number>\d+)(?P<reuse>\.reuse)?\|?\Z")


@dataclass(frozen=True)
class BankClashes:
    """How many of the `ffma` multiply-adds read three registers of one bank, `clashes`. Each line of the code counts
    once.
    """

    clashes: int
    ffma: int

    def __str__(self) -> str:
        return f"{self.clashes} of {self.ffma} {OPCODE}"


def bank_clashes(sass: str) -> BankClashes:
    """Counts clashes in all functions of what nvdisasm printed."""
    count = clashes = 0
    kept: dict[int, int] = {}  # place among the operands -> register
    for line in sass.splitlines():
        found = INSTRUCTION.match(line)
        if found is None or found["mnemonic"].partition(".")[0] != OPCODE:
            kept = {}
            continue
        written, *sources = (_REGISTER.match(text.strip()) for text in found["operands"].split(","))
        numbers = {place: int(source["number"]) for place, source in enumerate(sources) if source}
        read = {number for place, number in numbers.items() if kept.get(place) != number}
        count += 1
        clashes += any(sum(n % REGISTER_BANKS == bank for n in read) > 2 for bank in range(REGISTER_BANKS))
        kept = {place: numbers[place] for place, source in enumerate(sources) if source and source["reuse"]}
        if "@" in found[0]:
            kept = {}
        elif written:  # what was kept is no more what the register holds
            kept = {place: number for place, number in kept.items() if number != int(written["number"])}
    return BankClashes(clashes, count)
