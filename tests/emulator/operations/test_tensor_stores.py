"""Stores by tensor maps: what they write, and what they must wait for."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_map_kit import BOX, COLUMNS, ROWS, SIZES, THREADS, run, wrong

FILL = "st.shared.b32 [%r6], %r2;\n"
FENCE = "fence.proxy.async.shared::cta;\n"
MEET = "bar.sync 0;\n"
STORE = "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd20, {8, 3}], [smem];\n"
COMMIT = "@%p1 cp.async.bulk.commit_group;\n"
READ = "@%p1 cp.async.bulk.wait_group.read 0;\n"
WAIT = READ.replace(".read", "")
WHOLE = FILL + FENCE + MEET + STORE + COMMIT + READ


def stored(at: tuple[int, int], swizzle: int = 0) -> np.ndarray:
    """The tensor's memory after the box at these coordinates was stored, which holds a number for each thread."""
    a = np.arange(1000, 1000 + ROWS * COLUMNS, dtype=np.uint32).reshape(ROWS, COLUMNS)
    for y in range(BOX[1]):
        for x in range(BOX[0]):
            place = 64 * y + 4 * x
            place ^= (place >> 7 & (1 << swizzle) - 1) << 4
            if 0 <= at[0] + x < SIZES[0] and 0 <= at[1] + y < SIZES[1]:
                a[at[1] + y, at[0] + x] = place // 4
    return a


@pytest.mark.parametrize("swizzle", [0, 2, 3])
@pytest.mark.parametrize("at", [(0, 0), (8, 3), (-4, -1), (16, -2), (20, 0), (-16, 2)])
def test_what_the_tensor_has_is_written(at: tuple[int, int], swizzle: int) -> None:
    body = WHOLE.replace("{8, 3}", f"{{{at[0]}, {at[1]}}}")
    assert (run(body, "inout", swizzle=swizzle)[0] == stored(at, swizzle)).all()


def test_the_boxes_of_two_blocks() -> None:
    """Their coordinates are in registers."""
    body = WHOLE.replace("{8, 3}", "{%r20, %r21}")
    a, _ = run("mul.lo.u32 %r20, %r10, 16;\nmov.u32 %r21, 0;\n" + body, "inout", blocks=2)
    first, second = stored((0, 0)), stored((16, 0)) + THREADS
    assert (a[:4, :16] == first[:4, :16]).all() and (a[:4, 16:20] == second[:4, 16:20]).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("lacks", "kinds"),
    [(FENCE, "proxy"), (MEET, "race proxy never-written"), (READ, "in-flight"), (COMMIT, "in-flight")],
)
def test_what_it_must_not_lack(lacks: str, kinds: str, seed: int) -> None:
    assert wrong(WHOLE.replace(lacks, ""), "inout", seed=seed).kind in kinds.split()


@pytest.mark.parametrize("seed", range(3))
def test_the_source_must_not_change_before_the_wait_for_its_read(seed: int) -> None:
    again = "@%p1 st.shared.b32 [smem+64], 7;\n"
    assert wrong(WHOLE.replace(READ, again + READ), "inout", seed=seed).kind == "in-flight"
    run(WHOLE + again, "inout", seed=seed)
    other = "setp.eq.u32 %p3, %r0, 40;\n@%p3 st.shared.b32 [smem+64], 7;\n"
    assert wrong(WHOLE + other, "inout", seed=seed).kind in ("race", "in-flight")
    run(WHOLE + MEET + other, "inout", seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_is_there_after_the_whole_wait(seed: int) -> None:
    back = MEET + "ld.global.b32 %r21, [%rd0+320];\nst.global.b32 [%rd12], %r21;\n"  # column 8 of row 3
    assert wrong(WHOLE + back, "inout", seed=seed).kind == "unordered"
    assert (run(WHOLE + WAIT + back, "inout", seed=seed)[1] == 0).all()
    early = "@%p1 st.global.b32 [%rd0+320], 9;\n"
    assert wrong(WHOLE + early, "inout", seed=seed).kind == "unordered"
    beyond = early.replace("320", "368")  # column 20, which the tensor lacks
    assert run(WHOLE + beyond, "inout", seed=seed)[0][3, 20] == 9


def test_only_what_is_written_need_be_in_shared_memory() -> None:
    """The last four words of each row and the last two rows lie beyond the tensor's ends."""
    some = (
        "and.b32 %r20, %r0, 15;\nsetp.lt.u32 %p3, %r20, {};\nsetp.lt.u32 %p4, %r0, {};\nand.pred %p3, %p3, %p4;\n@%p3 "
    )
    assert (run(some.format(12, 32) + WHOLE, "inout")[0] == stored((8, 3))).all()
    for few in ((11, 32), (12, 27)):
        assert wrong(some.format(*few) + WHOLE, "inout").kind == "never-written"


def test_a_store_by_several_threads_of_a_warp() -> None:
    """It is one store if they agree; other warps store for themselves."""
    first = "setp.lt.u32 %p1, %r0, {};\n"
    assert (run(first.format(32) + WHOLE, "inout")[0] == stored((8, 3))).all()
    assert wrong(first.format(33) + WHOLE, "inout").kind == "unordered"
    for change in (
        WHOLE.replace("{8, 3}", "{8, %r0}"),
        WHOLE.replace("{8, 3}", "{%r20, 3}"),
        WHOLE.replace("[smem];", "[%r21];"),
    ):
        more = "shr.u32 %r20, %r0, 4;\nshl.b32 %r21, %r20, 7;\nadd.u32 %r21, %r21, %r4;\n"
        found = wrong(first.format(32) + more + change, "inout")
        assert found.kind == "tensor-map" and "threads of a warp store different boxes" in found.explanation


def test_what_does_not_fit() -> None:
    for old, new, kind in (
        ("[smem];", "[smem+64];", "misaligned"),
        ("[smem];", "[smem+896];", "out-of-bounds"),
        ("{8, 3}", "{%r30, 3}", "never-written"),
        ("[smem];", "[%r30];", "never-written"),
        ("[%rd20,", "[%rd0,", "tensor-map"),
        ("2d.global.shared::cta.tile.bulk_group [%rd20, {8, 3}]", "1d.global.shared::cta.tile.bulk_group [%rd20, {8}]",
         "tensor-map"),
    ):  # fmt: skip
        assert wrong(WHOLE.replace(old, new), "inout").kind == kind
    assert wrong(WHOLE, "in").kind == "write-to-input"
    assert wrong(WHOLE, "inout", sizes=(20, 9)).kind == "out-of-bounds"  # more than there is
    assert wrong(WHOLE, "inout", box=(16, 1), swizzle=3).kind == "tensor-map"
    cut = wrong(WHOLE, "inout", sizes=(18, SIZES[1]))
    assert cut.kind == "tensor-map" and "overwrites 8 bytes after the end of a row" in cut.explanation


def test_with_a_cache_policy() -> None:
    body = WHOLE.replace("bulk_group [%rd20, {8, 3}], [smem]", "bulk_group.L2::cache_hint [%rd20, {8, 3}], [smem], 0")
    assert (run(body, "inout")[0] == stored((8, 3))).all()
