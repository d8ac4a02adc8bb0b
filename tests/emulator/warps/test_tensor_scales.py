"""Copies to tensor memory, and block-scaled products of small floats, in one block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tensor_memory_kit import END, START, image_kernel, run, wrong

from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS
from cutegen.emulator.arithmetic.small_formats import SCALES, SMALL_FORMATS
from cutegen.emulator.warps.shared_matrices import DescriptorError
from cutegen.emulator.warps.tensor_scales import read_scales

COMMIT = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [smem+512];\n"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;\n@!%p5 bra W;\n"
WORDS, ROWS, COLUMNS = 24, 128, 8
A_AT, B_AT, SCALES_OF_A, SCALES_OF_B = 0, 4096, 4608, 5120  # bytes of the image, which is at byte 1024
D, FACTORS_A, FACTORS_B = 0, 32, 40  # columns


def descriptor(name: str, at: int, leading: int, stride: int) -> str:
    """Puts a descriptor without a swizzle of the bytes of the image from `at` on into a register."""
    fixed = 1 << 46 | stride >> 4 << 32 | leading >> 4 << 16
    text = f"mov.b32 %r16, smem;\nadd.u32 %r16, %r16, {1024 + at};\nshr.u32 %r16, %r16, 4;\n"
    return text + f"and.b32 %r16, %r16, 0x3fff;\ncvt.u64.u32 {name}, %r16;\nadd.u64 {name}, {name}, {fixed};\n"


def copy(shape: str, column: int, at: int, leading: int = 2048, stride: int = 128) -> str:
    text = descriptor("%rd20", at, leading, stride)
    return text + f"@%p1 tcgen05.cp.cta_group::1.{shape} [%r8+{column}], %rd20;\n"


def show(column: int, columns: int) -> str:
    """Each thread writes so many columns of its lane to B."""
    registers = [f"%r{20 + i}" for i in range(columns)]
    text = f"add.u32 %r19, %r9, {column};\ntcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{', '.join(registers)}}}, "
    text += f"[%r19];\nmul.wide.u32 %rd32, %r0, {4 * columns};\nadd.s64 %rd32, %rd32, %rd1;\n"
    return text + "".join(f"st.global.b32 [%rd32+{4 * i}], {one};\n" for i, one in enumerate(registers))


def image(*parts: tuple[int, np.ndarray]) -> np.ndarray:
    """The words of the image with some bytes from some places on."""
    found = np.zeros(WORDS * 512, np.uint8)
    for at, some in parts:
        found[at : at + some.size] = some.reshape(-1)
    return found.view(np.uint32)


@pytest.mark.parametrize(
    ("shape", "lanes", "columns"),
    [
        ("128x256b", [range(128)], 8),
        ("128x128b", [range(128)], 4),
        ("32x128b.warpx4", [range(32), range(32, 64), range(64, 96), range(96, 128)], 4),
        ("64x128b.warpx2::02_13", [range(64), range(64, 128)], 4),
        ("64x128b.warpx2::01_23", [[*range(32), *range(64, 96)], [*range(32, 64), *range(96, 128)]], 4),
    ],
)
def test_copies(shape: str, lanes: list, columns: int) -> None:
    """Row r of the source is in the r-th of the lanes of each copy."""
    words = np.arange(WORDS * 128, dtype=np.uint32)
    body = START + image_kernel(WORDS) + copy(shape, 8, 0) + COMMIT + WAIT + show(8, columns) + END
    _, b = run(body, words=columns, a=words)
    rows = len(lanes[0])
    source = words[: rows * 4].reshape(rows, 4)
    if columns == 8:
        source = np.concatenate([source, words[512 : 512 + rows * 4].reshape(rows, 4)], axis=1)
    for some in lanes:
        assert (b.reshape(ROWS, columns)[[*some]] == source).all()


@dataclass(frozen=True)
class Kind:
    """A kind of product with the types of A and B, the elements for each scale factor, 0 for none, and their type."""

    modifiers: str
    types: tuple[str, str]
    vector: int
    scales: str
    numbers: tuple[int, int]

    @property
    def depth(self) -> int:
        return 64 if self.types[0] == "packed" else 32

    @property
    def shape(self) -> int:
        """The instruction descriptor, with factors from byte 0 on."""
        own = (self.scales == "ue8m0") << 23 if self.vector else 1 << 4
        return self.numbers[0] << 7 | self.numbers[1] << 10 | 1 << 17 | own | 8 << 24


KINDS = {
    "mxf8": Kind("kind::mxf8f6f4.block_scale", ("e4m3", "e5m2"), 32, "ue8m0", (0, 1)),
    "mxf8 by mxf6": Kind("kind::mxf8f6f4.block_scale.block32", ("e4m3", "e2m3"), 32, "ue8m0", (0, 3)),
    "mxf6 by mxf4": Kind("kind::mxf8f6f4.block_scale.scale_vec::1X", ("e3m2", "e2m1"), 32, "ue8m0", (4, 5)),
    "mxf4": Kind("kind::mxf4.block_scale.block32", ("packed", "packed"), 32, "ue8m0", (1, 1)),
    "nvf4": Kind("kind::mxf4nvf4.block_scale.block16", ("packed", "packed"), 16, "ue4m3", (1, 1)),
    "f4 by f6, unscaled": Kind("kind::f8f6f4", ("e2m1", "e3m2"), 0, "", (5, 4)),
    "nvf4 of 32": Kind("kind::mxf4nvf4.block_scale.scale_vec::2X", ("packed", "packed"), 32, "ue8m0", (1, 1)),
}


def matrix(kind: str, rows: int, depth: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers in a type, and their bytes as they lie in shared memory: 8 rows of 16 bytes, and 16 bytes on."""
    table = F8_FORMATS[kind].values if kind in F8_FORMATS else SMALL_FORMATS["e2m1" if kind == "packed" else kind]
    bits = random.choice(np.flatnonzero(np.isin(table, range(-4, 5))), (rows, depth)).astype(np.uint8)
    if kind in F8_FORMATS:
        raw = bits
    elif kind == "packed":
        raw = bits[:, ::2] | bits[:, 1::2] << 4
    else:
        width = 4 if kind == "e2m1" else 6
        each = (bits.reshape(rows, 2, 16, 1) >> np.arange(width, dtype=np.uint8) & 1).reshape(rows, 2, -1)
        filled = np.packbits(each, axis=-1, bitorder="little")
        raw = np.concatenate([filled, np.full((rows, 2, 16 - filled.shape[2]), 0xFF, np.uint8)], axis=2)
    return table[bits], raw.reshape(rows // 8, 8, 2, 16).transpose(0, 2, 1, 3)


def factors(kind: Kind, rows: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Powers of two for each vector of each row, and their 512 bytes as tcgen05.cp wants them; ones without such."""
    if not kind.vector:
        return np.ones((rows, kind.depth)), np.zeros(512, np.uint8)
    table, count = SCALES[kind.scales], kind.depth // kind.vector
    bits = random.choice(np.flatnonzero(np.isin(table[:128], [0.5, 1, 2])), (rows, count)).astype(np.uint8)
    raw = np.zeros((32, 4, 4), np.uint8)
    for row in range(rows):
        raw[row % 32, row // 32, :count] = bits[row]
    return np.repeat(table[bits], kind.vector, axis=1), raw


def product(kind: Kind, more: int = 0, a: int = FACTORS_A) -> str:
    """The product of A and B of the image; `more` is added to the descriptor, `a` is the column of A's factors."""
    text = descriptor("%rd30", A_AT, 128, 256) + descriptor("%rd31", B_AT, 128, 256)
    text += f"mov.b32 %r17, {kind.shape + more};\nsetp.ne.u32 %p7, 0, 0;\n"
    scales = f"[%r8+{a}], [%r8+{FACTORS_B}], " * bool(kind.vector)
    return text + f"@%p1 tcgen05.mma.cta_group::1.{kind.modifiers} [%r8], %rd30, %rd31, %r17, {scales}%p7;\n"


BOTH = copy("32x128b.warpx4", FACTORS_A, SCALES_OF_A) + copy("32x128b.warpx4", FACTORS_B, SCALES_OF_B)


def body(kind: Kind, copies: str = BOTH, **more: int) -> str:
    return START + image_kernel(WORDS) + copies + product(kind, **more) + COMMIT + WAIT + show(D, COLUMNS) + END


def scaled_image(kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    """An image of A, B and their factors, and the product."""
    random = np.random.default_rng(1)
    a, raw_a = matrix(kind.types[0], ROWS, kind.depth, random)
    b, raw_b = matrix(kind.types[1], COLUMNS, kind.depth, random)
    of_a, scales_a = factors(kind, ROWS, random)
    of_b, scales_b = factors(kind, COLUMNS, random)
    parts = (A_AT, raw_a), (B_AT, raw_b), (SCALES_OF_A, scales_a), (SCALES_OF_B, scales_b)
    return image(*parts), ((a * of_a) @ (b * of_b).T).astype(np.float32)


@pytest.mark.parametrize("name", KINDS)
def test_scaled_products(name: str) -> None:
    kind = KINDS[name]
    given, expected = scaled_image(kind)
    for seed in range(2):
        _, b = run(body(kind), words=COLUMNS, a=given, seed=seed)
        assert (b.view(np.float32).reshape(ROWS, COLUMNS) == expected).all()


def test_factors_from_another_byte() -> None:
    """Bytes 0 and 2 of the cells of factors change places with 1 and 3, and the descriptor names those."""
    kind = KINDS["mxf8"]
    given, expected = scaled_image(kind)
    raw = given.view(np.uint8).copy()
    raw[SCALES_OF_A:] = raw[SCALES_OF_A:].reshape(-1, 4)[:, [1, 0, 3, 2]].reshape(-1)
    _, b = run(body(kind, more=1 << 29 | 1 << 4), words=COLUMNS, a=raw.view(np.uint32))
    assert (b.view(np.float32).reshape(ROWS, COLUMNS) == expected).all()


def one_quarter(column: int) -> str:
    """The second warp overwrites its quarter's copy of the factors in a column."""
    store = f"add.u32 %r19, %r9, {column};\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r19], {{%r10}};\n"
    store += "tcgen05.wait::st.sync.aligned;\n"
    return COMMIT + WAIT + f"setp.ne.u32 %p4, %r5, 1;\n@%p4 bra N;\n{store}N:\nbar.sync 0;\n"


MX = KINDS["mxf8"]
COMMIT_AGAIN = "V: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 1;\n@!%p5 bra V;\n"
MISTAKES = {
    "no copy of A's factors": (body(MX, BOTH[len(BOTH) // 2 :]), "never-written", "scale factors of A in lanes 0"),
    "other factors in half of the lanes": (
        body(MX, BOTH.replace("32x128b.warpx4", "64x128b.warpx2::01_23")), "tcgen05", "scale factors of A"
    ),
    "another copy in the second quarter": (
        START + image_kernel(WORDS) + BOTH + one_quarter(FACTORS_A) + product(MX) + COMMIT + COMMIT_AGAIN + END,
        "tcgen05",
        "scale factors of A in the four quarters of the lanes differ",
    ),
    "a load before the copy has ended": (
        START + image_kernel(WORDS) + BOTH + show(FACTORS_A, 4) + COMMIT + WAIT + END,
        "in-flight",
        "an asynchronous tensor core operation",
    ),
    "factors that a warp has stored, without a wait": (
        body(MX, BOTH[len(BOTH) // 2 :] + f"add.u32 %r19, %r9, {FACTORS_A};\n"
             "tcgen05.st.sync.aligned.32x32b.x4.b32 [%r19], {%r10, %r10, %r10, %r10};\nbar.sync 0;\n"),
        "in-flight",
        "stores",
    ),
    "factors of another allocation": (body(MX, a=64), "out-of-bounds", "columns 64 to 67"),
    "a copy whose source is overwritten": (
        body(MX, BOTH + f"@%p1 st.shared.b32 [smem+{1024 + SCALES_OF_A}], %r10;\n"), "in-flight", "still reads"
    ),
    "a copy beyond the shared memory": (
        body(MX, copy("128x256b", 8, 14336)), "out-of-bounds", "tcgen05 reads shared memory"
    ),
    "a type that the kind does not have": (body(MX, more=2 << 7), "tcgen05", "types of A and B are 2"),
    "factors of ue4m3": (body(MX, more=-(1 << 23)), "tcgen05", "factors of ue4m3"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(mistake: str) -> None:
    text, kind, says = MISTAKES[mistake]
    for seed in range(2):
        found = wrong(text, words=COLUMNS, a=scaled_image(MX)[0], seed=seed)
        assert found.kind == kind and says in str(found), str(found)


@pytest.mark.parametrize(
    ("bits", "kind", "count", "text"),
    [
        (0, "mxf4", 2, "ue4m3"),
        (1 << 23, "mxf4nvf4", 4, "each 16 elements"),
        (1 << 23 | 1 << 29, "mxf4", 2, "bytes 1 and 0"),
        (2 << 4, "mxf4nvf4", 4, "bytes 0 and 2"),
    ],
)
def test_factors_that_no_product_has(bits: int, kind: str, count: int, text: str) -> None:
    with pytest.raises(DescriptorError, match=text):
        read_scales(bits, kind, count)


def test_values_of_small_formats() -> None:
    """Those of the tables of OCP's Microscaling Formats, section 5.3, and of scale factors."""
    assert SMALL_FORMATS["e2m1"].tolist() == [s * v for s in (1, -1) for v in (0, 0.5, 1, 1.5, 2, 3, 4, 6)]
    for name, largest, least in (("e2m3", 7.5, 0.125), ("e3m2", 28, 0.0625)):
        values = SMALL_FORMATS[name]
        assert (values[31], values[1], values[33]) == (largest, least, -least) and (values[32:] == -values[:32]).all()
    assert SCALES["ue8m0"][[0, 127, 254]].tolist() == [2.0**-127, 1, 2.0**127] and np.isnan(SCALES["ue8m0"][255])
    assert SCALES["ue4m3"][[0x38, 0xB8, 0x7E]].tolist() == [1, 1, 448]
