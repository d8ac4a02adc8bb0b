"""Products of warpgroups that the C core begins, ends and sums up leave what numpy leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from emulator_kit import native_core

from cutegen.emulator.checks.clocks import ALWAYS, Clocks
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.product_reads import ProductReads
from cutegen.emulator.warps.product_sums import Addition, add_products
from cutegen.emulator.warps.product_types import KINDS

SHAPE, SIZE, ROWS = (256, 4), 2, 60
LINE = Instruction("wgmma", (), None, (), 7, None, "")


def reads_of(random: np.random.Generator, clocks: Clocks) -> ProductReads:
    """Matrices of some warps: one for each of the first four, of which two read the same other one."""
    warps = np.arange(4) + 4 * random.integers(0, 2)
    lengths = random.integers(1, 9, 6)
    cells = random.permutation(ROWS * SHAPE[1])[: lengths.sum()]
    starts = np.cumsum([0, *lengths])
    numbers = np.arange(4), np.arange(4) // 2
    times = np.repeat(np.array([1, 1, 1, 1, 2, 2], np.int32), lengths)
    lanes = warps // SHAPE[1] * 32, warps % SHAPE[1]
    where = np.zeros((4, 1), np.int64), np.zeros((2, 1), np.int64)
    matrices = np.stack([numbers[0], numbers[1] + 4], axis=1)
    members = clocks.cluster[lanes], clocks.member[lanes]
    return ProductReads(cells, times, where, numbers, matrices, starts, True, *members, np.uint16)


@pytest.mark.parametrize("seed", range(3))
def test_reads_begin_and_end_as_numpy_notes_them(seed: int) -> None:
    native_core()
    random = np.random.default_rng(seed)
    clocks = Clocks(SHAPE, SIZE)
    agents = [clocks.add_agents(), clocks.add_agents()]
    histories = SharedHistory(ROWS, 2, clocks), SharedHistory(ROWS, 2, clocks)
    histories[1].products._core = None
    flags, data = np.zeros(ROWS * SHAPE[1], np.uint8), random.integers(0, 1 << 16, ROWS * SHAPE[1]).astype(np.uint16)
    taken = {True: 0, False: 0}
    for _ in range(120):
        reads = reads_of(random, clocks)
        written = random.permutation(ROWS * SHAPE[1])[:100]
        writer = int(random.choice([agents[0], 3], p=[0.9, 0.1]))
        late = clocks.now if random.random() < 0.9 else ALWAYS
        some_cells = written if random.random() < 0.5 else reads.cells
        for history in histories:
            history._writer[some_cells], history._written[some_cells] = writer, late
        clocks.tick()
        some = np.ones(SHAPE, np.bool_)
        if random.random() < 0.2:
            some[random.integers(0, SHAPE[0], 2)] = False
        clocks.learn_of(some, agents[0], clocks.tick())
        clocks.meet(some, np.arange(SHAPE[1])[None, :] // SIZE)
        flags[:] = random.random(len(flags)) < random.choice([0, 0.1], p=[0.8, 0.2])
        found = histories[0].products.take(LINE, reads, flags, data)
        assert histories[1].products.take(LINE, reads, flags, data) is None
        fine = not flags[reads.cells].any() and histories[1].products.surely_ordered(reads)
        by_threads = (histories[1]._writer[reads.cells] < clocks.members).any()
        assert (found is not None) == (fine and not by_threads)
        taken[found is not None] += 1
        if found is not None:
            assert np.array_equal(found, data[reads.cells])
            histories[1].products.begin(LINE, reads)
            numbers = random.permutation(4)[: random.integers(1, 5)].tolist()
            for history in histories:
                history.products.end(LINE, reads, agents * 2, None, numbers)
        pending = [history.pending() for history in histories]
        assert np.array_equal(pending[0].count, pending[1].count) and np.array_equal(pending[0].lines, pending[1].lines)
        assert np.array_equal(histories[0]._gathered.times, histories[1]._gathered.times)
        assert np.array_equal(histories[0]._lines, histories[1]._lines)
    assert min(taken.values()) > 10, taken


@pytest.mark.parametrize("columns", [8, 96])
@pytest.mark.parametrize("kinds", [("bf16", "bf16"), ("f16", "f16"), ("tf32", "tf32"), ("e4m3", "e5m2")])
def test_products_are_added_to_accumulators_as_numpy_does(columns: int, kinds: tuple[str, str]) -> None:
    core, random = native_core(), np.random.default_rng(columns)
    count, slots = 12, columns // 2
    itemsize, depth = KINDS[kinds[0]]
    warps, rows = np.array([1, 4, 5, 11]), random.permutation(slots + 3)[:slots, None]
    element = {1: np.uint8, 2: np.uint16, 4: np.uint32}[itemsize]
    where = random.integers(0, 5000, (3, 16, depth)), random.integers(0, 5000, (2, columns, depth))
    for sign in (1, -1):
        raw = random.integers(0, 1 << 8 * itemsize, 5000).astype(element)
        if itemsize > 1:  # of moderate size, most of them
            raw = random.normal(size=5000).astype(np.float32).view(np.uint32)
            raw = raw if itemsize == 4 else (raw >> 16).astype(np.uint16)
            raw = random.normal(size=5000).astype(np.float16).view(np.uint16) if kinds[0] == "f16" else raw
            raw[random.random(5000) < 0.01] = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x7F800000}[kinds[0]]
            raw[random.random(5000) < 0.01] = 1 << 8 * itemsize - 1
        held = random.normal(size=(slots + 3, count, 32)).astype(np.float32)
        held[held > 2] = np.inf
        now = random.normal(size=(slots, len(warps), 32)).astype(np.float32).view(np.uint32)
        keeps, resting = np.array([True, False, True, True]), random.random((slots, len(warps))) < 0.5
        matrix = np.array([0, 1, 2, 0]), np.array([1, 0, 0, 1])
        reads = cast(Any, SimpleNamespace(where=where, matrix=matrix))
        signs = sign, 1
        form = cast(Any, SimpleNamespace(columns=columns, depth=depth, kinds=kinds, signs=signs, slots=(0,)))
        for to in (Addition(warps, keeps, resting, now), Addition(warps, keeps, np.zeros_like(resting), None)):
            of_both = [
                cast(Any, SimpleNamespace(core=one, count=count, rows=lambda slots: rows, held=held.view("u4").copy()))
                for one in (core, None)
            ]
            with np.errstate(invalid="ignore"):
                for products in of_both:
                    add_products(form, products, reads, raw, to)
            assert np.array_equal(of_both[0].held, of_both[1].held)
            assert (of_both[0].held == 0x7FFFFFFF).any()
