"""Every operation of the C core gives, bit for bit, what numpy gives: for special values and numbers by chance."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from emulator_kit import native_core
from semantics_kit import module
from sweep_kit import sampled

from cutegen.emulator.lanes import Mask, spread
from cutegen.emulator.machine.native_steps import NativeSteps
from cutegen.emulator.machine.program import Program
from cutegen.emulator.machine.program_builder import build_program
from cutegen.emulator.native.library import Core
from cutegen.emulator.native.segments import Segment
from cutegen.emulator.operations.state import Lanes

SPECIAL = {
    1: [0, 1],
    16: [
        0,
        1,
        2,
        15,
        16,
        17,
        0x7FFF,
        0x8000,
        0xFFFF,
        0x3F80,
        0x7F80,
        0xFF80,
        0x7F81,
        0x7C00,
        0x7C01,
        0xFC00,
        0x3FF,
        0x400,
    ],
    32: [
        *(0, 1, 2, 3, 31, 32, 33, 63, 64, 255, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, 0xFFFF_FFFF, 0xFFFF, 0x1_0000),
        *(0x7F80_0000, 0xFF80_0000, 0x7F80_0001, 0x7FC0_0000, 0xFFC0_1234, 0x7F7F_FFFF, 0xFF7F_FFFF),
        *(0x007F_FFFF, 0x0080_0000, 0x8080_0000, 0x3F80_0000, 0xBF80_0000, 0x3F00_0000, 0x3FC0_0000, 0x4020_0000),
        *(0x7E80_0000, 0x7E80_0001, 0x7F00_0000, 0x3F80_8000, 0x3F81_8000, 0x3F80_8001, 0x3F80_1000, 0x3F80_3000),
        *(0x477F_E000, 0x477F_EFFF, 0x477F_F000, 0x3880_0000, 0x387F_FFFF, 0x3300_0000, 0x3300_0001, 0x3301_0000),
        *(0x4F00_0000, 0xCF00_0000, 0x4EFF_FFFF, 0x4F80_0000, 0x5F00_0000, 0xDF00_0000, 0x5F80_0000, 0x4B00_0001),
        *(0x1F80_0000, 0x2000_0000, 0xA000_0001, 0x0F00_0001, 0x3F7F_FFFF, 0x7F7F_8000),
    ],
    64: [
        *(0, 1, 2, 31, 63, 64, 65, 1 << 31, 1 << 32, (1 << 32) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 63) + 1),
        *((1 << 64) - 1, (1 << 24) + 1, (1 << 53) + 1, (1 << 62) + 1, (1 << 63) + (1 << 39), 0x7FF0 << 48),
        *(0x7FF8 << 48, (0x7FF0 << 48) + 1, 0x3FF0 << 48, 0xBFF0 << 48, 0xFFF0 << 48),
    ],
}
REGISTER = {"p": 1, "rs": 16, "r": 32, "rd": 64}
WORDS = {16: "rs", 32: "r", 64: "rd"}


def _three(width: int) -> str:
    register = WORDS[width]
    return f"%{register}1, %{register}2, %{register}3"


WHOLE = [
    *(f"{op}.{kind}{w} {_three(w)}" for op in ("add", "sub", "min", "max") for kind in "su" for w in (16, 32, 64)),
    *(f"{op}.s{w} %{WORDS[w]}1, %{WORDS[w]}2" for op in ("neg", "abs") for w in (16, 32, 64)),
    *(f"{op}.{part}.{k}{w} {_three(w)}{', %' + WORDS[w] + '4' if op == 'mad' else ''}"
      for op in ("mul", "mad") for part in ("lo", "hi") for k in "su" for w in (16, 32, 64)),
    *(f"mul.wide.{k}{w} %{WORDS[2 * w]}1, %{WORDS[w]}2, %{WORDS[w]}3" for k in "su" for w in (16, 32)),
    *(f"mad.wide.{k}{w} %{WORDS[2 * w]}1, %{WORDS[w]}2, %{WORDS[w]}3, %{WORDS[2 * w]}4"
      for k in "su" for w in (16, 32)),
    *(f"{op}.b{w} {_three(w)}" for op in ("and", "or", "xor") for w in (16, 32, 64)),
    *(f"{op}.pred %p1, %p2, !%p3" for op in ("and", "or", "xor")),
    *(f"not.b{w} %{WORDS[w]}1, %{WORDS[w]}2" for w in (16, 32, 64)),
    "not.pred %p1, %p2",
    *(f"{op} %{WORDS[w]}1, %{WORDS[w]}2, %r3" for w in (16, 32, 64) for op in (f"shl.b{w}", f"shr.u{w}", f"shr.s{w}")),
    "shl.b32 %r1, %r2, 33", "shr.s32 %r1, %r2, 77", "shr.u32 %r1, %r2, 31",
    *(f"shf.{way}.{manner}.b32 %r1, %r2, %r3, %r4" for way in "lr" for manner in ("wrap", "clamp")),
    "prmt.b32 %r1, %r2, %r3, %r4", "prmt.b32 %r1, %r2, %r3, 0x5410", "prmt.b32 %r1, %r2, %r3, 0xF92A",
    *(f"lop3.b32 %r1, %r2, %r3, %r4, {table}" for table in (0, 0x96, 0xE8, 0xF8, 0x5B, 0xFF)),
    "bfe.u32 %r1, %r2, %r3, %r4", "bfe.s32 %r1, %r2, %r3, %r4", "bfi.b32 %r1, %r2, %r3, %r4, %r5",
    "bfe.s32 %r1, %r2, 8, 8", "popc.b32 %r1, %r2", "popc.b64 %r1, %rd2", "clz.b32 %r1, %r2", "clz.b64 %r1, %rd2",
    *(f"setp.{test}.{k}{w} %p1, %{WORDS[w]}2, %{WORDS[w]}3"
      for w in (16, 32, 64) for k in "su" for test in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(f"setp.{test}.u32 %p1, %r2, %r3" for test in ("lo", "ls", "hi", "hs")),
    *(f"setp.lt.{join}.s32 %p1|%p4, %r2, %r3, !%p2" for join in ("and", "or", "xor")),
    *(f"selp.b{w} {_three(w)}, %p2" for w in (16, 32, 64)), "selp.f32 %r1, %r2, 0f3F800000, !%p2",
    "mov.b32 %r1, %r2", "mov.b64 %rd1, %rd2", "mov.pred %p1, %p2", "mov.b16 %rs1, %rs2", "mov.u32 %r1, 77",
    "mov.b32 %r1, {%rs2, %rs3}", "mov.b64 %rd1, {%r2, %r3}", "mov.b64 %rd1, {%rs2, %rs3, %rs4, %rs5}",
    "mov.b32 {%rs1, %rs2}, %r3", "mov.b64 {%r1, %r2}, %rd3", "mov.b64 {%rs1, _, %rs3, %rs4}, %rd5",
]  # fmt: skip
FLOATS = [
    *(f"{op}{flags}.f32 %r1, %r2, %r3" for op in ("add", "sub", "mul")
      for flags in ("", ".rn", ".ftz", ".sat", ".rn.ftz.sat")),
    *(f"fma.{mode}{flags}.f32 %r1, %r2, %r3, %r4" for mode in ("rn", "rz", "rm", "rp")
      for flags in ("", ".ftz", ".sat", ".ftz.sat")),
    "div.rn.f32 %r1, %r2, %r3", "div.rn.ftz.f32 %r1, %r2, %r3", "rcp.rn.f32 %r1, %r2", "sqrt.rn.f32 %r1, %r2",
    *(f"{op}.approx{ftz}.f32 %r1, %r2" for op in ("ex2", "rcp", "sqrt", "rsqrt") for ftz in ("", ".ftz")),
    *(f"div.{how}{ftz}.f32 %r1, %r2, %r3" for how in ("approx", "full") for ftz in ("", ".ftz")),
    *(f"{op}{flags}.f32 %r1, %r2, %r3" for op in ("min", "max") for flags in ("", ".NaN", ".ftz", ".ftz.NaN")),
    *(f"{op}{ftz}.f32 %r1, %r2" for op in ("abs", "neg") for ftz in ("", ".ftz")),
    *(f"{op}.{kind} %rs1, %rs2" for op in ("abs", "neg") for kind in ("f16", "bf16")),
    *(f"{op}.{kind} %r1, %r2" for op in ("abs", "neg") for kind in ("f16x2", "bf16x2")),
    "copysign.f32 %r1, %r2, %r3",
    *(f"setp.{test}.{kind} %p1, %{register}2, %{register}3"
      for kind, register in (("f32", "r"), ("f64", "rd"), ("f16", "rs"), ("bf16", "rs"))
      for test in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")),
    "setp.ltu.ftz.f32 %p1, %r2, %r3", "setp.ge.or.ftz.f32 %p1|%p2, %r2, %r3, %p4",
]  # fmt: skip
CONVERSIONS = [
    *(f"cvt.{to}{n}.{of}{w} %{WORDS[max(16, n)]}1, %{WORDS[max(16, w)]}2"
      for to in "su" for n in (8, 16, 32, 64) for of in "su" for w in (8, 16, 32, 64)),
    "cvt.s8.s32 %r1, %r2", "cvt.u16.u32 %r1, %r2", "cvt.s16.s32 %rd1, %r2", "cvt.u32.u8 %r1, %r2",
    *(f"cvt.{mode}{ftz}.{kind}{w}.f32 %{WORDS[w]}1, %r2"
      for mode in ("rni", "rzi", "rmi", "rpi") for ftz in ("", ".ftz") for kind in "su" for w in (32, 64)),
    *(f"cvt.rn.f32.{kind}{w} %r1, %{WORDS[max(16, w)]}2" for kind in "su" for w in (8, 16, 32, 64)),
    *(f"cvt.rn.f64.{kind}{w} %rd1, %{WORDS[w]}2" for kind in "su" for w in (16, 32)),
    *(f"cvt{flags}.f32.f32 %r1, %r2"
      for flags in (".rni", ".rzi.ftz", ".rmi", ".rpi", ".sat", ".ftz", ".ftz.sat", ".rni.sat")),
    "cvt.rn.bf16.f32 %rs1, %r2", "cvt.f32.bf16 %r1, %rs2", "cvt.rn.f16.f32 %rs1, %r2", "cvt.f32.f16 %r1, %rs2",
    "cvt.rn.bf16x2.f32 %r1, %r2, %r3", "cvt.rn.f16x2.f32 %r1, %r2, %r3",
    "cvt.rna.tf32.f32 %r1, %r2", "cvt.rn.tf32.f32 %r1, %r2",
]  # fmt: skip
FORMS = [*WHOLE, *FLOATS, *CONVERSIONS]
BY_NUMPY = ("lg2.approx.f32 %r1, %r2", "add.rm.f32 %r1, %r2, %r3", "add.f64 %rd1, %rd2, %rd3", "div.s32 %r1, %r2, %r3")


@pytest.fixture(scope="module")
def core() -> Core:
    return native_core()


def program(text: str) -> Program:
    """A program whose first block has these instructions and stores what they write, so that it is read."""
    found = module(text + ";\nst.global.b32 [%rd19], %r39;")
    return build_program(found, found.kernel())


def steps(built: Program, core: Core) -> list[Any]:
    """The operations of the first block, with all registers taken for read afterwards."""
    block = built.blocks[0]
    gathering = NativeSteps(built, core).gathering
    operations = block.single_steps[:-1]
    found = gathering.steps(operations, block.instructions, block.pure, block.reads, block.writes, range(99))
    return [operation for _, operation in found]


def values(chance: np.random.Generator, width: int, shape: tuple[int, ...]) -> np.ndarray:
    """Special values, floats of all sizes, and any bits."""
    dtype = np.bool_ if width == 1 else np.dtype(f"u{width // 8}")
    special = np.asarray(chance.choice(np.array(SPECIAL[width], dtype), size=shape))
    if width == 1:
        return special
    random = np.frombuffer(chance.bytes(special.nbytes), dtype).reshape(shape)
    found = np.where(chance.random(shape) < 0.4, special, random)
    if width == 32:
        floats = (chance.standard_normal(shape) * 2.0 ** chance.integers(-20, 20, size=shape)).astype(np.float32)
        found = np.where(chance.random(shape) < 0.4, floats.view(np.uint32), found)
    return np.asarray(found)


def filled(built: Program, seed: int, shape: tuple[int, int], shapes: list[tuple[int, ...]]) -> Lanes:
    """Lanes whose registers all hold something, if the first block has them, in arrays of any of these shapes."""
    chance = np.random.default_rng(seed)
    nothing: Any = None
    lanes = Lanes(list(built.widths), shape, nothing, nothing, nothing, b"", {})
    block = built.blocks[0]
    for slot in sorted({slot for some in (*block.reads, *block.writes) for slot in some or ()}):
        width = built.widths[slot]
        lanes.put(slot, values(chance, width, shapes[chance.integers(len(shapes))]), None)
    return lanes


def registers(lanes: Lanes) -> list[tuple[bytes, bytes]]:
    """The registers of all lanes where their values are defined, and where these are undefined."""
    found = []
    for slot in range(len(lanes.widths)):
        if lanes.bits[slot] is None and lanes.wide[slot] is None:
            continue
        bits = spread(np.asarray(lanes.get(slot)), lanes.shape)
        lost = lanes.poison.get(slot)
        nothing = np.zeros(lanes.shape, bits.dtype) if lost is None else spread(lost, lanes.shape).astype(bits.dtype)
        found.append(((bits & ~nothing).tobytes(), nothing.tobytes()))
    return found


def check(core: Core, text: str, shape: tuple[int, int], shapes: list[tuple[int, ...]], mask: Mask, seed: int) -> None:
    """Holds instructions by the core against the same by numpy."""
    built = program(text)
    native = steps(built, core)
    assert len(native) == 1 and isinstance(native[0], Segment), f"{text} is left to numpy"
    expected, given = filled(built, seed, shape, shapes), filled(built, seed, shape, shapes)
    with np.errstate(all="ignore"):
        for _, operation in built.blocks[0].single_steps[:-1]:
            operation(expected, mask)
        native[0](given, mask)
    for name, slot in built.slots.items():
        if expected.bits[slot] is None and expected.wide[slot] is None:
            continue
        one, other = (spread(np.asarray(lanes.get(slot)), shape) for lanes in (given, expected))
        assert one.dtype == other.dtype
        wrong = one != other
        assert not wrong.any(), f"{text}: {name} is {one[wrong][0]:#x}, not {other[wrong][0]:#x}"
    assert registers(given) == registers(expected)


@pytest.mark.parametrize("text", sampled(FORMS))
def test_an_operation_gives_the_bits_that_numpy_gives(core: Core, text: str) -> None:
    check(core, text, (64, 40), [(64, 40)], None, 1)
    check(core, text, (64, 3), [(), (1, 1), (64, 1), (1, 3), (64, 3)], None, 2)


def test_every_operation_is_tested(core: Core) -> None:
    used: set[int] = set()
    for text in [*FORMS, "@%p1 mov.pred %p2, %p3"]:
        (segment,) = steps(program(text), core)
        used |= {value.operation for value in segment.graph.values}
    assert [name for name, operation in core.operations.items() if operation.number not in used] == []


@pytest.mark.parametrize("text", BY_NUMPY)
def test_what_the_core_does_not_know_is_left_to_numpy(core: Core, text: str) -> None:
    assert not any(isinstance(step, Segment) for step in steps(program(text), core))


@pytest.mark.parametrize("guard", ["", "@%p9 ", "@!%p9 "])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (32, 1), (1, 5), (96, 3), (1024, 5)])
def test_any_instructions_guards_masks_and_shapes(core: Core, guard: str, masked: bool, shape: tuple[int, int]) -> None:
    threads, blocks = shape
    for seed in range(6):
        chance = np.random.default_rng(seed)
        forms = chance.choice(FORMS, size=12)
        lines = []
        for form in forms:
            for name, count in (("p", 10), ("rs", 8), ("r", 8), ("rd", 8)):
                form = re.sub(rf"%{name}\d+", lambda _: f"%{name}{chance.integers(count)}", form)  # noqa: B023
            lines.append((guard if chance.random() < 0.5 else "") + form)
        mask = chance.random([(threads, blocks), (threads, 1), (1, blocks)][seed % 3]) < 0.5 if masked else None
        check(core, ";\n".join(lines), shape, [(), (1, 1), (threads, 1), (1, blocks), shape], mask, seed)
