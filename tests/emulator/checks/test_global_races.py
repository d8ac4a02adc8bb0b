"""Races for global memory, each on the least PTX that has it; and what looks like one but is none."""

from __future__ import annotations

from emulator_kit import fault, go, in_and_out, indexed


def test_two_threads_write_one_element() -> None:
    body = "shr.u32 %r3, %r0, 1;\nmul.wide.u32 %rd13, %r3, 4;\nadd.s64 %rd14, %rd1, %rd13;\nst.global.b32 [%rd14], 7;"
    found = fault(indexed(body), in_and_out(role="inout"))
    assert (found.kind, found.tensor, found.element) == ("unordered", "B", (0,))
    assert "thread 1 of block 0" in found.explanation


def test_two_blocks_write_one_element_even_in_different_batches() -> None:
    body = """
setp.eq.u32 %p1, %r1, 0;
@%p1 bra WRITE;
setp.ne.u32 %p1, %r1, 1099;
@%p1 ret;
WRITE:
mul.wide.u32 %rd13, %r0, 4;
add.s64 %rd14, %rd1, %rd13;
st.global.b32 [%rd14], 7;
"""
    found = fault(indexed(body), in_and_out(), grid=1100)
    assert (found.kind, found.block, found.element) == ("unordered", (1099, 0, 0), (0,))
    assert "thread 0 of block 0 wrote" in found.explanation


def test_an_element_that_another_thread_reads() -> None:
    body = """
xor.b32 %r3, %r0, 1;
mul.wide.u32 %rd13, %r3, 4;
add.s64 %rd14, %rd1, %rd13;
ld.global.b32 %r7, [%rd14];
{}
st.global.b32 [%rd12], %r7;
"""
    assert fault(indexed(body.format("")), in_and_out(role="inout")).kind == "unordered"
    bound = in_and_out(role="inout")
    assert go(indexed(body.format("bar.sync 0;")), bound).ok  # a barrier orders what a block does


def test_write_then_read_by_another_thread() -> None:
    body = """
st.global.b32 [%rd12], %r0;
{}
xor.b32 %r3, %r0, 1;
mul.wide.u32 %rd13, %r3, 4;
add.s64 %rd14, %rd1, %rd13;
ld.global.b32 %r7, [%rd14];
"""
    assert fault(indexed(body.format("")), in_and_out()).kind == "unordered"
    assert go(indexed(body.format("bar.sync 0;")), in_and_out()).ok


def test_an_element_that_several_threads_read() -> None:
    """Whoever of them writes it then, another one read it."""
    for writer in (0, 1, 2):
        body = f"""
ld.global.b32 %r7, [%rd1];
setp.eq.u32 %p1, %r0, {writer};
@%p1 st.global.b32 [%rd1], %r7;
"""
        found = fault(indexed(body), in_and_out(role="inout"), block=3)
        assert found.kind == "unordered" and "several threads of block 0 read" in found.explanation
