"""Races for shared memory, each on the least PTX that has it; and what looks like one but is none."""

from __future__ import annotations

import pytest
from emulator_kit import fault, go, in_and_out, indexed


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_race_of_a_read_with_a_write(seed: int) -> None:
    body = """
st.shared.b32 [%r6], %r0;
{}
xor.b32 %r7, %r5, {};
add.s32 %r7, %r7, %r4;
ld.shared.b32 %r8, [%r7];
st.global.b32 [%rd12], %r8;
"""
    for step in (4, 64):  # of the same warp, and of another
        found = fault(indexed(body.format("", step)), in_and_out(64), block=64, seed=seed)
        assert found.kind in ("race", "never-written")  # in some orders nothing is there yet
        assert go(indexed(body.format("bar.sync 0;", step)), in_and_out(64), block=64, seed=seed).ok
    assert fault(indexed(body.format("", 64)), in_and_out(64), block=64, seed=0).kind == "race"


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_race_of_a_write_with_an_earlier_read(seed: int) -> None:
    body = """
st.shared.b32 [%r6], %r0;
bar.sync 0;
xor.b32 %r7, %r5, 64;
add.s32 %r7, %r7, %r4;
ld.shared.b32 %r8, [%r7];
{}
st.shared.b32 [%r6], %r8;
"""
    found = fault(indexed(body.format("")), in_and_out(64, "inout"), block=64, seed=seed)
    assert found.kind == "race" and found.text.startswith("ld.shared")
    assert go(indexed(body.format("bar.sync 0;")), in_and_out(64, "inout"), block=64, seed=seed).ok


def test_race_of_two_writes() -> None:
    found = fault(indexed("st.shared.b32 [smem], %r0;"), in_and_out(role="inout"))
    assert found.kind == "race" and found.address == 0
    assert go(indexed("setp.eq.u32 %p1, %r0, 3;\n@%p1 st.shared.b32 [smem], %r0;"), in_and_out(role="inout")).ok


def test_race_in_one_block_of_many() -> None:
    body = "setp.eq.u32 %p1, %r1, 5;\n@!%p1 ret;\nst.shared.b32 [smem], %r0;"
    assert fault(indexed(body), in_and_out(role="inout"), grid=9).block == (5, 0, 0)


def test_bytes_of_one_word_are_apart() -> None:
    body = "add.s32 %r7, %r4, %r0;\ncvt.u16.u32 %rs1, %r0;\nst.shared.b8 [%r7], %rs1;"
    assert go(indexed(body), in_and_out(role="inout")).ok
