"""The picture of a probe, held to what hardware printed."""

from __future__ import annotations

from drawing_kit import grid_of, module


def test_threads_of_the_probe() -> None:
    grid = grid_of(module("probe_tv"), "threads")
    printed = {0: [0, 1, 4, 5, 8, 9], 1: [2, 3, 6, 7, 10, 11], 2: [12, 13, 16, 17, 20, 21], 3: [14, 15, 18, 19, 22, 23]}
    for thread, places in printed.items():  # as hardware printed them, in the third seed document
        for value, place in enumerate(places):
            assert grid.cells[0][place].facts["owners"] == [[thread, value]]
