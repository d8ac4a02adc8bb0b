"""Hopper's gemms among CUTLASS's examples, as they are: right to the bit, and each mistake in the compiled code seen.

They run where the environment variable CUTLASS_EXAMPLES says where the examples are (see `cutlass_kit`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import pytest
from cutlass_kit import FOLDER, Gemm
from sweep_kit import sampled

from cutegen.emulator import FaultError
from cutegen.emulator.host.builds import Build

pytest.importorskip("cutlass")
pytestmark = pytest.mark.skipif(not FOLDER, reason="CUTLASS_EXAMPLES does not say where CUTLASS's examples are")

CLUSTERS = [(1, 1), (2, 1), (1, 2), (2, 2)]


@pytest.mark.parametrize("majors", ["KKN", "MNN", "KNM"])
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("example", ["dense_gemm", "dense_gemm_persistent"])
def test_right_to_the_bit(example: str, cluster: tuple[int, int], majors: str) -> None:
    """In tiles that are whole and not; the persistent one computes several with each block."""
    gemm = Gemm(example, (128, 64), cluster, majors, clusters=1)
    made = gemm.build()
    assert gemm.run(made, (264, 136, 136, 1), orders=2)


def test_two_warpgroups_that_multiply() -> None:
    """Along more tiles of k than stages, and over a batch."""
    gemm = Gemm("dense_gemm_persistent", (128, 256), (2, 1))
    assert gemm.run(gemm.build(), (264, 256, 520, 2), seed=1)


@lru_cache
def persistent() -> tuple[Gemm, Build]:
    gemm = Gemm("dense_gemm_persistent", (128, 64), (2, 1), clusters=1)
    return gemm, gemm.build()


ALL = slice(None)
TRY, THROUGH = r"mbarrier\.try_wait\.parity\S* P1, .*;", "setp.eq.u32 P1, 0, 0;"
EMPTY, TAIL, FULL = (
    slice(0, 7),
    slice(7, 15),
    slice(15, None),
)  # of those tries: what the producer and consumers wait for
BAR = r"bar\.sync\s+1, 128;"
ARRIVE = r"mbarrier\.arrive\.shared::cluster.*;"
BYTES = r"(mbarrier\.arrive\.expect_tx\S+ \S+ \S+) \S+;"
READ = r"(cp\.async\.bulk\.wait_group\.read\s+)3;"
WAIT = r"(wgmma\.wait_group\.sync\.aligned\s+)1;"
# what is changed, at which of its places, to what, and what is then seen
MISTAKES = {
    "a product before its operands have come": (TRY, FULL, THROUGH, "in-flight"),
    "a load before its stage is free": (TRY, EMPTY, THROUGH, "in-flight mbarrier race"),
    "a block that exits before its peer": (TRY, TAIL, THROUGH, "cluster"),
    "no barrier of the cluster": (r"barrier\.cluster\.\S+;", ALL, "", "cluster mbarrier"),
    "no fence of the mbarriers": (r"fence\.mbarrier_init\S+;", ALL, "", "mbarrier"),
    "no proxy fence": (r"fence\.proxy\S+;", ALL, "", "proxy"),
    "no barrier before a store": (BAR, slice(0, None, 2), "", "race"),
    "no barrier behind the wait for a store": (BAR, slice(1, None, 2), "", "race"),
    "no wait for stores": (READ, ALL, "", "in-flight"),
    "a wait for stores of long ago": (READ, ALL, r"\g<1>5;", "in-flight"),
    "no last wait for stores": (r"cp\.async\.bulk\.wait_group\.read\s+0;", ALL, "", "in-flight"),
    "stores in no group": (r"cp\.async\.bulk\.commit_group;", ALL, "", "in-flight"),
    "no wait for products": (WAIT, ALL, "", "race"),
    "a wait that leaves one more product": (WAIT, ALL, r"\g<1>2;", "race"),
    "no last wait for products": (r"wgmma\.wait_group\S+\s+0;", ALL, "", "in-flight never-written"),
    "no fence of registers": (r"wgmma\.fence\.sync\.aligned;", ALL, "", "wgmma"),
    "products in no group": (r"wgmma\.commit_group\.sync\.aligned;", ALL, "", "in-flight never-written"),
    "a multicast to one block": (r"(mov\.b16\s+%rs\d+), 3;", ALL, r"\g<1>, 1;", "deadlock"),
    "a multicast to three blocks": (r"(mov\.b16\s+%rs\d+), 3;", ALL, r"\g<1>, 7;", "cluster"),
    "a stage is never given back": (ARRIVE, slice(0, 1), "", "deadlock"),
    "a stage is given back twice": (ARRIVE, ALL, r"\g<0>\n\g<0>", "mbarrier in-flight"),
    "a stage is given back to rank 0": (r"(mapa\S+\s+%r\d+, %r\d+), %r\d+;", ALL, r"\g<1>, 0;", "mbarrier in-flight"),
    "too many bytes are expected": (BYTES, ALL, r"\g<1> 32768;", "deadlock"),
    "too few bytes are expected": (BYTES, slice(0, 1), r"\g<1> 16384;", "in-flight never-written"),
    "one load fewer": (r"cp\.async\.bulk\.tensor\S+shared::cta\.global.*;", slice(0, 1), "", "deadlock"),
    "one store fewer": (r"cp\.async\.bulk\.tensor\S+global\.shared.*;", slice(0, 1), "", "output-not-written"),
    "a store elsewhere": (r"(bulk_group\S+ \[%rd\d+), \{(\S+), (\S+),", slice(0, 1), r"\1, {\3, \2,", "unordered"),
}


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str) -> None:
    """In each of two orders."""
    pattern, where, text, kinds = MISTAKES[mistake]
    gemm, made = persistent()
    ptx = made.ptx
    for found in reversed(list(re.finditer(pattern, ptx))[where]):
        ptx = ptx[: found.start()] + found.expand(text) + ptx[found.end() :]
    assert ptx != made.ptx
    for seed in (0, 1):
        with pytest.raises(FaultError) as caught:
            gemm.run(replace(made, ptx=ptx), (264, 136, 200, 1), seed=seed)
        assert caught.value.fault.kind in kinds.split()
