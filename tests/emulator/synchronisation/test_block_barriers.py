"""Barriers at which some warps of a block meet: what they order, and what is wrong with the use of them."""

from __future__ import annotations

import pytest
from emulator_kit import fault, go, in_and_out, indexed

from cutegen.emulator.synchronisation.block_barriers import BlockBarriers

SWAP = "st.shared.b32 [%r6], %r0;\n{}xor.b32 %r7, %r6, 128;\nld.shared.b32 %r8, [%r7];\nst.global.b32 [%rd12], %r8;\n"
PAIRS = "setp.lt.u32 %p1, %r0, 64;\n@%p1 bra ONE;\n{}\nbra ON;\nONE:\n{}\nON:\n"  # of two warps each


@pytest.mark.parametrize("seed", range(5))
def test_two_pairs_of_warps_meet_at_barriers_of_their_own(seed: int) -> None:
    body = SWAP.format(PAIRS.format("bar.sync 1, 64;", "bar.sync 2, 64;"))
    report = go(indexed(body, 512), in_and_out(128), block=128, seed=seed)
    assert report.ok, str(report)
    three = fault(indexed(SWAP.format("bar.sync 1, 96;\n"), 512), in_and_out(128, "inout"), block=128, seed=seed)
    assert three.kind in ("barrier", "race")


@pytest.mark.parametrize("seed", range(5))
def test_an_arrival_orders_what_came_before_it(seed: int) -> None:
    """Warps 2 and 3 write and arrive; warps 0 and 1 wait and read."""
    body = "@!%p1 st.shared.b32 [%r6], %r0;\n" + PAIRS.format("bar.arrive 3, {1};", "{0}")
    body = (
        "setp.lt.u32 %p1, %r0, 64;\n" + body + "@%p1 ld.shared.b32 %r8, [%r6+256];\n@%p1 st.global.b32 [%rd12], %r8;\n"
    )
    assert go(indexed(body.format("bar.sync 3, 128;", 128), 512), in_and_out(128, "inout"), block=128, seed=seed).ok
    found = fault(indexed(body.format("", 128), 512), in_and_out(128, "inout"), block=128, seed=seed)
    assert found.kind in ("race", "never-written"), str(found)
    found = fault(indexed(body.format("bar.sync 3, 96;", 128), 512), in_and_out(128, "inout"), block=128, seed=seed)
    assert found.kind == "barrier" and "counts" in found.explanation


@pytest.mark.parametrize("seed", range(6))
def test_an_arrival_does_not_order_what_comes_behind_it(seed: int) -> None:
    """However early that is done: warps 2 and 3 arrive and write, warps 0 and 1 wait and read."""
    body = "setp.lt.u32 %p1, %r0, 64;\n" + PAIRS.format("bar.arrive 3, 128;", "bar.sync 3, 128;")
    body = body.replace("bar.arrive 3, 128;", "bar.arrive 3, 128;\nst.shared.b32 [%r6], %r0;")
    body += "@%p1 ld.shared.b32 %r8, [%r6+256];\n@%p1 st.global.b32 [%rd12], %r8;\n"
    found = fault(indexed(body, 512), in_and_out(128, "inout"), block=128, seed=seed)
    assert found.kind in ("race", "never-written"), str(found)


@pytest.mark.parametrize("seed", range(6))
def test_pairs_of_warps_take_turns(seed: int) -> None:
    """At barriers whose numbers are in registers; the first pair gives itself its first turn, and so comes twice."""
    turns = """
    shr.u32 %r20, %r0, 6;
    add.u32 %r21, %r20, 3;
    sub.u32 %r22, 4, %r20;
    setp.eq.u32 %p3, %r20, 0;
    setp.eq.u32 %p4, %r0, 0;
    mov.u32 %r23, 0;
    @%p4 st.shared.b32 [smem], 0;
    @!%p3 bra L;
    bar.arrive 3, 128;
    L:
    bar.sync %r21, 128;
    and.b32 %r24, %r0, 63;
    setp.eq.u32 %p5, %r24, 0;
    @%p5 ld.shared.b32 %r25, [smem];
    @%p5 add.u32 %r25, %r25, 1;
    @%p5 st.shared.b32 [smem], %r25;
    add.u32 %r23, %r23, 1;
    setp.eq.u32 %p6, %r23, 3;
    @%p6 bra LAST;
    bar.arrive %r22, 128;
    bra L;
    LAST:
    @%p3 bar.arrive %r22, 128;
    @%p5 st.global.b32 [%rd12], %r25;
    """
    bound = in_and_out(128, "inout")
    report = go(indexed(turns, 512), bound, block=128, seed=seed)
    assert report.ok, str(report)
    assert bound[1].bytes().view("u4")[[0, 64]].tolist() == [5, 6]
    for old, new, kinds in (
        ("bar.arrive 3, 128;", "", "deadlock"),
        ("bar.sync %r21, 128;", "bar.sync %r22, 128;", "barrier deadlock race"),
        ("add.u32 %r21, %r20, 3;", "add.u32 %r21, %r20, 15;", "barrier"),
        ("add.u32 %r21, %r20, 3;", "add.u32 %r21, %r0, 3;", "barrier"),
        ("add.u32 %r21, %r20, 3;", "", "never-written"),
        ("sub.u32 %r22, 4, %r20;", "", "never-written"),
        ("    bar.arrive %r22, 128;\n    bra L;", "    bra L;", "deadlock"),
    ):
        assert old in turns
        found = fault(indexed(turns.replace(old, new), 512), in_and_out(128, "inout"), block=128, seed=seed)
        assert found.kind in kinds.split(), (old, str(found))
    apart = turns.replace("add.u32 %r21, %r20, 3;", "and.b32 %r21, %r0, 7;")
    found = fault(indexed(apart, 512), in_and_out(128, "inout"), block=128, seed=seed)
    assert found.kind == "barrier" and "barriers of different numbers" in found.explanation


def test_counts_that_do_not_come() -> None:
    body = PAIRS.format("bar.sync 1, {};", "")
    assert go(indexed(body.format(64)), in_and_out(128, "inout"), block=128).ok
    found = fault(indexed(body.format(96)), in_and_out(128, "inout"), block=128)
    assert found.kind == "barrier" and "64 threads of the block wait at barrier 1, which counts 96" in found.explanation
    found = fault(indexed(body.format(32)), in_and_out(128, "inout"), block=128)
    assert found.kind == "barrier" and "64 threads come to barrier 1, which counts 32" in found.explanation
    found = fault(indexed("bar.arrive 1, 256;\n" * 2), in_and_out(128, "inout"), block=128)
    assert found.kind == "barrier" and "comes to barrier 1 again" in found.explanation


@pytest.mark.parametrize("seed", range(3))
def test_a_barrier_is_used_again_and_again(seed: int) -> None:
    turn = "st.shared.b32 [%r6], %r9;\nbar.sync 1, 64;\nld.shared.b32 %r8, [%r7];\n{}add.u32 %r9, %r9, 1;\n"
    loop = "mov.u32 %r9, 0;\nxor.b32 %r7, %r6, 128;\nL:\n" + turn + "setp.lt.u32 %p2, %r9, 5;\n@%p2 bra L;\n"
    body = loop + "st.global.b32 [%rd12], %r8;\n"
    bound = in_and_out(64)
    more = "bar.arrive 2, 96;\n"  # makes the kernel one in which some warps meet
    more = "setp.lt.u32 %p1, %r0, 64;\n@!%p1 bra END;\n" + body + "END:\n" + more
    report = go(indexed(more.format("bar.sync 1, 64;\n"), 512), bound, block=96, seed=seed)
    assert report.ok, str(report)
    found = fault(indexed(more.format(""), 512), in_and_out(64, "inout"), block=96, seed=seed)
    assert found.kind == "race"


def test_a_warp_comes_to_one_barrier_instruction_together() -> None:
    """With barrier.sync it need not. bar.arrive makes it a kernel in which some warps meet."""
    body = "bar.arrive 5, 96;\nsetp.lt.u32 %p1, %r0, {1};\n@%p1 bra ONE;\n{0} 0;\nbra ON;\nONE:\n{0} 0;\nON:"
    found = fault(indexed(body.format("bar.sync", 16)), in_and_out(64, "inout"), block=64)
    assert found.kind == "barrier" and "than the other threads of its warp" in found.explanation
    assert go(indexed(body.format("bar.sync", 32)), in_and_out(64, "inout"), block=64).ok
    assert go(indexed(body.format("barrier.sync", 16)), in_and_out(64, "inout"), block=64).ok


HANDS_ON = """
setp.lt.u32 %p1, %r0, 32;
mov.u32 %r9, 0;
mov.u32 %r11, 0;
LOOP:
@!%p1 bra TAKES;
setp.eq.u32 %p2, %r9, 0;
@%p2 bra FULL;
bar.sync {empty}, 64;
FULL:
add.u32 %r8, %r9, %r0;
st.shared.b32 [%r6], %r8;
bar.arrive 1, 64;
bra ON;
TAKES:
bar.sync 1, 64;
ld.shared.b32 %r8, [%r6+-128];
mad.lo.u32 %r11, %r11, 31, %r8;
setp.eq.u32 %p2, %r9, 3;
@%p2 bra ON;
bar.arrive {empty}, 64;
ON:
add.u32 %r9, %r9, 1;
setp.lt.u32 %p2, %r9, 4;
@%p2 bra LOOP;
@!%p1 st.global.b32 [%rd12+-128], %r11;
"""


@pytest.mark.parametrize("seed", range(5))
def test_a_barrier_that_serves_for_two_things(seed: int) -> None:
    """A warp fills a tile that another one takes, four times. Its arrival and its own wait make up the count."""
    bound = in_and_out(64, "inout")
    assert go(indexed(HANDS_ON.format(empty=2), 512), bound, block=64, seed=seed).ok
    taken = [(((i * 31 + i + 1) * 31 + i + 2) * 31) + i + 3 for i in range(32)]
    assert bound[1].bytes().view("u4")[:32].tolist() == taken
    found = fault(indexed(HANDS_ON.format(empty=1), 512), in_and_out(64, "inout"), block=64, seed=seed)
    assert found.kind == "barrier" and found.line and found.thread is not None and found.notes[0].place is not None
    assert "barrier 1 after that of warp" in found.explanation and "bar." in found.notes[0].place.text


GROUPS = """
mov.u32 %r9, 0;
setp.lt.u32 %p1, %r0, 64;
@!%p1 bra OTHERS;
ONE:
bar.sync {0}, 64;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p2, %r9, 5;
@%p2 bra ONE;
bra ON;
OTHERS:
bar.sync {1}, 64;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p2, %r9, 3;
@%p2 bra OTHERS;
ON:
bar.arrive 9, 128;
"""


@pytest.mark.parametrize("seed", range(5))
def test_a_barrier_of_two_groups_that_should_have_one_each(seed: int) -> None:
    """Also where the groups never meet in this order, as one has gone on before the other one comes."""
    assert go(indexed(GROUPS.format(1, 2)), in_and_out(128, "inout"), block=128, seed=seed).ok
    found = fault(indexed(GROUPS.format(1, 1)), in_and_out(128, "inout"), block=128, seed=seed)
    assert found.kind == "barrier" and "barrier 1" in found.explanation
    apart = GROUPS.replace("@%p2 bra OTHERS;", "@%p2 bra MORE;")
    apart = apart.replace("bra ON;\nOTHERS:", "bar.sync 3, 128;\nbra ON;\nOTHERS:\nbar.sync 3, 128;\nMORE:")
    assert go(indexed(apart.format(1, 1)), in_and_out(128, "inout"), block=128, seed=seed).ok, "one after the other"


@pytest.mark.parametrize("seed", range(5))
def test_three_groups_in_turn(seed: int) -> None:
    """Each of three warps waits for its turn, and arrives for both others, of which one comes twice to the first."""
    turn = "bar.sync {own}, 96;\nadd.u32 %r9, %r9, 1;\nbar.arrive {next}, 96;\nbar.arrive {last}, 96;\n"
    loop = "L{own}:\n" + turn + "setp.lt.u32 %p2, %r9, 4;\n@%p2 bra L{own};\nbra ON;\n"
    body = "mov.u32 %r9, 0;\nsetp.lt.u32 %p1, %r0, 32;\nsetp.lt.u32 %p3, %r0, 64;\n"
    body += "@%p1 bra L1;\nbar.arrive 1, 96;\n@%p3 bra L2;\nbar.arrive 2, 96;\n"
    body += loop.format(own=3, next=1, last=2) + loop.format(own=1, next=2, last=3) + loop.format(own=2, next=3, last=1)
    report = go(indexed(body + "ON:\n"), in_and_out(96, "inout"), block=96, seed=seed)
    assert report.ok, str(report)
    wrong = body.replace("bar.sync 2, 96;", "bar.sync 1, 96;")
    assert fault(indexed(wrong + "ON:\n"), in_and_out(96, "inout"), block=96, seed=seed).kind in ("barrier", "deadlock")


EVEN = "and.b32 %r9, %r0, 1;\nsetp.eq.u32 %p1, %r9, 0;\n"
LATE = EVEN + "@!%p1 bra ODD;\n{0}\nbra END;\nODD:\n{1}\nEND:\n"
SOON = EVEN + "@%p1 bra REST;\n{1}\nret;\nREST:\n{0}\n"
WORK = "st.global.b32 [%rd12], %r0;"


@pytest.mark.parametrize("shape", [LATE, SOON])
@pytest.mark.parametrize(
    "together",
    ["bar.sync 0;", "bar.sync 1, 64;", "mov.u32 %r8, 2;\nbar.sync %r8, 64;", "bar.arrive 1, 96;"]
    + ["barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", "vote.sync.any.pred %p2, %p1, -1;"]
    + ["barrier.cluster.arrive;\nbarrier.cluster.wait.aligned;", "shfl.sync.bfly.b32 %r8, %r0, 2, 31, -1;"],
)
def test_threads_of_a_warp_that_never_come(shape: str, together: str) -> None:
    """They work and exit, before the others come or after; one that does nothing but exit has returned early."""
    found = fault(indexed(shape.format(together, WORK)), in_and_out(64, "inout"), block=64)
    assert found.kind in ("barrier", "converged") and found.thread is not None and found.thread[0] % 2 == 1
    returned = shape.format(together, "add.u32 %r10, %r9, 1;")
    if shape is SOON or together.startswith("bar.sync"):
        assert go(indexed(returned), in_and_out(64, "inout"), block=64).ok
    for unaligned in {together.replace("bar.sync", "barrier.sync"), together.replace(".aligned", "")} - {together}:
        if "cluster" in together or "%r8, 64" not in together:
            assert go(indexed(shape.format(unaligned, WORK)), in_and_out(64, "inout"), block=64).ok


def test_orders_name_the_accesses_that_change_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a net behind the check of barriers: the tile is overwritten in one order before it is read."""
    monkeypatch.setattr(BlockBarriers, "_check_turn", lambda *_: None)
    bound = in_and_out(64, "inout")
    report = go(indexed(HANDS_ON.format(empty=1), 512), bound, block=64, orders=9)
    (found,) = report.faults
    assert found.kind == "order-dependent" and found.block == (0, 0, 0) and found.thread is not None
    texts = [note.place.text for note in found.notes if note.place is not None]
    assert sorted(text.split(".")[0] for text in texts) == ["ld", "st"] and all("shared" in text for text in texts)
    assert {note.text.split(" here")[0].split()[-1] for note in found.notes} == {"reads", "writes"}
