"""Kernels with bulk copies and clusters as CuTeDSL compiles them, launched as their compiled host code would."""

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


@lru_cache(maxsize=8)
def built(name: str, *arguments: Any) -> Any:
    import cluster_kernels

    return builds(getattr(cluster_kernels, name)(*arguments))[0]


def doubled(build: Any, seed: int = 0, orders: int = 1) -> None:
    """Runs the kernel that doubles; raises FaultError."""
    x = torch.arange(3 * 1280, dtype=torch.float32).reshape(3, 1280)
    y = torch.zeros_like(x)
    Emulated([build], ("x", "y"), {"x": "in", "y": "out"}, seed=seed, orders=orders)(on_device(x), on_device(y))
    assert (y == 2 * x).all()


def test_tiles_come_and_go_by_bulk_copies() -> None:
    doubled(built("Doubled"), orders=6)


@pytest.mark.parametrize(
    ("lacks", "which", "kinds"),
    [
        (r"\.reg \.pred\s+P1;[^}]*", 0, "in-flight race"),
        (r"\.reg \.pred\s+P1;[^}]*", 4, "in-flight race"),
        (r"cp\.async\.bulk\.wait_group\.read\s+1;", 0, "in-flight"),
        (r"cp\.async\.bulk\.wait_group\.read\s+0;", 0, "in-flight"),
        (r"fence\.proxy\.async\.shared::cta;", 1, "proxy"),
        (r"bar\.sync\s+0;", 0, "mbarrier"),
        (r"bar\.sync\s+0;", 2, "race"),
        (r"cp\.async\.bulk\.commit_group;", 0, "in-flight"),
        (r"mbarrier\.arrive\.expect_tx[^;]*;", 2, "deadlock"),
    ],
)
def test_mutants_of_it(lacks: str, which: int, kinds: str) -> None:
    build = built("Doubled")
    found = list(re.finditer(lacks, build.ptx))[which]
    mutant = replace(build, ptx=build.ptx[: found.start()] + build.ptx[found.end() :])
    for seed in range(3):
        with pytest.raises(FaultError) as caught:
            doubled(mutant, seed)
        assert caught.value.fault.kind in kinds.split(), str(caught.value)


@pytest.mark.parametrize("shape", [(2, 1, 1), (1, 4, 1), (2, 4, 1), (4, 4, 1)])
def test_the_host_code_says_how_large_a_cluster_is(shape: tuple[int, int, int]) -> None:
    y = torch.full((4, 8), -1, dtype=torch.int32)
    emulated = Emulated([built("Ranks", shape)], ("x", "y"), {"x": "in", "y": "out"}, orders=2)
    emulated(on_device(torch.zeros_like(y)), on_device(y))
    x, column = torch.meshgrid(torch.arange(4), torch.arange(8), indexing="ij")
    assert (y == x % shape[0] + shape[0] * (column % shape[1])).all()
    assert [asked.cluster for (asked,) in emulated.launches] == [shape]


@pytest.mark.parametrize(("shape", "why"), [((2, 8, 1), "the grid (3, 8, 1) is not a multiple of 2 along x")])
def test_a_grid_that_clusters_do_not_divide(shape: tuple[int, int, int], why: str) -> None:
    y = torch.zeros((3, 8), dtype=torch.int32)
    with pytest.raises(FaultError, match=re.escape(why)):
        Emulated([built("Ranks", shape)], ("x", "y"))(on_device(y), on_device(y.clone()))
