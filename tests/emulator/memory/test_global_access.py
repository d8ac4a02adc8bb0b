"""Faults of accesses to global memory, each on the least PTX that has it; and what looks like one but is none."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import fault, go, in_and_out, indexed, numbers, tensors


@pytest.mark.parametrize(("shift", "thread", "says"), [(4, 31, "4 bytes past the end of A"), (-4, 0, "4 bytes before")])
def test_load_out_of_bounds(shift: int, thread: int, says: str) -> None:
    found = fault(indexed(f"ld.global.b32 %r3, [%rd11+{shift}];"), in_and_out())
    assert (found.kind, found.tensor, found.thread, found.block) == ("out-of-bounds", "A", (thread, 0, 0), (0, 0, 0))
    assert says in found.explanation
    assert found.element == ((32,) if shift > 0 else (-1,))
    assert "ld.global.b32 %r3" in found.text and found.line is not None
    assert says in str(found)


def test_the_block_is_named() -> None:
    found = fault(indexed("ld.global.b32 %r3, [%rd11];"), in_and_out(70), grid=3)
    assert (found.block, found.thread) == ((2, 0, 0), (6, 0, 0))


def test_vector_that_is_half_out_of_bounds() -> None:
    body = "setp.ne.u32 %p1, %r0, 0;\n@%p1 ret;\nld.global.v4.b32 {%r20,%r21,%r22,%r23}, [%rd0+112];\n"
    found = fault(indexed(body), in_and_out(30))
    assert found.kind == "out-of-bounds" and "8 bytes past the end" in found.explanation


def test_a_gap_between_rows_is_out_of_bounds() -> None:
    whole = np.zeros((4, 10), np.uint32)
    found = fault(indexed("ld.global.b32 %r3, [%rd11];"), tensors((whole[:, :8], "in"), (numbers(), "out")), block=10)
    assert found.kind == "out-of-bounds" and found.element == (0, 8)
    assert "gap between the rows of A" in found.explanation


def test_a_store_into_a_gap() -> None:
    whole = np.zeros((4, 10), np.uint32)
    bound = tensors((numbers(), "in"), (whole[:, :8], "inout"))
    assert fault(indexed("st.global.b32 [%rd12], %r0;"), bound, block=10).element == (0, 8)
    assert not whole[:, 8:].any()


def test_one_tensor_is_not_reached_through_another() -> None:
    """By the distance of the two in this process: the emulated addresses are not those."""
    both = np.zeros(64, np.uint32)
    bound = tensors((both[:32], "in"), (both[32:], "out"))
    assert fault(indexed("st.global.b32 [%rd11+128], %r0;"), bound).kind == "out-of-bounds"


def test_misaligned() -> None:
    found = fault(indexed("ld.global.v2.b32 {%r20, %r21}, [%rd11];"), in_and_out())
    assert (found.kind, found.thread) == ("misaligned", (1, 0, 0))
    found = fault(indexed("st.shared.v2.b32 [%r6], {%r0, %r0};"), in_and_out())
    assert (found.kind, found.thread, found.address) == ("misaligned", (1, 0, 0), 4)


def test_write_to_an_input() -> None:
    found = fault(indexed("st.global.b32 [%rd11], %r0;"), in_and_out())
    assert (found.kind, found.tensor, found.element) == ("write-to-input", "A", (0,))


def test_output_that_is_not_written() -> None:
    found = fault(indexed("setp.lt.u32 %p1, %r0, 30;\n@%p1 st.global.b32 [%rd12], %r0;"), in_and_out())
    assert (found.kind, found.tensor, found.element) == ("output-not-written", "B", (30,))
    assert "2 of 32" in found.explanation
    assert go(indexed("setp.lt.u32 %p1, %r0, 30;\n@%p1 st.global.b32 [%rd12], %r0;"), in_and_out(role="inout")).ok


def test_output_that_is_read_before_it_is_written() -> None:
    body = "ld.global.b32 %r3, [%rd12];\nst.global.b32 [%rd12], %r3;"
    assert fault(indexed(body), in_and_out()).kind == "never-written"
    assert go(indexed(body), in_and_out(role="inout")).ok


def test_generic_addresses_of_both_memories_in_one_access() -> None:
    """Even threads mean shared memory, odd ones the tensor."""
    body = """
cvt.u64.u32 %rd13, %r6;
cvta.shared.u64 %rd13, %rd13;
and.b32 %r7, %r0, 1;
setp.eq.u32 %p1, %r7, 0;
selp.b64 %rd14, %rd13, %rd12, %p1;
st.b32 [%rd14], %r0;
ld.b32 %r8, [%rd14];
st.global.b32 [%rd12], %r8;
"""
    out = np.zeros(32, np.uint32)
    assert go(indexed(body), tensors((numbers(), "in"), (out, "out"))).ok and (out == numbers()).all()
    found = fault(indexed(body, shared=64), in_and_out())
    assert (found.kind, found.thread) == ("out-of-bounds", (16, 0, 0))
    found = fault(indexed(body), in_and_out(31))
    assert (found.kind, found.tensor, found.thread) == ("out-of-bounds", "B", (31, 0, 0))
    found = fault(indexed(body.replace("st.b32 [%rd14], %r0;", "")), in_and_out())
    assert found.kind == "never-written"


def test_a_load_that_takes_memory_for_constant() -> None:
    load, store = "ld.global.nc.b32 %r7, [%rd12];\n", "st.global.b32 [%rd12], %r0;\n"
    for body, verb in (
        (store + load, "reads B as if it never changed"),
        (load + store, "writes B where an ld.global.nc"),
    ):
        found = fault(indexed(body), in_and_out(role="inout"))
        assert (found.kind, found.tensor, found.element) == ("non-coherent", "B", (0,))
        assert verb in found.explanation
        assert go(indexed(body.replace(".nc", "")), in_and_out(role="inout")).ok
    others = "setp.lt.u32 %p1, %r0, 16;\n@%p1 ld.global.nc.b32 %r7, [%rd12];\n@!%p1 st.global.b32 [%rd12], %r0;\n"
    assert go(indexed(others), in_and_out(role="inout")).ok
    assert go(indexed("ld.global.nc.b32 %r7, [%rd11];\n" + store), in_and_out()).ok
