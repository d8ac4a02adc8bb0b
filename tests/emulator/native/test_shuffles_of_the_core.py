"""Shuffles by the C core give what numpy's give, in every lane, and leave to numpy the threads that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_kit import native_core

from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction, Register
from cutegen.emulator.warps.core_shuffles import CoreShuffle
from cutegen.emulator.warps.exchange_operations import exchange_operation

NAMES = ("moved", "inside", "value", "amount", "clamp", "members")
SLOTS = {name: slot for slot, name in enumerate(NAMES)}
CLAMPS = [31, 0, 0x1F00, 0x181F, 0x1C1F, 0x1003]


def some_lanes(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Whole warps or blocks mostly, now and then any threads."""
    kind = random.integers(0, 4)
    part = [(shape[0], 1), (1, shape[1]), shape, shape][kind]
    found = np.repeat(random.random((-(-part[0] // 32), part[1])) < 0.8, 32, axis=0)[: part[0]]
    if kind == 3:
        found = found & (random.random(shape) < 0.95)
    found.flat[0] = True
    return np.asarray(found)


def some_values(random: np.random.Generator, shape: tuple[int, int], choice: Any) -> np.ndarray:
    """Values of all lanes, or the same for threads, for blocks, or for all."""
    part: Any = [shape, (shape[0], 1), (1, shape[1]), (1, 1), ()][random.integers(0, 5)]
    return np.asarray(random.choice(choice, part)).astype(np.uint32)


def state_of(random: np.random.Generator, shape: tuple[int, int]) -> dict[str, Any]:
    """The state before a shuffle: registers, poison, and exited lanes."""
    value = some_values(random, shape, np.arange(5000))
    members: Any = np.asarray(0xFFFFFFFF, np.uint32)
    if random.random() < 0.3:
        members = some_values(random, shape, [0xFFFFFFFF, 0xFFFFFFFF, 0xFFFF, 0x7FFFFFFF])
    old = None if random.random() < 0.3 else some_values(random, shape, np.arange(100))
    poison = {}
    if random.random() < 0.3:
        poison[SLOTS["value"]] = some_values(random, shape, [0, 0, 0, 1, 0x80000000])
    if old is not None and random.random() < 0.3:
        poison[SLOTS["moved"]] = some_values(random, shape, [0, 0, 5])
    amount = some_values(random, shape, np.arange(40))
    alive = None if random.random() < 0.7 else some_lanes(random, shape)
    left = (
        None if alive is None or random.random() < 0.5 else ~np.broadcast_to(alive, shape) & some_lanes(random, shape)
    )
    clamp = (
        np.asarray(random.choice(CLAMPS), np.uint32) if random.random() < 0.7 else some_values(random, shape, CLAMPS)
    )
    return {"bits": [old, None, value, amount, clamp, members], "poison": poison, "alive": alive, "left": left}


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_the_core_shuffles_as_numpy_does(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core = native_core()
    random = np.random.default_rng(len(mode))
    nothing: Any = None
    operands = tuple(Register(name, 1 if name == "inside" else 32) for name in NAMES)
    taken: list[bool] = []
    run = CoreShuffle.run

    def spied(*given: Any) -> Any:
        found = run(*given)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(CoreShuffle, "run", spied)
    faults = 0
    for shape in ((64, 3), (40, 2), (32, 1)):
        for _ in range(120):
            given, results = state_of(random, shape), []
            mask = None if random.random() < 0.5 else some_lanes(random, shape)
            if mask is not None and given["alive"] is not None:
                mask = mask & given["alive"]
                mask = mask if mask.any() else None
            wanted = operands if random.random() < 0.7 else (operands[0], *operands[2:])
            operation = exchange_operation(Instruction("shfl", ("sync", mode, "b32"), None, wanted, 1, None, ""), SLOTS)
            for by in (core, None):
                lanes = Lanes(
                    [1 if name == "inside" else 32 for name in NAMES], shape, nothing, nothing, nothing, b"", {}
                )
                lanes.core, lanes.bits, lanes.poison = by, list(given["bits"]), dict(given["poison"])
                lanes.alive, lanes.left = given["alive"], given["left"]
                try:
                    operation(lanes, mask)
                    said = ""
                except Stop as stop:
                    said = f"{stop} {stop.lane}"
                kept = [
                    (slot, one.shape, one.dtype, one.tolist()) for slot, one in enumerate(lanes.bits) if one is not None
                ]
                results.append((said, kept, {slot: one.tolist() for slot, one in sorted(lanes.poison.items())}))
            assert results[0] == results[1]
            assert taken[-1] == (not results[0][0])
            faults += not taken[-1]
    assert min(faults, len(taken) - faults) > 20, (faults, len(taken))
