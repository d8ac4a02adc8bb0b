"""Products of single instructions in one block: what each form computes, and faults that whole gemms do not reach."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_memory_kit import END, START, run, wrong

from cutegen.emulator.warps.shared_matrices import DescriptorError
from cutegen.emulator.warps.tensor_places import product_places
from cutegen.emulator.warps.tensor_product_types import read_shape
from cutegen.emulator.warps.tensor_sums import cells_of

WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;\n@!%p5 bra W;\n"
COMMIT = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [smem+512];\n"
K_MAJOR = 1 << 46 | 16 << 32 | 8 << 16  # no swizzle: 8 rows of 16 bytes, the next 16 bytes 128 on, the next rows 256 on
BF16, F32, N, M = 1 << 7 | 1 << 10, 1 << 4, 1 << 17, 1 << 24
SHAPE = BF16 | F32 | N | M * 8  # 128 by 8
ROWS, COLUMNS, DEPTH = 128, 8, 16
B_AT = 8192


def fill(a: int = 1, b: int = 1, kind: str = "bf16") -> str:
    """Thread r writes row r of A, whose elements are all r + `a`, and of the first 8 each one of B, r + `b`.

    They are of 16 bits; A lies from byte 1024 on, and B from byte 8192 on. Last comes what B's thread has, in %r15.
    """
    text = "mov.b32 %r12, smem;\nadd.u32 %r12, %r12, 1024;\nshr.u32 %r13, %r0, 3;\nand.b32 %r14, %r0, 7;\n"
    text += "mad.lo.u32 %r12, %r13, 256, %r12;\nmad.lo.u32 %r12, %r14, 16, %r12;\n"
    for place, more in ((0, a), (B_AT - 1024, b)):
        text += f"add.u32 %r15, %r0, {more};\ncvt.rn.f32.u32 %r15, %r15;\ncvt.rn.{kind}.f32 %rs1, %r15;\n"
        text += "mov.b32 %r15, {%rs1, %rs1};\nsetp.lt.u32 %p6, %r0, 8;\n"
        for part in range(8):
            text += f"{'@%p6 ' * bool(place)}st.shared.b32 [%r12+{place + part // 4 * 128 + part % 4 * 4}], %r15;\n"
    return text + "fence.proxy.async;\nbar.sync 0;\n"


def product(more: str = "", a: str = "%rd30", shape: int = SHAPE, keeps: int = 0, guard: str = "@%p1 ") -> str:
    """The product of A and B; with the mask of disabled lanes `more`."""
    text = "mov.b32 %r16, smem;\nshr.u32 %r16, %r16, 4;\nand.b32 %r16, %r16, 0x3fff;\ncvt.u64.u32 %rd30, %r16;\n"
    text += f"add.u64 %rd31, %rd30, {K_MAJOR + B_AT // 16};\nadd.u64 %rd30, %rd30, {K_MAJOR + 1024 // 16};\n"
    text += f"mov.b32 %r17, {shape};\nsetp.ne.u32 %p7, {keeps}, 0;\n"
    return text + f"{guard}tcgen05.mma.cta_group::1.kind::f16 [%r8], {a}, %rd31, %r17{more}, %p7;\n"


def show(columns: int = COLUMNS) -> str:
    """Each thread writes the row of D in its lane to B."""
    registers = [f"%r{20 + i}" for i in range(columns)]
    text = f"tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{', '.join(registers)}}}, [%r9];\n"
    text += "mad.lo.s32 %r3, %r0, 28, 0;\ncvt.u64.u32 %rd32, %r3;\nadd.s64 %rd32, %rd32, %rd12;\n"
    return text + "".join(f"st.global.b32 [%rd32+{4 * i}], {one};\n" for i, one in enumerate(registers))


def rows(b: np.ndarray) -> np.ndarray:
    """The words that threads have written, as f32."""
    return b.view(np.float32).reshape(ROWS, COLUMNS)


def expected(a: int = 1, b: int = 1) -> np.ndarray:
    return (DEPTH * np.outer(np.arange(ROWS) + a, np.arange(COLUMNS) + b)).astype(np.float32)


@pytest.mark.parametrize("seed", range(2))
def test_a_product_and_one_that_adds(seed: int) -> None:
    body = START + fill() + product() + product(keeps=1) + COMMIT + WAIT + show() + END
    _, b = run(body, words=COLUMNS, seed=seed)
    assert (rows(b) == 2 * expected()).all()


def in_cells(column: int = 16) -> str:
    """Each thread stores the row of A that it wrote last to 8 columns of its lane of tensor memory, and waits."""
    vector = ", ".join(["%r15"] * 8)
    text = f"add.u32 %r19, %r9, {column};\ntcgen05.st.sync.aligned.32x32b.x8.b32 [%r19], {{{vector}}};\n"
    return text + "tcgen05.wait::st.sync.aligned;\nbar.sync 0;\n"


FROM_CELLS = START + fill(b=1) + in_cells() + product(a="[%r8+16]") + COMMIT + WAIT


@pytest.mark.parametrize("seed", range(2))
def test_a_in_tensor_memory(seed: int) -> None:
    _, b = run(FROM_CELLS + show() + END, words=COLUMNS, seed=seed)
    assert (rows(b) == expected()).all()


def test_sums_of_16_bits_are_in_the_low_halves() -> None:
    body = START + fill(kind="f16") + product(shape=N | M * 8) + COMMIT + WAIT + show() + END
    _, b = run(body, words=COLUMNS)
    assert (b.astype(np.uint16).view(np.float16).reshape(ROWS, COLUMNS) == expected().astype(np.float16)).all()
    assert (b >> 16 == 0).all()


def test_negated_factors() -> None:
    once, twice = SHAPE | 1 << 13, SHAPE | 3 << 13
    for shape, sign in ((once, -1), (twice, 1)):
        _, b = run(START + fill() + product(shape=shape) + COMMIT + WAIT + show() + END, words=COLUMNS)
        assert (rows(b) == sign * expected()).all()


def test_disabled_lanes_keep_what_they_had() -> None:
    masks = ", {5, 0, 0xffffffff, 0x80000000}"
    body = START + fill() + product() + product(masks, keeps=1) + COMMIT + WAIT + show() + END
    _, b = run(body, words=COLUMNS)
    disabled = [0, 2, *range(64, 96), 127]
    factor = np.where(np.isin(np.arange(ROWS), disabled), 1, 2)[:, None]
    assert (rows(b) == factor * expected()).all()


def test_sums_are_cut_toward_zero() -> None:
    """2^24 and 16 ones are 2^24 + 16 exactly, and 2^25 and three halves of its last place are cut to one."""
    exact = np.array([2.0**24 + 16, 2.0**25 + 6, -(2.0**25) - 7, 2.0**25 + 3.9])
    assert cells_of(exact, "f32", "f16").view(np.float32).tolist() == [
        2.0**24 + 16,
        2.0**25 + 4,
        -(2.0**25) - 4,
        2.0**25,
    ]
    large = np.array([2.0**128 - 2.0**103, 2.0**128, -(2.0**129), np.inf])
    assert cells_of(large, "f32", "tf32").view(np.float32).tolist() == [2.0**128 - 2.0**104, np.inf, -np.inf, np.inf]
    assert cells_of(np.array([2049.0]), "f16", "f16").astype(np.uint16).view(np.float16).tolist() == [2048.0]


def test_uninitialised_rows_make_undefined_rows() -> None:
    """Row 3 of A is written in part: to store what it makes is a fault, and all other rows are defined."""
    written = "st.shared.b32 [%r12+0], %r15;"
    body = START + fill().replace(written, f"setp.ne.u32 %p8, %r0, 3;\n@%p8 {written}") + product() + COMMIT + WAIT
    load = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r9];\n"
    store = "setp.ne.u32 %p8, %r0, 3;\n@%p8 st.global.b32 [%rd12], %r20;\n"
    run(body + load + store + END)
    found = wrong(body + load + store.replace("@%p8 ", "") + END)
    assert found.kind == "never-written" and found.thread == (3, 0, 0)


def test_what_is_added_to_an_undefined_row_is_undefined() -> None:
    """Row 3 of A is whole for the second product only."""
    written, skip = "st.shared.b32 [%r12+0], %r15;", "setp.ne.u32 %p8, %r0, 3;\n@%p8 "
    again = f"{written}\nfence.proxy.async;\nbar.sync 0;\n" + product(keeps=1) + COMMIT
    again += WAIT.replace("W", "V").replace("], 0;", "], 1;")
    body = START + fill(b=1).replace(written, skip + written) + product() + COMMIT + WAIT + again
    load = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r9];\n"
    store = f"{skip}st.global.b32 [%rd12], %r20;\n"
    run(body + load + store + END)
    assert wrong(body + load + store.replace("@%p8 ", "") + END).thread == (3, 0, 0)


MISTAKES = {
    "an accumulator that is added to and was never written": (
        START + fill() + product(keeps=1) + COMMIT + WAIT + END,
        "never-written",
        "adds to an accumulator",
    ),
    "a product of rows that nobody has shown to the async proxy": (
        START + fill().replace("fence.proxy.async;", "") + product() + COMMIT + WAIT + END,
        "proxy",
        "fence.proxy.async",
    ),
    "rows beyond the shared memory": (
        START + fill() + product().replace(str(K_MAJOR + 64), str(K_MAJOR + 960)) + COMMIT + WAIT + END,
        "out-of-bounds",
        "tcgen05 reads shared memory",
    ),
    "all threads start the product": (
        START + fill() + product(guard="") + COMMIT + WAIT + END,
        "in-flight",
        "asynchronous tensor core operation",
    ),
    "a block that exits under a product": (
        START + fill() + product(", {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}") + END,
        "in-flight",
        "the block exits, while a tensor core operation",
    ),
    "a commit that nobody waits for": (START + fill() + product() + COMMIT + END, "in-flight", "asynchronous"),
    "A overwritten under the product": (
        START + fill() + product() + "@%p1 st.shared.b32 [smem+1024], %r15;\n" + COMMIT + WAIT + END,
        "in-flight",
        "still reads",
    ),
    "A overwritten before a wait for the commit": (
        START + fill() + product() + COMMIT + "@%p1 st.shared.b32 [smem+1024], %r15;\n" + WAIT + END,
        "in-flight race",
        "an asynchronous operation",
    ),
    "an arrival when all have come": (
        START + "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [smem+512], 16;\n" + 2 * COMMIT + WAIT + END,
        "mbarrier",
        "when all 1 arrivals",
    ),
    "an mbarrier that is not there": (
        START + fill() + product() + COMMIT.replace("512", "520") + END,
        "mbarrier",
        "no mbarrier",
    ),
    "D at lane 16": (
        START + fill() + "add.u32 %r8, %r8, 0x100000;\n" + product() + COMMIT + WAIT + END,
        "misaligned",
        "lane 16",
    ),
    "A in tensor memory without a wait for its store": (
        FROM_CELLS.replace("tcgen05.wait::st.sync.aligned;", "") + END,
        "in-flight",
        "reads tensor memory",
    ),
    "A in tensor memory without a barrier behind its stores": (
        FROM_CELLS.replace("wait::st.sync.aligned;\nbar.sync 0;", "wait::st.sync.aligned;") + END,
        "in-flight",
        "reads tensor memory",
    ),
    "A in tensor memory overwritten under the product": (
        FROM_CELLS.replace(COMMIT, in_cells() + COMMIT) + END,
        "race in-flight",
        "tensor memory (lanes",
    ),
    "an A of tensor memory that was never written": (
        START + fill() + product(a="[%r8+16]") + COMMIT + WAIT + END,
        "never-written",
        "A in tensor memory",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(mistake: str) -> None:
    body, kind, text = MISTAKES[mistake]
    for seed in range(2):
        found = wrong(body, words=COLUMNS, seed=seed)
        assert found.kind in kind.split() and text in str(found), str(found)


def test_a_pair_of_128_rows_has_two_halves_of_the_columns_in_each_block() -> None:
    """Element (r, n) of a block's 64 rows is in lane r of the first half of n, and in lane r + 64 of the second."""
    assert read_shape(SHAPE + N, "f16", 2).halved and not read_shape(SHAPE + N + 8 * M, "f16", 2).halved
    places = product_places(64, 32, halved=True)
    assert [(int(places.lanes[r, n]), int(places.columns[r, n])) for r, n in ((0, 0), (63, 15), (0, 16), (63, 31))] == [
        (0, 0),
        (63, 15),
        (64, 0),
        (127, 15),
    ]
    assert places.groups.size == 8 and places.every_column.size == 16


@pytest.mark.parametrize(
    ("bits", "kind", "text"),
    [
        (SHAPE + 32 * N, "f16", "N is 264"),
        (SHAPE - N, "f16", "N is 0"),
        (SHAPE - 2 * M, "f16", "M is 96"),
        (SHAPE + 8 * M, "f16", "M is 256"),
        (SHAPE | 1 << 2, "f16", "bits 0x4"),
        (SHAPE | 1 << 23, "f16", "bits 0x800000"),
        (SHAPE | 1 << 30, "f16", "bits 0x40000000"),
        (SHAPE ^ 1 << 10, "f16", "must be the same"),
        (SHAPE & ~F32, "f16", "A of bf16 cannot have"),
        (SHAPE + F32, "f16", "of no type"),
        (SHAPE, "tf32", "of kind::tf32 are 2 tf32"),
        (SHAPE + (1 << 7), "f8f6f4", "types of A and B are 2 and 1"),
        (SHAPE | 1 << 16, "f8f6f4", "multiple of 16"),
        (SHAPE + (2 << 7) | 1 << 15, "f8f6f4", "MN-major matrix of e2m3"),
        (SHAPE - 4 * M, "mxf8f6f4", "M is 64"),
    ],
)  # fmt: skip
def test_shapes_that_no_instruction_has(bits: int, kind: str, text: str) -> None:
    with pytest.raises(DescriptorError, match=text):
        read_shape(bits, kind, 1)
