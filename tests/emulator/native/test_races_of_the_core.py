"""Races for shared memory: the C core sees whether there are any where numpy sees one."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import native_core

from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_races import AccessLog, SharedAccess
from cutegen.emulator.ptx.model import Instruction

SHAPE, ROWS = (64, 3), 900


def some_access(random: np.random.Generator, line: int, near: bool) -> SharedAccess:
    """An access of each thread to units of its own mostly, alike in all blocks or not."""
    count = int(random.choice([1, 2, 4]))
    rows = (np.arange(SHAPE[0]) * 4 + 256 * random.integers(0, 3))[:, None]
    if near and random.random() < 0.2:
        rows = rows + random.choice([-1, 1], rows.shape) * (random.random(rows.shape) < 0.02) + 1
    if random.random() < 0.4:
        rows = np.broadcast_to(rows, SHAPE) if random.random() < 0.5 else rows + 200 * np.arange(SHAPE[1]) % 97
    mask = None
    if random.random() < 0.6:
        mask = random.random(((SHAPE[0], 1), SHAPE)[random.integers(0, 2)]) < random.choice([0.05, 0.5, 0.95])
        mask.flat[0] = True
    return SharedAccess(rows, count, mask, Instruction("st", (), None, (), line, None, ""), 0, ROWS)


def said(log: AccessLog) -> str:
    try:
        log.barrier(None, [])
    except Stop as stop:
        return f"{stop} {stop.lane} {stop.witnesses}"
    return ""


@pytest.mark.parametrize("seed", range(3))
def test_the_core_finds_races_where_numpy_does(seed: int) -> None:
    native_core()
    random = np.random.default_rng(seed)
    results = []
    for _ in range(150):
        by_core, by_numpy = AccessLog(ROWS, 4, SHAPE), AccessLog(ROWS, 4, SHAPE)
        assert by_core._core is not None
        by_numpy._core = None
        near = random.random() < 0.5
        for line in range(random.integers(1, 6)):
            access = some_access(random, line, near)
            for log in (by_core, by_numpy):
                (log.write if line % 2 == 0 else log.read)(access)
        writes, reads = by_core.writes, by_core.reads
        columns = (
            1 if all(a.rows.shape[1] == 1 and (a.mask is None or a.mask.shape[1] == 1) for a in writes + reads) else 3
        )
        none = by_core._surely_none(by_core._core, writes, reads, columns)
        found = said(by_core), said(by_numpy)
        assert found[0] == found[1]
        assert none == (not found[1])
        results.append(found[1])
    assert 10 < sum(map(bool, results)) < 140
