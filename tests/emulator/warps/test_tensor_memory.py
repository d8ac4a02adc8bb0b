"""Tensor memory: allocations, loads and stores by warps, and what orders them."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_memory_kit import ALLOCATE, END, FREE, START, run, wrong

SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
WAIT_ST, WAIT_LD = "tcgen05.wait::st.sync.aligned;\n", "tcgen05.wait::ld.sync.aligned;\n"
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
STORE = "ld.global.b32 %r10, [%rd11];\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r10};\n"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r9];\nst.global.b32 [%rd12], %r20;\n"


@pytest.mark.parametrize("seed", range(2))
def test_what_is_stored_is_loaded(seed: int) -> None:
    a, b = run(START + STORE + WAIT_ST + LOAD + END, seed=seed)
    assert (a == b).all()


def cells(shape: str, count: int) -> np.ndarray:
    """The number of the cell, 64 a lane, of each register of a move of the first warp, as the figures of the PTX ISA's
    section 9.7.16.2.3 show it, and 40 columns between the halves of 16x32bx2."""
    found = np.zeros((SHAPES[shape] * count, 32), np.int64)
    for register, thread in np.ndindex(found.shape):
        pair, group = divmod(thread, 4)[::-1]
        lane, column = {
            "32x32b": (thread, register),
            "16x64b": (group + 8 * (pair % 2), 2 * register + pair // 2),
            "16x128b": (group + 8 * (register % 2), 4 * (register // 2) + pair),
            "16x256b": (group + 8 * (register // 2 % 2), 8 * (register // 4) + 2 * pair + register % 2),
            "16x32bx2": (thread % 16, register + 40 * (thread // 16)),
        }[shape]
        found[register, thread] = 64 * lane + column
    return found


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("shape", [*SHAPES])
def test_shapes_reach_the_cells_of_the_documented_figures(shape: str, count: int) -> None:
    """Numbers that a thread a lane stores in 64 columns are loaded by the shape, and its store is loaded back."""
    registers = [f"%r{20 + i}" for i in range(SHAPES[shape] * count)]
    vector, more = "{" + ", ".join(registers[:16]) + "}", ", 40" * (shape == "16x32bx2")
    if len(registers) > 16:
        pytest.skip("more registers than the kernel has")
    fill = "shl.b32 %r3, %r0, 6;\nmov.b32 %r6, %r9;\nmov.b32 %r7, 0;\n"
    fill += "F: tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6], {%r3};\nadd.u32 %r3, %r3, 1;\nadd.u32 %r6, %r6, 1;\n"
    fill += "add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p3, %r7, 64;\n@%p3 bra F;\n" + WAIT_ST
    load = f"tcgen05.ld.sync.aligned.{shape}.x{count}.b32 {vector}, [%r9]{more};\n"
    show = "".join(f"st.global.b32 [%rd12+{128 * i}], {one};\n" for i, one in enumerate(registers))
    _, b = run(START + fill + load + show + END, threads=32, words=16)
    assert (b.reshape(16, 32)[: len(registers)] == cells(shape, count)).all()


@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x128b", "16x256b"])
def test_packed_moves_take_the_low_halves_of_two_columns(shape: str) -> None:
    """Each thread stores two numbers to each register of a move; columns count double."""
    registers = [f"%r{20 + i}" for i in range(SHAPES[shape])]
    vector = "{" + ", ".join(registers) + "}"
    fill = "".join(f"mad.lo.u32 {one}, %r0, 8, {i};\nmul.lo.u32 {one}, {one}, 65537;\nadd.u32 {one}, {one}, 0x70000;\n"
                   for i, one in enumerate(registers))  # fmt: skip
    store = f"tcgen05.st.sync.aligned.{shape}.x1.unpack::16b.b32 [%r9], {vector};\n"
    load = f"tcgen05.ld.sync.aligned.{shape}.x1.pack::16b.b32 {vector}, [%r9];\n"
    show = "".join(f"st.global.b32 [%rd12+{128 * i}], {one};\n" for i, one in enumerate(registers))
    zero = "".join(f"mov.b32 {one}, 0;\n" for one in registers)
    _, b = run(START + fill + store + WAIT_ST + zero + load + show + END, threads=32, words=8)
    numbers = 8 * np.arange(32) + np.arange(len(registers))[:, None]
    assert (b.reshape(8, 32)[: len(registers)] == numbers + (numbers + 7 << 16)).all()
    whole = store + WAIT_ST + "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r21}, [%r9];\n"
    whole += "st.global.b32 [%rd12], %r20;\nst.global.b32 [%rd12+128], %r21;\n"
    if shape == "32x32b":  # each half has a column of its own
        _, b = run(START + fill + whole + END, threads=32, words=2)
        assert (b.reshape(2, 32) == numbers + [[0], [7]]).all()


def test_an_allocation_waits_for_room() -> None:
    """The second warp gets all columns once the first has freed its own."""
    take = ALLOCATE.replace("64", "512")
    body = f"""
    @%p2 bra OTHER;
    {take}
    bar.warp.sync -1;
    ld.shared.b32 %r8, [smem];
    bar.arrive 1, 64;
    {FREE.replace("64", "512")}
    ret;
    OTHER:
    bar.sync 1, 64;
    {take.replace("[smem]", "[smem+4]")}
    bar.warp.sync -1;
    ld.shared.b32 %r8, [smem+4];
    {FREE.replace("64", "512")}
    st.global.b32 [%rd12], %r8;
    """
    for seed in range(3):
        _, b = run(body, threads=64, seed=seed)
        assert not b.any()


def test_several_allocations_wait_at_once() -> None:
    """Two warps get half of the columns each once the first has freed all of them."""
    all_of_them, half = ALLOCATE.replace("64", "512"), ALLOCATE.replace("64", "256").replace("[smem]", "[%r12]")
    body = f"""
    shl.b32 %r12, %r5, 2;
    add.u32 %r12, %r12, %r4;
    @%p2 bra OTHERS;
    {all_of_them}
    bar.warp.sync -1;
    ld.shared.b32 %r8, [smem];
    bar.arrive 1, 96;
    {FREE.replace("64", "512")}
    ret;
    OTHERS:
    bar.sync 1, 96;
    {half}
    bar.warp.sync -1;
    ld.shared.b32 %r8, [%r12];
    {FREE.replace("64", "256")}
    st.global.b32 [%rd12], %r8;
    """
    for seed in range(4):
        _, b = run(body, threads=96, seed=seed)
        assert {*b[32:64].tolist(), *b[64:].tolist()} <= {0, 256}


def test_an_allocation_that_never_finds_room() -> None:
    found = wrong(START + "@%p2 bra X;\n" + ALLOCATE.replace("[smem]", "[smem+4]") * 8 + "X:\n" + END)
    assert found.kind == "deadlock" and "0 to 63" in found.explanation


def between(warp: int, text: str) -> str:
    """Instructions of one warp only."""
    return f"{{\nsetp.ne.u32 %p4, %r5, {warp};\n@%p4 bra N;\n{text}N:\n}}\n"


FULL, FIFTH = "bar.sync 0;\n", "setp.ne.u32 %p4, %r5, 4;"
MISTAKES = {
    "no wait for the store": (START + STORE + LOAD + END, "in-flight", "no tcgen05.wait::st"),
    "columns that nobody has written": (START + LOAD + END, "never-written", "tensor memory"),
    "columns of nobody": (START + STORE.replace("%r9]", "%r9+64]") + END, "out-of-bounds", "0 to 63"),
    "a store that overwrites what another warp reads": (
        START + between(0, STORE + WAIT_ST) + FULL + between(0, LOAD) + between(4, STORE) + END,
        "race",
        "nothing orders the two",
    ),
    "a load of what another warp stores": (
        START + between(0, STORE + WAIT_ST) + between(4, LOAD) + END,
        "in-flight",
        "nothing orders this after",
    ),
    "columns that were written before they were freed": (
        START + STORE + WAIT_ST + FULL + between(0, FREE + ALLOCATE.replace("[smem]", "[smem+4]")) + FULL + LOAD + END,
        "never-written",
        "tensor memory",
    ),
    "no dealloc": (START + FULL, "tcgen05", "64 columns"),
    "a dealloc under a load of another warp": (
        START + STORE + WAIT_ST + LOAD + END.replace("bar.sync 0;", ""),
        "race in-flight",
        "frees tensor memory",
    ),
    "a dealloc twice": (START + END + "@%p2 bra Y;\n" + FREE + "Y:\n", "tcgen05", "allocated none"),
    "other lanes than the warp's": (
        START + between(1, STORE.replace("%r9]", "%r8]")) + END,
        "tcgen05",
        "warp 1 reaches lanes 32 to 63",
    ),
    "lanes of a warp give two addresses": (
        START + "add.u32 %r9, %r9, %r0;\n" + STORE + END,
        "tcgen05",
        "different operands",
    ),
    "half of a warp loads": (START + STORE + WAIT_ST + "setp.lt.u32 %p5, %r0, 16;\n@%p5 bra Z;\n" + LOAD + "Z:\n" + END,
                             "converged", "all threads of a warp"),
    "more columns than before": (START + "@%p2 bra V;\n" + ALLOCATE.replace("64", "128") + "V:\n" + END,
                                 "tcgen05", "more than it has before"),
    "an allocation after a relinquishment": (START + "@%p2 bra U;\n" + RELINQUISH + ALLOCATE + "U:\n" + END,
                                             "tcgen05", "relinquish"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(mistake: str) -> None:
    body, kinds, text = MISTAKES[mistake]
    for seed in range(2):
        found = wrong(body, threads=160 if FIFTH in body else 128, seed=seed)
        assert found.kind in kinds.split() and text in str(found), str(found)


def test_warps_of_one_quarter_are_ordered_by_a_barrier() -> None:
    body = START + between(0, STORE + WAIT_ST) + FULL + between(4, LOAD) + FULL + between(0, STORE + WAIT_ST) + END
    a, b = run(body, threads=160)
    assert b[128:].tolist() == a[:32].tolist()
