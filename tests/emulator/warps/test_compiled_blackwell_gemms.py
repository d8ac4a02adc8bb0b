"""A gemm of tcgen05 as CuTeDSL compiles it: right to the bit on the CPU, and each mistake in the compiled code seen.

Nothing here was compared with a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

from blackwell_kit import BlackwellGemm
from sweep_kit import sampled

from cutegen.emulator import FaultError
from cutegen.emulator.host.builds import Build

SIZES = 136, 100, 200  # ragged, with two blocks, more tiles of columns than accumulators, and of K than stages
ROWS_64 = {"Ld16x64bOp": "x16", "Ld16x128bOp": "x8", "Ld16x256bOp": "x4", "Ld16x32bx2Op": "x16"}
GEMMS = {
    "k-major": BlackwellGemm(),
    "mn-major": BlackwellGemm(a="M", b="N", dtype="Float16"),
    "narrow swizzles": BlackwellGemm((128, 16, 32), a="K", b="N", repeats="x16"),
    "pair": BlackwellGemm((256, 32, 64), blocks=2),
    "pair, mn-major": BlackwellGemm((256, 64, 64), a="M", b="N", dtype="Float16", blocks=2),
    "tf32": BlackwellGemm((128, 32, 32), dtype="TFloat32"),
    "tf32, mn-major": BlackwellGemm((128, 32, 32), a="M", b="N", dtype="TFloat32"),
    "e4m3, mn-major": BlackwellGemm((128, 32, 64), a="M", b="N", dtype="Float8E4M3FN"),
    **{f"64 rows by {load}": BlackwellGemm((64, 32, 64), load=load, repeats=x) for load, x in ROWS_64.items()},
    "e4m3 by e5m2": BlackwellGemm((128, 32, 128), dtype="Float8E4M3FN Float8E5M2"),
}


@pytest.mark.parametrize("name", sampled(GEMMS))
def test_right_to_the_bit(name: str, tmp_path: Path) -> None:
    gemm = GEMMS[name]
    assert gemm.run(gemm.built(tmp_path), SIZES, orders=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return GEMMS["k-major"].built(tmp_path_factory.mktemp("blackwell"))


Change = Callable[[str], str]

TRY, THROUGH = r"mbarrier\.try_wait\.parity\S* P1, .*;", "setp.eq.u32 P1, 0, 0;"
EMPTY, FREE, FULL, READY = range(4)  # of those tries, in the order of the text
COMMIT = r"tcgen05\.commit\S+\s+\[\S+\];"
OF_STAGE, OF_ACCUMULATOR = range(2)
PRODUCT, DEALLOC = r"tcgen05\.mma.*;", r"tcgen05\.dealloc\S+\s+(%r\d+), %r\d+;"
ALLOCATE = r"(mov\.b32\s+%r\d+, )64;(\s+tcgen05\.alloc.*;)"
ELECTED = r"elect\.sync\s+(%r\d+)\|(%p\d+), -1;(\s+not\.pred.*;\s+.*bra.*;\s+tcgen05\.commit)"
BY_LANE_1 = r"mov.u32 \1, %laneid;\nsetp.eq.u32 \2, \1, 1;\3"
SHAPE, M_64, N = r"selp\.b32\s+%r\d+, (\d+), (\d+), %p\d+;\s+or\.b32", -(4 << 24), 1 << 17
DESCRIPTOR, OF_A, OF_B = r"or\.b64\s+%rd\d+, %rd\d+, (\d+);", 0, 1
VERSION, SWIZZLE, STRIDE = 1 << 46, 1 << 61, 1 << 32
LOADED = r"(tcgen05\.ld\S+ \{[^}]*\}, \[\S+\];)(.*?)(mbarrier\.arrive\.shared\.b64 %rd\d+, \[\S+\]), %r\d+;"
ALLOCATED = (
    r"(setp\S+\s+%p\d+, %r\d+, 4;\s+@\S+\s+bra\s+\S+\s+mov\.b32.*;\s+tcgen05\.alloc.*;\s+\S+:)(\s+bar\.sync\s+0;)"
)
QUARTER = r"(and\.b32\s+%r\d+, %r\d+, )14680064;"


def to(pattern: str, text: str, nth: int | None = None) -> Change:
    """Changes what a pattern finds: its match of that number, or all of them."""

    def change(ptx: str) -> str:
        found = list(re.finditer(pattern, ptx, re.DOTALL if ".*?" in pattern else 0))
        for one in reversed(found if nth is None else [found[nth]]):
            ptx = ptx[: one.start()] + one.expand(text) + ptx[one.end() :]
        return ptx

    return change


def plus(pattern: str, more: int, nth: int = 0) -> Change:
    """Adds to the numbers in the groups of a pattern's match of that number."""

    def change(ptx: str) -> str:
        for found in list(re.finditer(pattern, ptx))[nth : nth + 1]:
            for group in range(found.re.groups, 0, -1):
                ptx = ptx[: found.start(group)] + str(int(found[group]) + more) + ptx[found.end(group) :]
        return ptx

    return change


def earlier_commit(which: int) -> Change:
    """Brings a commit before the first product of its stage."""

    def change(ptx: str) -> str:
        commit = re.findall(COMMIT, ptx)[which]
        first = re.findall(PRODUCT, ptx)[0]
        return ptx.replace(commit, "").replace(first, f"{commit}\n{first}")

    return change


MISTAKES: dict[str, tuple[Change, str]] = {
    "a product before its operands have come": (to(TRY, THROUGH, FULL), "in-flight"),
    "a load before its stage is free": (to(TRY, THROUGH, EMPTY), "in-flight mbarrier"),
    "a product before its accumulator is free": (to(TRY, THROUGH, FREE), "race"),
    "an accumulator given back before it is read": (to(LOADED, r"\3, 1;\n\1\2"), "race in-flight"),
    "accumulators read before they are there": (to(TRY, THROUGH, READY), "in-flight never-written"),
    "no commit of a stage": (to(COMMIT, "", OF_STAGE), "deadlock"),
    "no commit of an accumulator": (to(COMMIT, "", OF_ACCUMULATOR), "deadlock"),
    "a stage's commit before its products": (earlier_commit(OF_STAGE), "in-flight race"),
    "a stage's commit by another lane": (to(ELECTED, BY_LANE_1, OF_STAGE), "in-flight"),
    "an accumulator's commit by another lane": (to(ELECTED, BY_LANE_1, OF_ACCUMULATOR), "in-flight"),
    "no dealloc": (to(DEALLOC, ""), "tcgen05"),
    "a dealloc of another count": (to(DEALLOC, r"tcgen05.dealloc.cta_group::1.sync.aligned.b32 \1, 32;"), "tcgen05"),
    "an alloc of 48 columns": (to(ALLOCATE, r"\g<1>48;\2"), "tcgen05"),
    "an alloc of half of the columns": (to(ALLOCATE, r"\g<1>32;\2"), "out-of-bounds"),
    "an alloc after a relinquishment": (
        to(ALLOCATE, r"\g<1>64;\ntcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\2"),
        "tcgen05",
    ),
    "an accumulator beyond the allocation": (to(r"(tcgen05\.mma\S+ \[%r\d+)\]", r"\1+64]"), "out-of-bounds"),
    "all warps read the first quarter": (to(QUARTER, r"\g<1>0;"), "tcgen05"),
    "the address is read without a barrier": (to(ALLOCATED, r"\2\n\1"), "race"),
    "no fence of the mbarriers": (to(r"fence\.mbarrier_init\S+;", ""), "mbarrier"),
    "a product of 64 rows": (plus(SHAPE, M_64), "never-written"),
    "a product of 16 columns": (plus(SHAPE, -2 * N), "never-written"),
    "a product of 256 columns": (plus(SHAPE, 28 * N), "out-of-bounds"),
    "a product of 96 rows": (plus(SHAPE, M_64 // 2), "tcgen05"),
    "a product of tf32": (plus(SHAPE, 1 << 7), "tcgen05"),
    "A's descriptor is Hopper's": (plus(DESCRIPTOR, -VERSION, OF_A), "tcgen05"),
    "B's descriptor is Hopper's": (plus(DESCRIPTOR, -VERSION, OF_B), "tcgen05"),
    "a swizzle that is not known": (plus(DESCRIPTOR, SWIZZLE, OF_A), "tcgen05"),
    "the first product adds": (to(r"(mov\.pred\s+%p\d+), 0;", r"\1, -1;"), "never-written"),
    "too many bytes are expected": (to(r"(mov\.b32\s+%r\d+), 20480;", r"\1, 24576;"), "deadlock"),
    "too few bytes are expected": (to(r"(mov\.b32\s+%r\d+), 20480;", r"\1, 16384;"), "in-flight deadlock"),
}


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, made: Build) -> None:
    """In each of two orders."""
    change, kinds = MISTAKES[mistake]
    ptx = change(made.ptx)
    assert ptx != made.ptx
    for seed in (0, 1):
        with pytest.raises(FaultError) as caught:
            GEMMS["k-major"].run(replace(made, ptx=ptx), SIZES, seed=seed)
        assert caught.value.fault.kind in kinds.split(), str(caught.value)


CLUSTER = r"barrier\.cluster\.arrive;\s+barrier\.cluster\.wait;"
AT_START, AT_END = range(2)
EXPECTED = r"(mov\.b32\s+%r\d+), 36864;"
COMMITTED = r"(tcgen05\.commit.*), %rs\d+;"


def late_barrier(ptx: str) -> str:
    """Brings the last barrier of the cluster behind the dealloc."""
    barrier = re.findall(CLUSTER, ptx)[AT_END]
    start, end = ptx.rsplit(barrier, 1)
    return start + end.replace("ret;", f"{barrier}\nret;")


PAIR_MISTAKES: dict[str, tuple[Change, str]] = {
    "a product before its operands have come": (to(TRY, THROUGH, FULL), "in-flight"),
    "a load before its stage is free": (to(TRY, THROUGH, EMPTY), "in-flight mbarrier race"),
    "a product before its accumulator is free": (to(TRY, THROUGH, FREE), "race"),
    "accumulators read before they are there": (to(TRY, THROUGH, READY), "in-flight never-written"),
    "a stage's commit to the even block only": (to(COMMITTED, r"\1, 1;", OF_STAGE), "deadlock"),
    "an accumulator's commit to the odd block only": (to(COMMITTED, r"\1, 2;", OF_ACCUMULATOR), "deadlock in-flight"),
    "a commit to more blocks than there are": (to(COMMITTED, r"\1, 7;", OF_STAGE), "cluster"),
    "a commit of one block": (to(r"(tcgen05\.commit\.cta_group::)2", r"\g<1>1"), "tcgen05"),
    "one product of one block": (
        to(r"(tcgen05\.mma\.cta_group::)2(.* \{(?:%r\d+, ){3}%r\d+), .*\}", r"\g<1>1\2}", 2),
        "tcgen05",
    ),
    "a product of 128 rows": (plus(SHAPE, 2 * M_64), "never-written"),
    "bytes of one block are expected": (to(EXPECTED, r"\1, 18432;"), "in-flight deadlock mbarrier"),
    "accumulators given back at the own block": (
        to(r"mapa\S+\s+(%r\d+), (%r\d+), 0;", r"mov.u32 \1, \2;"),
        "deadlock mbarrier",
    ),
    "loads counted at the own block": (to(r"(and\.b32\s+%r\d+, %r\d+), -16777224;", r"\1, -8;"), "deadlock"),
    "no barrier of the cluster at the start": (to(CLUSTER, "", AT_START), "cluster mbarrier"),
    "a dealloc before the peer's loads": (late_barrier, "race out-of-bounds"),
    "no dealloc": (to(DEALLOC, ""), "tcgen05"),
}  # fmt: skip


@pytest.fixture(scope="module")
def made_for_pairs(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return GEMMS["pair"].built(tmp_path_factory.mktemp("pairs"))


@pytest.mark.parametrize("mistake", sampled(PAIR_MISTAKES))
def test_a_mistake_of_a_pair_is_seen(mistake: str, made_for_pairs: Build) -> None:
    """In each of two orders."""
    change, kinds = PAIR_MISTAKES[mistake]
    ptx = change(made_for_pairs.ptx)
    assert ptx != made_for_pairs.ptx
    for seed in (0, 1):
        with pytest.raises(FaultError) as caught:
            GEMMS["pair"].run(replace(made_for_pairs, ptx=ptx), SIZES, seed=seed)
        assert caught.value.fault.kind in kinds.split(), str(caught.value)


@pytest.mark.sweep
def test_products_that_both_blocks_of_a_pair_start(tmp_path: Path) -> None:
    gemm = GEMMS["pair"]
    made = gemm.built(tmp_path, "warp == MULTIPLIER and rank == 0", "warp == MULTIPLIER")
    for seed in (0, 1):
        with pytest.raises(FaultError) as caught:
            gemm.run(made, SIZES, seed=seed)
        assert caught.value.fault.kind in ("deadlock", "mbarrier", "in-flight")


@pytest.mark.parametrize("more", [2 * SWIZZLE, -32 * STRIDE], ids=["half of the swizzle", "half of the stride"])
@pytest.mark.parametrize("which", [OF_A, OF_B], ids=["A", "B"])
def test_another_layout_gives_a_wrong_result(which: int, more: int, made: Build) -> None:
    """No rule is broken: only a reference tells."""
    assert not GEMMS["k-major"].run(replace(made, ptx=plus(DESCRIPTOR, more, which)(made.ptx)), SIZES)
