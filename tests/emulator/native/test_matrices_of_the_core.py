"""Products of tensor cores, and matrices that are loaded, by the C core: what numpy gives, in every lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_kit import native_core
from semantics_kit import instruction

from cutegen.emulator.lanes import WARP
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.by_warp import by_warp
from cutegen.emulator.warps.core_matrices import CoreMatrixLoad, CoreMma
from cutegen.emulator.warps.matrix_operations import multiply_operation
from cutegen.emulator.warps.tensor_cores import MatrixCopy, compile_mma

NOTHING: Any = None  # of memory, which nobody touches here
SHAPES = [(64, 3), (32, 1), (32, 5)]
FORMS = [
    *((kind, kind, k, "sm_80") for kind in ("f16", "bf16") for k in (8, 16)),
    *(("tf32", "tf32", k, "sm_80") for k in (4, 8)),
    *(
        (a, b, k, target)
        for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3"))
        for k in (16, 32)
        for target in ("sm_89", "sm_90a")
    ),
]
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}


def text_of(a: str, b: str, k: int, constant: bool) -> tuple[str, int]:
    """The instruction, with D in %r0 to %r3 and the other registers behind them, and how many there are."""
    counts = [16 * k * BITS[a] // 1024, 8 * k * BITS[b] // 1024, 4]
    names, first = [["%r0", "%r1", "%r2", "%r3"]], 4
    for count in counts:
        names.append([f"%r{first + i}" for i in range(count)])
        first += count
    if constant:
        names[-1][1] = "0f3F800000"
    operands = ", ".join("{" + ", ".join(one) + "}" for one in names)
    return f"mma.sync.aligned.m16n8k{k}.row.col.f32.{a}.{b}.f32 {operands};", first


def some_bits(random: np.random.Generator, shape: Any, kind: str) -> np.ndarray:
    """Registers of numbers of about one size, or of any bits at all."""
    count = int(np.prod(shape))
    if kind == "f32" or BITS[kind] == 32:
        bits = random.normal(size=count).astype(np.float32).view(np.uint32)
        return (
            np.where(random.random(count) < 0.01, random.integers(0, 1 << 32, count), bits)
            .astype(np.uint32)
            .reshape(shape)
        )
    if kind == "bf16":
        halves = (random.normal(size=2 * count).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    elif kind == "f16":
        halves = random.normal(size=2 * count).astype(np.float16).view(np.uint16)
    else:
        return random.integers(0, 1 << 32, count).astype(np.uint32).reshape(shape)
    special = np.asarray([0, 0x8000, 1, 0x7C00, 0xFC00, 0x7F80, 0x7FC0], np.uint16)
    halves = np.where(random.random(2 * count) < 0.003, random.choice(special, 2 * count), halves)
    return np.ascontiguousarray(halves).view(np.uint32).reshape(shape)


@pytest.mark.parametrize(("a", "b", "k", "target"), FORMS)
def test_the_core_multiplies_as_numpy_does(
    a: str, b: str, k: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, random = native_core(), np.random.default_rng(k)
    taken: list[bool] = []
    run = CoreMma.run

    def spied(*given: Any) -> Any:
        found = run(*given)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(CoreMma, "run", spied)
    for shape in SHAPES:
        for turn in range(12):
            text, count = text_of(a, b, k, turn % 3 == 0)
            read = instruction(text)
            slots = {f"%r{i}": i for i in range(count)} | {f"r{i}": i for i in range(count)}
            operation = multiply_operation(compile_mma(read, target), read, slots)
            kinds = [*[a] * (16 * k * BITS[a] // 1024), *[b] * (8 * k * BITS[b] // 1024), *["f32"] * 4]
            parts: list[Any] = [shape, shape, (shape[0], 1), (1, 1), ()]
            held = [some_bits(random, parts[random.integers(0, 5)], kind) for kind in kinds]
            poison = {}
            if turn % 4 == 0:
                lost = random.random(shape) < 0.01
                poison = {int(random.integers(4, count)): np.where(lost, np.uint32(1), np.uint32(0))}
            mask = None
            if turn % 2:
                mask = np.repeat(random.random((shape[0] // WARP, shape[1])) < 0.7, WARP, axis=0)
                mask[:WARP, 0] = True
            results = []
            for by in (core, None):
                lanes = Lanes([32] * count, shape, NOTHING, NOTHING, NOTHING, b"", {})
                lanes.core, lanes.bits, lanes.poison = by, [np.zeros((), np.uint32)] * 4 + list(held), dict(poison)
                with np.errstate(invalid="ignore"):  # of NaNs that signal
                    operation(lanes, mask)
                results.append(
                    (
                        [np.broadcast_to(one, shape).tolist() for one in lanes.bits if one is not None],
                        {slot: np.broadcast_to(one, shape).tolist() for slot, one in sorted(lanes.poison.items())},
                    )
                )
            assert results[0] == results[1]
    assert all(taken) and taken


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_core_spreads_matrices_as_numpy_does(count: int, transposed: bool) -> None:
    core, random = native_core(), np.random.default_rng(count)
    copy = MatrixCopy((), count, transposed)
    for shape in SHAPES:
        for part in (shape, (shape[0], 1), (1, 1)):
            values = [random.integers(0, 1 << 16, part).astype(np.uint16) for _ in range(8)]
            lanes = Lanes([], shape, NOTHING, NOTHING, NOTHING, b"", {})
            found = CoreMatrixLoad(copy).run(core, lanes, values)
            assert found is not None
            rows = np.stack([by_warp(lanes, v)[:, : 8 * count] for v in values], axis=-1)
            wanted = copy.fragment(rows)
            for i in range(count):
                assert np.array_equal(by_warp(lanes, found[i]), wanted[..., i])


def test_products_of_whole_numbers_are_left_to_numpy() -> None:
    read: Instruction = instruction(
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6}, {%r7,%r8,%r9,%r10};"
    )
    lanes = Lanes([32] * 11, (32, 1), NOTHING, NOTHING, NOTHING, b"", {})
    assert CoreMma(compile_mma(read, "sm_80")).run(native_core(), lanes, [np.zeros((), np.uint32)] * 7) is None
