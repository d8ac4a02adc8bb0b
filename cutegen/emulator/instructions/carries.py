"""Integer sums and products in several words: add, sub and mad with `.cc`, addc, subc and madc (PTX ISA 9.1, 9.7.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.instructions.integers import multiply_high
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.ptx.types import TYPES


def build_carried(reader: InstructionReader) -> PureOp:
    """Builds an instruction that carries. `.cc` has a second result, the carry or borrow, 0 or 1; those whose name ends
    with `c` have it as their last argument.
    """
    opcode = reader.instruction.opcode
    kind = reader.type("u32", "s32", "u64", "s64")
    writes, reads, multiplies = reader.flag("cc"), opcode.endswith("c"), opcode.startswith("mad")
    part = reader.choice("lo", "hi") if multiplies else ""
    bits = np.dtype(f"u{kind.width // 8}").type
    borrows = opcode.startswith("sub")

    def combine(*values: Array) -> Any:
        terms = [np.asarray(x) for x in values]
        carry = terms.pop().astype(bits) if reads else bits(0)
        if multiplies:
            a, b, c = terms
            product = np.multiply(a, b) if part == "lo" else multiply_high(a, b, kind)
            terms = [np.asarray(product), c]
        x, y = (x.view(bits) for x in terms)
        if borrows:
            between = x - y
            result, out = between - carry, (x < y) | (between < carry)
        else:
            between = x + y
            result = between + carry
            out = (between < x) | (result < between)
        value = np.asarray(result).view(kind.dtype)
        return (value, np.asarray(out).astype(np.uint32)) if writes else value

    word = TYPES["u32"]
    arguments = [kind] * (3 if multiplies else 2) + [word] * reads
    return reader.operation(combine, [kind, *[word] * writes], arguments)
