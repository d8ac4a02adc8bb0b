"""The parser: what PTX text says, in whatever shape it is written."""

from __future__ import annotations

import re

import pytest
from semantics_kit import HEADER, instruction, module

from cutegen.emulator.ptx.errors import PtxSyntaxError, UnsupportedInstruction
from cutegen.emulator.ptx.lexer import Tokens
from cutegen.emulator.ptx.model import Address, Guard, Immediate, Label, Register, Special, Symbol, Vector
from cutegen.emulator.ptx.parser import parse

TEXT = """//
// Made by hand
//
.version 8.7
.target sm_90a, debug
.address_size 64

\t// .globl\tadd
.extern .shared .align 1024 .b8 dynamic[];
.visible .global .align 4 .b8 table[8] = {1, 2, 0xFF, -1};
.const .f32 numbers[2] = {0f3F800000, 2.5};
.global .u16 grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
.extern .func (.param .b32 result) printer (.param .b64 text);

.visible .entry add(
\t.param .align 8 .b8 add_param_0[24],
\t.param .u32 add_param_1,
\t.param .u8 add_param_2,
\t.param .u64 .ptr .global .align 16 add_param_3,
\t.param .align 64 .b8 add_param_4[128]
)
.reqntid 256, 2, 1
.minnctapersm 1
{
\t.reg .pred \t%p<3>;
\t.reg .b16 \t%rs<2>, %h;
\t.reg .f32 \t%f<4>;
\t.reg .b64 \t%rd<5>;
\t.shared .align 16 .b8 stage[4096];
\t.loc\t1 12 5
\tld.param.u64 \t%rd1, [add_param_0+8];
\t.loc\t2 99 0
\tmov.u64 %rd2, stage;   /* a
\tcomment of two lines */
\t.loc\t2 7 3, function_name $L__info0, inlined_at 1 14 9
@!%p1\tbra \t$L__BB0_2;
$L__BB0_1: st.shared.v2.f32
\t\t[%rd2+-16],
\t\t{%f1, 0f40000000};
\t.pragma "nounroll";
\tsetp.lt.and.f32 %p1|%p2, %f1, %f2, !%p0;
$L__BB0_2:
\tmov.u32 %f3, %tid.x;
\tshfl.sync.idx.b32 %f1|_, %f2, -2, 0x1f, -1;
\tmov.u64 %rd3, table+4; ld.global.u8 %rs1, [table]; ld.f32 %f1, [numbers+4]; ld.u32 %f1, [16];
\tret;
}
\t.file\t1 "/somewhere/kernel.py"
\t.file\t2 "/library/other.py", 1234, 5678
\t.section\t.debug_str
\t{
$L__info0:
\t.b8 97,0
\t}
"""


def test_module_kernel_and_variables() -> None:
    found = parse(TEXT)
    assert (found.version, found.target) == ("8.7", "sm_90a")
    kernel = found.kernel()
    assert kernel is found.kernel("add") and kernel.required_threads == (256, 2, 1)
    table = {v.name: v for v in found.variables}
    assert table["dynamic"].dynamic and (table["dynamic"].align, table["dynamic"].size) == (1024, 0)
    assert table["table"].data == bytes([1, 2, 0xFF, 0xFF, 0, 0, 0, 0]) and table["table"].space == "global"
    assert table["numbers"].data == bytes.fromhex("0000803f00002040") and table["numbers"].space == "const"
    assert table["grid"].data == bytes([1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0])
    (stage,) = kernel.variables
    assert (stage.name, stage.space, stage.size, stage.align, stage.dynamic) == ("stage", "shared", 4096, 16, False)
    with pytest.raises(KeyError, match="add"):
        found.kernel("sub")


def test_parameters_are_packed_by_alignment() -> None:
    places = [(p.name[-1], p.offset, p.size, p.align) for p in parse(TEXT).kernel().parameters]
    assert places == [("0", 0, 24, 8), ("1", 24, 4, 4), ("2", 28, 1, 1), ("3", 32, 8, 8), ("4", 64, 128, 64)]


def test_registers() -> None:
    registers = parse(TEXT).kernel().registers
    assert registers == {
        **{f"%p{i}": 1 for i in range(3)},
        **{"%rs0": 16, "%rs1": 16, "%h": 16},
        **{f"%f{i}": 32 for i in range(4)},
        **{f"%rd{i}": 64 for i in range(5)},
    }


def test_instructions_and_operands() -> None:
    kernel = parse(TEXT).kernel()
    load, move, branch, store, compare, tid, shuffle, table, byte, number, absolute, end = kernel.instructions
    assert (load.opcode, load.modifiers, load.name) == ("ld", ("param", "u64"), "ld.param.u64")
    assert load.operands == (Register("%rd1", 64), Address(Symbol("add_param_0"), 8))
    assert move.operands == (Register("%rd2", 64), Symbol("stage"))
    assert branch.guard == Guard(Register("%p1", 1), True) and branch.operands == (Label("$L__BB0_2"),)
    assert store.modifiers == ("shared", "v2", "f32")
    assert store.operands == (
        Address(Register("%rd2", 64), -16),
        Vector((Register("%f1", 32), Immediate(0x40000000, 32))),
    )
    assert compare.operands[:2] == (Register("%p1", 1), Register("%p2", 1))
    assert compare.operands[-1] == Guard(Register("%p0", 1), True)
    assert tid.operands[1] == Special("%tid.x")
    minus_two, clamp, members = shuffle.operands[3:]
    assert shuffle.operands[1] == Register("_", 0)
    assert (minus_two, clamp) == (Immediate(2**64 - 2, None), Immediate(31, None)) and members.bits == 2**64 - 1
    assert table.operands[1] == Symbol("table", 4)
    assert byte.operands[1] == Address(Symbol("table"), 0)
    assert number.operands[1] == Address(Symbol("numbers"), 4)
    assert absolute.operands[1] == Address(Immediate(16, None), 0)
    assert end.opcode == "ret" and end.operands == ()
    assert kernel.labels == {"$L__BB0_1": 3, "$L__BB0_2": 5}


def test_lines_and_source_lines() -> None:
    lines = TEXT.split("\n")
    module = parse(TEXT)
    kernel = module.kernel()
    for found in kernel.instructions:
        # A statement begins on its line, and the text is that line.
        assert lines[found.line - 1].strip() == found.text
    load, move, branch, store, *_ = kernel.instructions
    assert "ld.param" in load.text and "$L__BB0_1" in store.text
    # Lines of another file are none of the module's; an inlined place counts as its caller's.
    assert [i.source_line for i in (load, move, branch, store)] == [12, None, 14, 14]
    assert [i.elsewhere for i in (load, move, branch, store)] == [None, ("/library/other.py", 99), None, None]
    assert module.source == "/somewhere/kernel.py"


def test_numbers() -> None:
    cases = {
        "0x1F": (31, None),
        "0x7770U": (0x7770, None),
        "0b101": (5, None),
        "017": (15, None),
        "-5": (2**64 - 5, None),
        "4294967295U": (2**32 - 1, None),
        "0fBF800000": (0xBF800000, 32),
        "0d3FF0000000000000": (0x3FF0000000000000, 64),
        "1.0": (0x3FF0000000000000, 64),
        "-1.0": (0xBFF0000000000000, 64),
        "WARP_SZ": (32, None),
    }
    for text, (bits, width) in cases.items():
        assert instruction(f"mov.b64 %rd1, {text}").operands[1] == Immediate(bits, width), text


def test_vectors_of_registers() -> None:
    """Whole and element by element, in scope after scope; with too many bits they are no vectors."""
    text = "{\n.reg .v4 .s32 abcd;\nmov.s32 abcd.x, 1;\nmov.s32 abcd.a, 2;\nst.global.v4.b32 [%rd1], abcd;\n}\n"
    kernel = module(text + text).kernel()
    for one, other, store in (kernel.instructions[i : i + 3] for i in (0, 3)):
        vector = store.operands[1]
        assert isinstance(vector, Vector) and len({*vector.items}) == 4
        assert (one.operands[0], other.operands[0]) == (vector.items[0], vector.items[3])
        assert all(isinstance(item, Register) and item.width == 32 for item in vector.items)
    assert kernel.instructions[2].operands != kernel.instructions[5].operands
    for bad in (".reg .v4 .b64 v;", ".reg .v2 .pred v;", ".reg .v2 .b32 v; .reg .v2 .b32 v;"):
        with pytest.raises(PtxSyntaxError):
            module(bad)


def test_scopes_have_their_own_registers_and_labels() -> None:
    block = """
    {
    .reg .pred done;
    .reg .b32 %r1;
    WAIT:
    setp.eq.b32 done, %r1, 0;
    @done bra DONE;
    bra.uni WAIT;
    DONE:
    }
    """
    kernel = module("mov.b32 %r1, 0;" + block + block + "mov.b32 %r1, 1;").kernel()
    first, second = kernel.instructions[1:4], kernel.instructions[4:7]
    names = [part[0].operands[0].name for part in (first, second)]
    assert len({*names}) == 2 and all(kernel.registers[n] == 1 for n in names)
    inner = [part[0].operands[1] for part in (first, second)]
    outer = kernel.instructions[0].operands[0]
    assert kernel.instructions[-2].operands[0] == outer
    assert len({outer.name, *(r.name for r in inner)}) == 3
    # Each block's branches stay inside it.
    for start, part in ((1, first), (4, second)):
        assert kernel.labels[part[1].operands[0].name] == start + 3
        assert kernel.labels[part[2].operands[0].name] == start


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("add.s32 %r1, %r99, 1;", "%r99|not declared"),
        ("bra nowhere;", "no label nowhere"),
        ("L: L: ret;", "L is there twice"),
        ("add.s32 %r1 %r2;", "unexpected"),
        ("add.s32 %r1, \\ %r2, 1;", "unexpected .*\\\\"),
        ("ret; # the end", "unexpected '#'"),
        ("ld.global.b32 %r1, [%tid.x];", "no address"),
        ("@%r1 bra L; L:", "no register of 1 bits"),
        (".reg .b32 %r1;", "declared twice"),
    ],
)
def test_wrong_text_names_its_line(body: str, message: str) -> None:
    try:
        found = module(body)
    except PtxSyntaxError as error:
        assert error.line == HEADER.count("\n") + 1
        assert re.search(message, str(error)), str(error)
    else:
        # Names with a percent sign that nobody declared are special registers; the machine knows those it has.
        assert found.kernel().instructions[0].operands[1] == Special("%r99") and "%r99" in message


def test_text_that_ends_too_early() -> None:
    with pytest.raises(PtxSyntaxError, match="too early"):
        parse(TEXT[: TEXT.index("ret;")])
    with pytest.raises(PtxSyntaxError, match="no .version"):
        parse("")


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "call.uni printer;\n}\n",
        HEADER + ".tex .u64 depot;\n}\n",
        HEADER.replace("k()", "k() .explicitcluster") + "}\n",
        ".version 8.0\n.target sm_80\n.func inner(.reg .b32 x) { ret; }",
        ".version 8.0\n.target sm_80\n.tex .u32 image;",
        ".version 8.0\n.target sm_80\n.global .b64 pointer = other;",
    ],
)
def test_what_is_not_emulated_stops_with_its_line(text: str) -> None:
    with pytest.raises(UnsupportedInstruction) as caught:
        parse(text)
    assert caught.value.text in text and f"line {caught.value.line}" in str(caught.value)


def test_tokens_have_the_lines_at_which_they_begin() -> None:
    text = 'a.b /* one\n two */ %r1,\n\n\t.reg // "three\n"f\\"our" 0f3F800000 1.5 x::y\u00a0-'
    found = [tuple(token) for token in Tokens(text).items]
    assert found == [
        ("word", "a.b", 1),
        ("word", "%r1", 2),
        ("mark", ",", 2),
        ("directive", ".reg", 4),
        ("string", '"f\\"our"', 5),
        ("number", "0f3F800000", 5),
        ("number", "1.5", 5),
        ("word", "x::y", 5),
        ("mark", "-", 5),
        ("mark", "", 5),
    ]
    with pytest.raises(PtxSyntaxError, match=r"line 2: unexpected '#'"):
        Tokens("a\n # \\")
