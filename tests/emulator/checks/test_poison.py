"""Bits that were never written taint what depends on them, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import fault, go, kernel, tensors

WHERE = """
.reg .b32 %never; .reg .b16 %never16; .reg .b64 %never64;
mad.wide.u32 %rd5, %r0, 8, %rd0;
cvt.rn.f32.u32 %r5, %r0;
cvt.u16.u32 %rs1, %r0;
"""


def of(body: str) -> str:
    return kernel(WHERE + body, 1)


def out() -> list:  # type: ignore[type-arg]
    return tensors((np.zeros(8, np.uint64), "inout"))


LOW, HIGH = "st.global.b32 [%rd5], %r10;", "st.global.b32 [%rd5], %r11;"
HALVES = {
    "mul.f32x2": "mov.b64 %rd6, {%r5, %never};\nmul.f32x2 %rd7, %rd6, %rd6;\nmov.b64 {%r10, %r11}, %rd7;\n",
    "fma.rn.f32x2": "mov.b64 %rd6, {%r5, %never};\nfma.rn.f32x2 %rd7, %rd6, %rd6, %rd6;\nmov.b64 {%r10, %r11}, %rd7;\n",
    "add.u16x2": "mov.b32 %r6, {%rs1, %never16};\nadd.u16x2 %r7, %r6, %r6;\nand.b32 %r10, %r7, 65535;\n"
    "shr.u32 %r11, %r7, 16;\n",
    "max.s16x2": "mov.b32 %r6, {%rs1, %never16};\nmax.s16x2 %r7, %r6, %r6;\nand.b32 %r10, %r7, 65535;\n"
    "shr.u32 %r11, %r7, 16;\n",
    "fma.rn.bf16x2": "mov.b32 %r6, {%rs1, %never16};\nfma.rn.bf16x2 %r7, %r6, %r6, %r6;\nand.b32 %r10, %r7, 65535;\n"
    "shr.u32 %r11, %r7, 16;\n",
    "ex2.approx.f16x2": "mov.b32 %r6, {%rs1, %never16};\nex2.approx.f16x2 %r7, %r6;\nand.b32 %r10, %r7, 65535;\n"
    "shr.u32 %r11, %r7, 16;\n",
    "setp.lt.f16x2": "mov.b32 %r6, {%rs1, %never16};\nsetp.lt.f16x2 %p1|%p2, %r6, %r5;\nselp.b32 %r10, 1, 2, %p1;\n"
    "selp.b32 %r11, 1, 2, %p2;\n",
    "setp.num.or.bf16x2": "mov.b32 %r6, {%rs1, %never16};\nsetp.eq.u32 %p3, %r5, 0;\n"
    "setp.num.or.bf16x2 %p1|%p2, %r6, %r6, %p3;\nselp.b32 %r10, 1, 2, %p1;\nselp.b32 %r11, 1, 2, %p2;\n",
    "bfi": "bfi.b32 %r7, %never, %r5, 16, 16;\nand.b32 %r10, %r7, 65535;\nshr.u32 %r11, %r7, 16;\n",
    "bfe": "mov.b32 %r6, {%rs1, %never16};\nbfe.u32 %r10, %r6, 0, 16;\nbfe.s32 %r11, %r6, 0, 17;\n",
    "shf": "shf.l.clamp.b32 %r7, %never, %r5, 16;\nand.b32 %r11, %r7, 65535;\nshr.u32 %r10, %r7, 16;\n",
    "dp2a": "mov.b32 %r6, {%rs1, %never16};\ndp2a.lo.u32.u32 %r10, %r5, %r6, %r5;\n"
    "dp2a.hi.u32.u32 %r11, %r5, %r6, %r5;\n",
    "brev": "mov.b32 %r6, {%rs1, %never16};\nbrev.b32 %r7, %r6;\nshr.u32 %r10, %r7, 16;\nand.b32 %r11, %r7, 65535;\n",
    "lop3": "mov.b32 %r6, {%rs1, %never16};\nlop3.b32 %r7, %r6, %r5, %r5, 0x96;\nand.b32 %r10, %r7, 65535;\n"
    "shr.u32 %r11, %r7, 16;\n",
}


@pytest.mark.parametrize("name", HALVES)
def test_a_half_taints_its_half_only(name: str) -> None:
    assert go(of(HALVES[name] + LOW), out(), block=8).ok
    assert fault(of(HALVES[name] + HIGH), out(), block=8).kind == "never-written"


def test_every_packed_type_is_taken_by_its_parts() -> None:
    """The value itself is right in the half that is known."""
    data = np.zeros(8, np.uint64)
    assert go(of(HALVES["mul.f32x2"] + LOW), tensors((data, "inout")), block=8).ok
    assert data.astype(np.uint32).view(np.float32).tolist() == [float(i * i) for i in range(8)]


CARRIED = (
    "add.u32 %r7, %r6, %r5;",
    "sub.s32 %r7, %r5, %r6;",
    "mul.lo.u32 %r7, %r6, 3;",
    "mad.lo.s32 %r7, %r6, 5, %r6;",
)
SPREAD = ("mul.hi.u32 %r7, %r6, 3;", "min.u32 %r7, %r6, %r5;", "add.sat.s32 %r7, %r6, %r5;")


@pytest.mark.parametrize("sum_", CARRIED)
def test_sums_and_products_carry_poison_upwards_only(sum_: str) -> None:
    """The compiler packs bytes with nothing, adds, and stores the lowest byte."""
    body = f"mov.b32 %r6, {{%rs1, %never16}};\nshl.b32 %r6, %r6, 8;\n{sum_}\n"
    assert go(of(body + "st.global.u16 [%rd5], %r7;\nst.global.u8 [%rd5+2], %r7;"), out(), block=8).ok
    above = body + "bfe.u32 %r7, %r7, 24, 1;\nst.global.b32 [%rd5], %r7;"
    assert fault(of(above), out(), block=8).kind == "never-written"


@pytest.mark.parametrize(
    "sum_", ["add.cc.u32 %r7, %r6, %r5", "sub.cc.u32 %r7, %r6, %r5", "mad.lo.cc.u32 %r7, %r6, 5, %r5"]
)
def test_a_carry_is_poison_where_any_bit_of_a_term_is(sum_: str) -> None:
    body = f"mov.b32 %r6, {{%rs1, %never16}};\n{sum_};\naddc.u32 %r8, %r5, 0;\n"
    assert go(of(body + "st.global.u16 [%rd5], %r7;"), out(), block=8).ok
    assert fault(of(body + "st.global.b32 [%rd5], %r7;"), out(), block=8).kind == "never-written"
    assert fault(of(body + "st.global.u8 [%rd5], %r8;"), out(), block=8).kind == "never-written"


@pytest.mark.parametrize("other", SPREAD)
def test_what_is_no_sum_of_lower_bits_is_poison_as_a_whole(other: str) -> None:
    body = f"mov.b32 %r6, {{%rs1, %never16}};\n{other}\nst.global.u8 [%rd5], %r7;"
    assert fault(of(body), out(), block=8).kind == "never-written"


def test_only_the_bits_that_are_stored_count() -> None:
    body = "mov.b32 %r6, {%rs1, %never16};\nmov.b64 %rd6, {%r6, %never};\n"
    for store in ("st.global.u16 [%rd5], %r6;", "st.global.u8 [%rd5], %r6;", "st.global.b16 [%rd5], %rd6;"):
        assert go(of(body + store), out(), block=8).ok, store
    for store in ("st.global.b32 [%rd5], %r6;", "st.global.b64 [%rd5], %rd6;", "st.global.b16 [%rd5], %never;"):
        assert fault(of(body + store), out(), block=8).kind == "never-written", store


ONES = 0x01010101
BYTES = {"dp4a": ("dp4a.s32.s32 {d}, {a}, {b}, %r5;", 1, 4), "dp2a": ("dp2a.lo.s32.s32 {d}, {a}, {b}, %r5;", 2, 2)}


@pytest.mark.parametrize("name", BYTES)
def test_a_product_with_a_known_zero_is_known(name: str) -> None:
    """The compiler picks bytes out of a register by a product with 1, 256 and so on, before all of them are written."""
    line, size, count = BYTES[name]
    setup = "mov.b32 %r6, {%rs1, %never16};\n"
    for index in range(count):
        picked = setup + line.format(d="%r10", a="%r6", b=1 << 8 * index) + LOW
        if size * index < 2:
            assert go(of(picked), out(), block=8).ok, index
        else:
            assert fault(of(picked), out(), block=8).kind == "never-written", index
    for one, other in (("%never", 0), (0, "%never")):
        assert go(of(line.format(d="%r10", a=one, b=other) + LOW), out(), block=8).ok
    for one, other, third in ((ONES, "%never", "%r5"), ("%never", ONES, "%r5"), (0, 0, "%never")):
        body = line.replace("%r5", third).format(d="%r10", a=one, b=other) + LOW
        assert fault(of(body), out(), block=8).kind == "never-written"


@pytest.mark.parametrize("operation", ["div.u32", "rem.s32", "div.s32", "rem.u32"])
def test_division_by_zero_gives_nothing_that_may_be_used(operation: str) -> None:
    """PTX leaves its result open. What is not selected does not matter."""
    body = f"{operation} %r6, 100, %r0;\n"
    found = fault(of(body + "st.global.b32 [%rd5], %r6;"), out(), block=8)
    assert (found.kind, found.thread) == ("never-written", (0, 0, 0))
    assert f"division by zero of PTX line {of(body).splitlines().index(body.strip()) + 1}" in found.explanation
    guarded = body + "setp.ne.u32 %p1, %r0, 0;\nselp.b32 %r7, %r6, 0, %p1;\nst.global.b32 [%rd5], %r7;"
    assert go(of(guarded), out(), block=8).ok
    masked = f"setp.ne.u32 %p1, %r0, 0;\nmov.b32 %r6, 0;\n@%p1 {body}st.global.b32 [%rd5], %r6;"
    data = np.zeros(8, np.uint64)
    assert go(of(masked), tensors((data, "inout")), block=8).ok
    assert data.tolist() == [0] + [100 // i if operation.startswith("div") else 100 % i for i in range(1, 8)]
