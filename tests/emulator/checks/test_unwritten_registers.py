"""What was never written may be moved and computed with, but must not decide anything."""

from __future__ import annotations

from emulator_kit import fault, go, in_and_out, indexed


def test_poison_may_be_computed_with_but_not_decide() -> None:
    start = "ld.shared.b32 %r8, [%r6];\nadd.s32 %r9, %r8, 1;\n"
    store = "st.global.b32 [%rd12], {};\n"
    assert go(indexed(start + store.format("%r0")), in_and_out()).ok
    for use, what in (
        (store.format("%r9"), "stored to global memory"),
        ("add.s32 %r10, %r4, %r9;\nld.shared.b32 %r11, [%r10];", "an address"),
        ("setp.eq.s32 %p1, %r9, 0;\n@%p1 bra ON;\nON:", "a predicate"),
        ("setp.eq.s32 %p1, %r9, 0;\n@%p1 mov.b32 %r10, 1;", "a predicate"),
        ("st.shared.b32 [%r6], %r9;\nld.shared.b32 %r12, [%r6];\n" + store.format("%r12"), "stored to global"),
    ):
        found = fault(indexed(start + use), in_and_out(role="inout"))
        assert found.kind == "never-written" and what in found.explanation, str(found)


def test_a_register_that_was_never_written() -> None:
    assert fault(indexed("st.global.b32 [%rd12], %r30;"), in_and_out()).kind == "never-written"


def test_poison_that_is_not_selected() -> None:
    body = "setp.ge.u32 %p1, %r0, 0;\nselp.b32 %r9, %r0, %r30, %p1;\nst.global.b32 [%rd12], %r9;"
    assert go(indexed(body), in_and_out()).ok
    assert (
        fault(indexed(body.replace("selp.b32 %r9, %r0, %r30", "selp.b32 %r9, %r30, %r0")), in_and_out()).kind
        == "never-written"
    )


def test_a_register_that_only_some_lanes_wrote() -> None:
    body = "setp.lt.u32 %p1, %r0, 16;\n@%p1 mov.b32 %r9, 5;\n{}st.global.b32 [%rd12], %r9;"
    assert fault(indexed(body.format("")), in_and_out()).thread == (16, 0, 0)
    assert go(indexed(body.format("@!%p1 mov.b32 %r9, 6;\n")), in_and_out()).ok


def test_poison_of_one_half_taints_that_half_only() -> None:
    body = """
cvt.rn.f32.u32 %r9, %r0;
cvt.rn.f16x2.f32 %r10, %r30, %r9;
mov.b32 {%rs1, %rs2}, %r10;
cvt.u32.u16 %r11, %rs1;
and.b32 %r12, %r10, 65535;
shl.b32 %r13, %r10, 16;
prmt.b32 %r14, %r10, %r0, 0x5410;
shr.u32 %r15, %r10, 16;
"""
    assert go(indexed(body + "st.global.b32 [%rd12], %r11;"), in_and_out()).ok
    assert go(indexed(body + "st.global.b32 [%rd12], %r12;"), in_and_out()).ok
    assert go(indexed(body + "st.global.b32 [%rd12], %r13;"), in_and_out()).ok
    assert go(indexed(body + "st.global.b32 [%rd12], %r14;"), in_and_out()).ok
    assert fault(indexed(body + "st.global.b32 [%rd12], %r10;"), in_and_out()).kind == "never-written"
    assert fault(indexed(body + "st.global.b32 [%rd12], %r15;"), in_and_out()).kind == "never-written"
