"""Instructions that are alike and done at once leave the registers as they do one after the other, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_kit import kernel

from cutegen.emulator.host.launching import program_of
from cutegen.emulator.machine.program import Block, Program
from cutegen.emulator.operations.alike import MOST_LANES, AlikeOperations
from cutegen.emulator.operations.multiply_adds import MultiplyAdds
from cutegen.emulator.operations.special_registers import special_values
from cutegen.emulator.operations.state import Lanes

SHAPE = (64, 3)
REGISTERS = 24  # of 32 bits, which instructions read and write
FORMS = (
    "add.s32 {0}, {1}, {2};",
    "add.s32 {0}, {1}, 7;",
    "sub.f32 {0}, {1}, {2};",
    "fma.rn.f32 {0}, {1}, {2}, {3};",
    "ex2.approx.ftz.f32 {0}, {1};",
    "cvt.rn.bf16x2.f32 {0}, {1}, {2};",
    "setp.lt.s32 %p{4}, {1}, {2};",
    "selp.b32 {0}, {1}, {2}, %p{4};",
    "@%p{4} xor.b32 {0}, {1}, {2};",
    "mov.b32 {{%rs1, %rs2}}, {1};",
    "mov.b32 {0}, {{%rs1, %rs2}};",
    "shl.b32 {0}, {1}, 3;",
    "mov.u32 {0}, %tid.x;",
    "div.s32 {0}, {1}, {2};",
)


def block(body: str) -> tuple[Program, Block]:
    """A program without parameters, and its one basic block."""
    program = program_of(
        kernel(body, parameters=0, shared=16).replace("mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;", ""), "k"
    )
    return program, program.blocks[0]


def by_chance(chance: np.random.Generator, forms: list[str], count: int) -> str:
    """Instructions of those forms, with registers by chance, few of which are read soon after they were written."""
    lines = []
    for _ in range(count):
        registers = [f"%r{i}" for i in chance.integers(REGISTERS, size=4)]
        lines.append(chance.choice(forms).format(*registers, chance.integers(4)))
    return "\n".join(lines)


def state(program: Program, seed: int, poison: bool, shape: tuple[int, int] = SHAPE) -> Lanes:
    """Lanes whose registers have numbers by chance, some of them the same in all lanes, but for a few never written."""
    chance = np.random.default_rng(seed)
    nothing: Any = None
    specials = special_values(np.arange(shape[1]), (shape[1], 1, 1), (shape[0], 1, 1), (1, 1, 1), 0, 0)
    lanes = Lanes(list(program.widths), shape, nothing, nothing, nothing, b"", specials)
    for name, slot in program.slots.items():
        width = program.widths[slot]
        if poison and chance.random() < 0.1:
            continue
        wide = shape if chance.random() < 0.8 else (1, 1)
        if width == 1:
            lanes.put(slot, chance.random(wide) < 0.5, None)
        elif width == 32 and name.startswith("%r") and chance.random() < 0.5:
            lanes.put(slot, chance.standard_normal(wide).astype(np.float32).view(np.uint32), None)
        elif width < 64:
            lanes.put(slot, chance.integers(1 << width, size=wide).astype(f"u{width // 8}"), None)
    return lanes


def registers(lanes: Lanes) -> list[tuple[Any, Any]]:
    """The defined and the undefined parts of each register."""
    found = []
    for slot, width in enumerate(lanes.widths):
        bits, nothing = lanes.get(slot), np.zeros((), np.bool_ if width == 1 else f"u{width // 8}")
        lost = np.broadcast_to(lanes.poison.get(slot, nothing), lanes.shape)
        found.append(((np.broadcast_to(bits, lanes.shape) & ~lost).tolist(), lost.tolist()))
    return found


def run(operations: list[Any], lanes: Lanes, masks: list[Any]) -> list[tuple[Any, Any]]:
    """The registers once the lanes of each mask in turn have run the operations."""

    def underflow(kind: str, flag: int) -> None:
        lanes.underflow = True

    with np.errstate(all="ignore"), np.errstate(under="call", call=underflow):
        for mask in masks:
            for operation in operations:
                operation(lanes, mask)
    return registers(lanes)


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("parts", [0, 1, 2])
def test_any_instructions_do_what_they_do_alone(parts: int, poison: bool) -> None:
    gathered = 0
    for seed in range(16):
        chance = np.random.default_rng(seed)
        forms = list(chance.choice(FORMS, size=int(chance.integers(1, 5)), replace=False))
        program, one = block(by_chance(chance, forms, 40))
        mask = chance.random(SHAPE) < 0.5
        masks = [mask, ~mask, mask.copy()][: parts + (parts > 1)] or [None]
        steps = [operation for _, operation in one.steps]
        gathered += sum(isinstance(operation, AlikeOperations | MultiplyAdds) for operation in steps)
        alone = run([operation for _, operation in one.single_steps], state(program, seed, poison), masks)
        assert run(steps, state(program, seed, poison), masks) == alone
    assert gathered > 16


def test_which_are_gathered() -> None:
    def lengths(*lines: str) -> list[int]:
        return [len(getattr(o, "each", [o])) for _, o in block("\n".join(lines))[1].steps]

    sums = [f"add.f32 %r{i + 10}, %r{i}, %r1;" for i in range(4)]
    products = [f"mul.f32 %r{i + 20}, %r{i + 10}, %r{i + 10};" for i in range(4)]
    assert lengths(*sums) == [4] and lengths(*sums[:2]) == [1, 1]
    assert lengths(*(line for pair in zip(sums, products, strict=True) for line in pair)) == [4, 4]
    assert lengths(*sums[:3], "add.f32 %r30, %r10, %r1;") == [3, 1]  # reads what the first one writes
    assert lengths(*sums[:3], "add.f32 %r10, %r2, %r1;") == [3, 1]  # writes it again
    assert lengths(*sums[:3], "neg.s32 %r30, %r13;", sums[3]) == [3, 1, 1]  # what the last one writes is read before
    assert lengths(*sums[:3], "st.shared.b32 [smem], %r1;", sums[3]) == [3, 1, 1]  # a store in between
    assert lengths(*sums[:3], "add.f32 %r13, %r3, 0f3F800000;") == [3, 1]  # a constant is of another sort


def test_many_lanes_are_not_copied() -> None:
    program, one = block("\n".join(f"add.f32 %r{i + 10}, %r{i}, %r1;" for i in range(4)))
    shape = (64, MOST_LANES // 64 + 1)
    (_, gathered), alone = *one.steps, [operation for _, operation in one.single_steps]
    assert isinstance(gathered, AlikeOperations)
    assert run([gathered], state(program, 1, False, shape), [None]) == run(
        alone, state(program, 1, False, shape), [None]
    )
