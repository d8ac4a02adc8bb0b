"""Shuffles, votes and reductions of whole warps, against each lane by itself."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import fault, go, in_and_out, indexed, kernel, tensors
from hypothesis import given, settings
from hypothesis import strategies as st
from semantics_kit import signed

from cutegen.emulator.warps import exchanges as warp

QUICK = settings(max_examples=25, deadline=None)


@QUICK
@given(
    st.sampled_from(["up", "down", "bfly", "idx"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([31, 0, 0x1F00, 0x181F, 0x1C1F, 0x1003]),
)
def test_shuffles(mode: str, seed: int, clamp: int) -> None:
    """Lane by lane, as the manual's pseudocode does it."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**32, (2, 32), dtype=np.uint32)
    operand = rng.integers(0, 40, (2, 32), dtype=np.uint32)
    result, inside, source = warp.shuffle(mode, values, operand, np.uint32(clamp))
    for w in range(2):
        for lane in range(32):
            b, c, segment = int(operand[w, lane]) & 31, clamp & 31, clamp >> 8 & 31
            last, first = (lane & segment) | (c & ~segment & 31), lane & segment
            j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first | (b & ~segment & 31)}[mode]
            valid = j >= last if mode == "up" else j <= last
            j = j if valid else lane
            assert (result[w, lane], inside[w, lane], source[w, lane]) == (values[w, j], valid, j)


@QUICK
@given(st.integers(0, 2**32 - 1))
def test_votes_and_reductions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    predicate, members = rng.integers(0, 2, (3, 32)).astype(bool), rng.integers(0, 2, (3, 32)).astype(bool)
    predicate[0] |= members[0]
    predicate[1] &= ~members[1]
    members[:, 7] = True
    values = rng.integers(0, 2**32, (3, 32), dtype=np.uint32)
    for w in range(3):
        inside = [lane for lane in range(32) if members[w, lane]]
        votes = [bool(predicate[w, lane]) for lane in inside]
        assert warp.vote("all", predicate, members)[w, 0] == all(votes)
        assert warp.vote("any", predicate, members)[w, 0] == any(votes)
        assert warp.vote("uni", predicate, members)[w, 0] == (len(set(votes)) == 1)
        assert warp.ballot(predicate, members)[w, 0] == sum(1 << i for i, v in zip(inside, votes, strict=True) if v)
        numbers = [int(values[w, lane]) for lane in inside]
        signs = [signed(n, 32) for n in numbers]
        assert warp.reduce_members("add", "u32", values, members)[w, 0] == sum(numbers) % 2**32
        assert warp.reduce_members("min", "s32", values, members)[w, 0] == min(signs) % 2**32
        assert warp.reduce_members("max", "u32", values, members)[w, 0] == max(numbers)
        folded = numbers[0]
        for n in numbers:
            folded &= n
        assert warp.reduce_members("and", "b32", values, members)[w, 0] == folded


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=32, max_size=32), st.integers(1, 2**32 - 1))
def test_matches_and_elections(values: list[int], mask: int) -> None:
    """Of the threads that a mask names, against the definition."""
    bits = [i for i in range(32) if mask >> i & 1]
    body = f"""
mul.wide.u32 %rd5, %r0, 4;
add.s64 %rd6, %rd0, %rd5;
ld.global.b32 %r5, [%rd6];
mov.u32 %r6, {mask};
shr.u32 %r7, %r6, %r0;
and.b32 %r7, %r7, 1;
setp.eq.u32 %p1, %r7, 0;
@%p1 ret;
match.any.sync.b32 %r8, %r5, %r6;
cvt.u64.u32 %rd7, %r5;
match.all.sync.b64 %r9|%p2, %rd7, %r6;
elect.sync %r10|%p3, %r6;
selp.u32 %r11, 1, 0, %p2;
selp.u32 %r12, 1, 0, %p3;
mul.wide.u32 %rd5, %r0, 32;
add.s64 %rd6, %rd1, %rd5;
st.global.v4.b32 [%rd6], {{%r8, %r9, %r10, %r11}};
st.global.b32 [%rd6+16], %r12;
"""
    out = np.zeros((32, 8), np.uint32)
    go(kernel(body), tensors((np.asarray(values, np.uint32), "in"), (out, "inout"))).check()
    same = len({values[i] for i in bits}) == 1
    for i in bits:
        alike = sum(1 << j for j in bits if values[j] == values[i])
        assert out[i, :5].tolist() == [alike, mask if same else 0, bits[0], int(same), int(i == bits[0])]


@pytest.mark.parametrize("text", ["match.any.sync.b32 %r7, %r0, -1;", "elect.sync %r7|%p2, -1;"])
def test_matches_and_elections_are_made_by_all_that_are_named(text: str) -> None:
    found = fault(indexed("setp.lt.u32 %p1, %r0, 16;\n@%p1 " + text), in_and_out(role="inout"))
    assert (found.kind, found.thread) == ("converged", (16, 0, 0))


def test_groups_of_a_warp_vote_by_themselves() -> None:
    body = """
setp.lt.u32 %p1, %r0, 8;
selp.b32 %r5, 0xFF, 0xFFFFFF00, %p1;
and.b32 %r6, %r0, 1;
setp.eq.u32 %p2, %r6, 1;
vote.sync.ballot.b32 %r7, %p2, %r5;
redux.sync.max.u32 %r8, %r0, %r5;
mul.wide.u32 %rd5, %r0, 8;
add.s64 %rd6, %rd0, %rd5;
st.global.v2.b32 [%rd6], {%r7, %r8};
"""
    out = np.zeros((32, 2), np.uint32)
    go(kernel(body, 1), tensors((out, "out"))).check()
    assert (out[:8] == [0xAA, 7]).all() and (out[8:] == [0xAAAAAA00, 31]).all()
