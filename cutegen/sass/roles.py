"""The parts of a kernel's code that warps have to themselves, once each has set how many registers its threads have.

From sm_90 on warps of one block may divide its registers (`setmaxnreg`): those that load give some away, those that
multiply take them. What comes only after such an instruction is the code of one role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutegen.sass.control_flow import flow_of
from cutegen.sass.instructions import Function, Instruction

_BUDGET = re.compile(r"0x[0-9a-f]+|\b\d+\s*$")
_REGISTER = re.compile(r"(?<![\w.])R(\d+)\b")
_PRODUCT = re.compile(r"\.\d+x(\d+)x\d+\.(F32|F16|S32)")  # of a warpgroup: 64 rows of so many columns
_WIDE = re.compile(r"\.(64|128)(?=\.|$)")
_DATA = ("LDG", "STG", "LDS", "STS", "LDL", "STL")  # whose mnemonics say how wide what they move is
LOADS, MULTIPLIES = "producer", "consumers"


@dataclass(frozen=True)
class Role:
    """The code of warps that have set the registers of their threads to `registers`.

    `used` is the number of the last register that it names, and one: what it needs at least. It names its own only;
    what a warp keeps from before does not count unless it is used.
    """

    name: str
    registers: int
    used: int
    instructions: tuple[Instruction, ...]


def roles(function: Function) -> tuple[Role, ...]:
    """The roles of a kernel, in the order of the code; none where warps do not set their registers."""
    code = function.instructions
    places = [place for place, i in enumerate(code) if i.mnemonic.startswith("USETMAXREG")]
    flow = flow_of(function) if places else None
    if flow is None:
        return ()
    found = []
    for place in places:
        budget = _BUDGET.search(code[place].operands)
        if budget is not None and place in flow.dominator:
            own = tuple(code[p] for p in sorted(flow.order) if flow.passes(p, place))
            name = LOADS if "DEALLOC" in code[place].mnemonic else MULTIPLIES
            found.append(Role(name, int(budget[0], 0), registers_used(own), own))
    return tuple(found)


def registers_used(instructions: Sequence[Instruction]) -> int:
    """How many registers of a thread there are up to the last that the instructions name."""
    return max((last + 1 for i in instructions for last in _last(i)), default=0)


def _last(i: Instruction) -> Iterator[int]:
    """The last register of each operand of an instruction."""
    product, wide = _PRODUCT.search(i.mnemonic), _WIDE.search(i.mnemonic)
    width = 1
    if i.kind == "tensor cores" and product is not None:
        width = int(product[1]) // (4 if product[2] == "F16" else 2)
    elif i.opcode in _DATA and wide is not None:
        width = int(wide[1]) // 32
    plain = re.sub(r"\[[^\]]*\]", "", i.operands)  # without addresses
    yield from (int(n) + width - 1 for n in _REGISTER.findall(plain))
    yield from (int(n) for n in _REGISTER.findall(i.operands))
