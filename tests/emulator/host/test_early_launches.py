"""Programmatic dependent launch as CuTeDSL compiles it: the second of two launches needs what the first gives."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from cutegen.emulator import Emulated, FaultError, on_device
from cutegen.emulator.host.builds import builds

torch = pytest.importorskip("torch")
pytest.importorskip("cutlass")


@lru_cache(maxsize=2)
def built(early: bool) -> Any:
    import cluster_kernels

    return builds(cluster_kernels.Twice(early))[0]


def run(build: Any) -> Emulated:
    """Runs both launches; raises FaultError."""
    x = torch.arange(3 * 64, dtype=torch.float32).reshape(3, 64)
    y = torch.zeros_like(x)
    emulated = Emulated([build], ("x", "y"), {"x": "in"}, orders=2)
    emulated(on_device(x), on_device(y))
    assert (y == 4 * x).all()
    return emulated


def without_wait(build: Any) -> Any:
    """The build without any wait in its kernels."""
    ptx, count = re.subn(r"griddepcontrol\.wait;", "", build.ptx)
    assert count
    return replace(build, ptx=ptx)


@pytest.mark.parametrize("early", [True, False])
def test_the_wait_comes_before_what_is_read_and_written(early: bool) -> None:
    assert [launch.early for launch in run(built(early)).launches[0]] == [early, early]


def test_without_the_wait_what_is_ahead_may_still_run() -> None:
    with pytest.raises(FaultError) as caught:
        run(without_wait(built(True)))
    found = caught.value.fault
    assert (found.kind, found.block, found.tensor) == ("early", (0, 0, 0), "x")
    assert found.text.startswith("ld.global") and "mX[row, tidx]" in found.source_text
    run(without_wait(built(False)))  # a launch that waits for the others to end does without
