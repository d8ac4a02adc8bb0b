"""Softmax over the blocks of a cluster, as CuTeDSL compiles it: right in every order, and its mutants are told."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from cutegen.emulator import Emulated, FaultError, on_device
from cutegen.emulator.host.builds import Build, builds

ROWS = 2


@lru_cache(maxsize=4)
def built(blocks: int, messages: bool) -> Build:
    """Compiled once."""
    pytest.importorskip("cutlass")
    from cluster_softmax import Softmax

    return builds(Softmax(blocks, messages))[0]


def softmax(build: Build, blocks: int, *, seed: int = 0, orders: int = 1) -> tuple[Any, Any]:
    """Y of the kernel and of torch, for the same random X. Raises FaultError."""
    import torch

    torch.manual_seed(blocks)
    x = torch.randn(ROWS, blocks * 128)
    y = torch.full_like(x, float("nan"))
    Emulated([build], ("x", "y"), {"x": "in", "y": "out"}, seed=seed, orders=orders)(on_device(x), on_device(y))
    return y, torch.softmax(x.double(), 1)


@pytest.mark.parametrize("messages", [False, True])
@pytest.mark.parametrize("blocks", [2, 4])
def test_rows_shared_by_the_blocks_of_a_cluster(blocks: int, messages: bool) -> None:
    got, wanted = softmax(built(blocks, messages), blocks, orders=6)
    assert (got - wanted).abs().max() < 1e-7


def changed(pattern: str, by: str = "", which: int = 0) -> Callable[[str], str]:
    """A change of the occurrence with that number of a pattern in PTX."""

    def change(ptx: str) -> str:
        found = list(re.finditer(pattern, ptx))[which]
        return ptx[: found.start()] + found.expand(by) + ptx[found.end() :]

    return change


BOTH = r"barrier\.cluster\.arrive(\.relaxed)?;\s*(\.loc[^\n]*\s*)?barrier\.cluster\.wait;"
LOOP = r"\.reg \.pred\s+P1;[^}]*"
RANK = r"(mapa\S+\s+%r\d+, %r\d+), \S+;"
BYTES = r"mov\.b32\s+(%r\d+), 16;(?=[^;]*\s+mbarrier\.arrive)"
COUNT = r"mov\.b32\s+(%r\d+), 1;(?=[^;]*\s+mbarrier\.init)"
PARITY = r"(try_wait[^;]*\]), 0"
OTHER_MBARRIER = r"mapa\S+\s+(%r\d+), (%r\d+), %r\d+;(?=\s+st\.async)"
MUTANTS = {
    # By what it lacks or has wrong: how peers are reached, the change, and as what it is told
    "barrier after the maxima": (False, changed(BOTH), "cluster race"),
    "barrier after the sums": (False, changed(BOTH, which=1), "race"),
    "barrier before the exit": (False, changed(BOTH, which=2), "cluster"),
    "arrival": (False, changed(r"barrier\.cluster\.arrive;", which=1), "barrier"),
    "wait": (False, changed(r"barrier\.cluster\.wait;", which=1), "race"),
    "release": (False, changed(r"cluster\.arrive;", "cluster.arrive.relaxed;", 1), "race"),
    "rank": (False, changed(RANK, r"\1, 7;"), "cluster"),
    "wait for the maxima": (True, changed(LOOP), "in-flight"),
    "wait for the sums": (True, changed(LOOP, which=1), "in-flight"),
    "barrier after the start": (True, changed(BOTH), "cluster"),
    "fence after the start": (True, changed(r"fence\.mbarrier_init\.release\.cluster;"), "mbarrier"),
    "initialisation": (True, changed(r"mbarrier\.init[^;]*;", which=1), "mbarrier"),
    "bytes to expect": (True, changed(r"mbarrier\.arrive\.expect_tx[^;]*;"), "deadlock"),
    "too few bytes": (True, changed(BYTES, r"mov.b32 \1, 8;"), "deadlock in-flight never-written race"),
    "too many bytes": (True, changed(BYTES, r"mov.b32 \1, 24;"), "deadlock"),
    "too many arrivals": (True, changed(COUNT, r"mov.b32 \1, 2;"), "deadlock"),
    "parity": (True, changed(PARITY, r"\1, 1", 1), "in-flight mbarrier"),
    "rank of a value": (True, changed(RANK, r"\1, 0;"), "cluster"),
    "two mbarriers": (
        True,
        changed(OTHER_MBARRIER, r"mapa.shared::cluster.u32 \1, %r37, %r6;", 1),
        "deadlock in-flight",
    ),
    "nothing: who has all values may exit": (True, changed(BOTH, which=1), ""),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_mutants(what: str) -> None:
    """Each is told in every order."""
    messages, change, kinds = MUTANTS[what]
    build = built(2, messages)
    ptx = change(build.ptx)
    assert ptx != build.ptx
    mutant = replace(build, ptx=ptx)
    for seed in (0, 1, 2, 3):
        if not kinds:
            softmax(mutant, 2, seed=seed)
            continue
        with pytest.raises(FaultError) as caught:
            softmax(mutant, 2, seed=seed)
        assert caught.value.fault.kind in kinds.split(), str(caught.value)
