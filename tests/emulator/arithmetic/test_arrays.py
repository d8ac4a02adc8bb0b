"""Arrays that grow by rows of zeros."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from cutegen.emulator.arithmetic.arrays import with_rows


@pytest.mark.parametrize("columns", [3, 1 << 20])
def test_rows_of_zeros_are_added(columns: int) -> None:
    before = np.arange(2 * columns, dtype=np.int32).reshape(2, columns)
    found = with_rows(before, 3)
    assert found.shape == (5, columns) and found.dtype == np.int32 and found.flags.writeable
    assert np.array_equal(found[:2], before) and not found[2:].any()
    found[4] = 7
    assert (found[4] == 7).all() and not found[3].any()
    assert with_rows(before[:0], 0).shape == (0, columns)


def resident() -> int:
    """How much memory this process has, in bytes."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) << 10


@pytest.mark.skipif(sys.platform != "linux", reason="looks at Linux's figures of this process")
def test_rows_take_memory_only_where_they_are_written() -> None:
    """A page for each row, of the 8 MiB that it has: not one of the pages of 2 MiB that numpy asks for."""
    before = resident()
    found = with_rows(np.zeros((0, 1 << 21), np.int32), 64)
    found[:, 1 << 20] = 1
    assert resident() - before < 16 << 20
    assert found.sum() == 64
