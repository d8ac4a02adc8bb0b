"""Instructions that differ in the names of their registers only are read once."""

from __future__ import annotations

import pytest
from semantics_kit import instruction

from cutegen.emulator.instructions.forms import Forms
from cutegen.emulator.instructions.opcodes import compile_pure
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.ptx.errors import UnsupportedInstruction
from cutegen.emulator.ptx.model import Instruction


def _read(text: str) -> PureOp:
    op = compile_pure(instruction(text))
    assert op is not None
    return op


def _names(text: str) -> tuple[list[str], list[str]]:
    op = _read(text)
    return [d.name for d in op.destinations], [getattr(s, "name", str(s)) for s in op.sources]


def test_each_form_is_read_once() -> None:
    read: list[Instruction] = []

    def build(one: Instruction) -> PureOp:
        read.append(one)
        op = compile_pure(one)
        assert op is not None
        return op

    forms = Forms(build)
    ops = [forms.semantics(instruction(f"add.s32 {operands}")) for operands in ("%r1, %r2, %r3", "%r4, %r5, %r6")]
    assert len(read) == 1
    assert ops[0].kept is ops[1].kept
    for other in ("add.s32 %r1, %r2, %r2", "add.s32 %r1, %r2, 7", "add.s32 %r1, %r2, 8", "add.u32 %r1, %r2, %r3"):
        assert forms.semantics(instruction(other)).kept is not ops[0].kept
    assert len(read) == 5


def test_an_instruction_has_its_own_registers() -> None:
    for one, two, three in (("%r1", "%r2", "%r3"), ("%r3", "%r1", "%r2"), ("%r1", "%r1", "%r2"), ("%r2", "%r2", "%r2")):
        assert _names(f"sub.s32 {one}, {two}, {three}") == ([one], [two, three])
    for high, low in (("%r1", "%r2"), ("%r2", "%r1"), ("%r2", "%r2")):
        assert _names(f"mov.b64 %rd1, {{{low}, {high}}}") == (["%rd1"], [low, high])
    for result, source in (("%p1", "%p2"), ("%p2", "%p1")):
        assert _names(f"setp.lt.and.s32 {result}, %r3, %r1, !{source}") == ([result], ["%r3", "%r1", source])
    assert _names("mov.b64 {%r3, _}, %rd1") == (["%r3", "_"], ["%rd1"])


def test_what_is_refused_tells_of_the_instruction_each_time() -> None:
    for register in ("%rd2", "%rd3"):
        with pytest.raises(UnsupportedInstruction, match=f"{register} has 64 bits.*{register}"):
            compile_pure(instruction(f"add.s32 %r1, {register}, %r3"))
