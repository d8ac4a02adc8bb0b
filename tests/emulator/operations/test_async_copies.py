"""cp.async: what it brings, and what must not be touched until it has."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import fault, go, kernel, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

# Each thread has 16 bytes in A (%rd6), in B (%rd7) and in shared memory (%r4).
HERE = """
mul.wide.u32 %rd5, %r0, 16;
add.s64 %rd6, %rd0, %rd5;
add.s64 %rd7, %rd1, %rd5;
mov.u32 %r4, smem;
mad.lo.u32 %r4, %r0, 16, %r4;
"""
COMMIT, WAIT = "cp.async.commit_group;\n", "cp.async.wait_group 0;\n"
SHOW = "ld.shared.v4.b32 {%r20,%r21,%r22,%r23}, [%r4];\nst.global.v4.b32 [%rd7], {%r20,%r21,%r22,%r23};\n"


def of(body: str) -> str:
    return kernel(HERE + body, shared=1024)


def words(n: int = 128) -> np.ndarray:
    return np.arange(100, 100 + n, dtype=np.uint32)


def pair(role: str = "in") -> list:  # type: ignore[type-arg]
    return tensors((words(), role), (np.zeros(128, np.uint32), "inout"))  # type: ignore[arg-type]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([4, 8, 16]), st.lists(st.integers(0, 16), min_size=32, max_size=32), st.sampled_from("84"))
def test_any_number_of_bytes_of_the_source(size: int, given_amounts: list[int], unit: str) -> None:
    """The rest are zeros; whatever the smallest access to shared memory is."""
    amounts = np.minimum(np.asarray(given_amounts, np.uint32), size)
    source, out = np.arange(512, dtype=np.uint32).astype(np.uint8), np.zeros(512, np.uint8)
    body = (
        "mul.wide.u32 %rd8, %r0, 4;\nadd.s64 %rd8, %rd2, %rd8;\nld.global.b32 %r9, [%rd8];\n"
        "st.shared.v4.b32 [%r4], {-1,-1,-1,-1};\n"
        f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global [%r4], [%rd6], {size}, %r9;\n"
        + COMMIT
        + WAIT
        + SHOW
        + ("ld.shared.b8 %rs1, [%r4];\n" if unit == "8" else "")
    )
    bound = tensors((source, "in"), (out, "out"), (amounts, "in"))
    report = go(kernel(HERE + body, 3, shared=512), bound)
    assert report.ok, str(report)
    wanted = np.full((32, 16), 0xFF, np.uint8)
    wanted[:, :size] = 0
    for thread, amount in enumerate(amounts):
        wanted[thread, :amount] = source.reshape(32, 16)[thread, :amount]
    assert (out.reshape(32, 16) == wanted).all()


def test_more_than_the_copys_size_is_a_fault() -> None:
    body = "mov.b32 %r9, 20;\ncp.async.cg.shared.global [%r4], [%rd6], 16, %r9;"
    found = fault(of(body), pair())
    assert found.kind == "out-of-bounds" and "20 bytes from the source, 16 in all" in found.explanation


@pytest.mark.parametrize("amount", [16, 8, 5, 0])
@pytest.mark.parametrize("side", ["source", "destination"])
def test_both_addresses_are_aligned_to_the_copys_size(amount: int, side: str) -> None:
    """However much of the source is read."""
    source, target = ("%rd6+4", "%r4") if side == "source" else ("%rd6", "%r4+8")
    body = f"setp.lt.u32 %p1, %r0, 8;\nmov.b32 %r9, {amount};\n"
    body += f"@%p1 cp.async.cg.shared.global [{target}], [{source}], 16, %r9;"
    found = fault(of(body), pair())
    assert (found.kind, found.thread) == ("misaligned", (0, 0, 0))
    assert go(of(body.replace("+4", "").replace("+8", "")), pair()).ok


def test_a_hint_for_the_cache_changes_nothing() -> None:
    out = np.zeros(128, np.uint32)
    body = "cp.async.cg.shared.global.L2::128B [%r4], [%rd6], 16;\n" + COMMIT + WAIT + SHOW
    assert go(of(body), tensors((words(), "in"), (out, "out"))).ok
    assert (out == words()).all()


# ------------------------------------------------------------------------------------------------- what is in flight

COPY = "cp.async.cg.shared.global [%r4], [%rd6], 16;\n"
OTHER = "xor.b32 %r9, %r0, 31;\nmul.wide.u32 %rd8, %r9, 16;\nadd.s64 %rd8, %rd0, %rd8;\n"


@pytest.mark.parametrize(
    "store", ["st.global.b32 [%rd6+12], 7;\n", "bar.sync 0;\n" + OTHER + "st.global.b64 [%rd8], 7;\n"]
)
@pytest.mark.parametrize("commit", [COMMIT, ""])
def test_the_source_must_not_change_before_the_wait(store: str, commit: str) -> None:
    """Whoever changes it, whatever barriers there are."""
    found = fault(of(COPY + commit + store + "cp.async.wait_all;\n" + SHOW), pair("inout"))
    assert (found.kind, found.tensor) == ("in-flight", "A")
    line = of(COPY).splitlines().index(COPY.strip()) + 1
    assert f"writes A where a cp.async (PTX line {line}) still reads" in found.explanation
    assert go(of(COPY + commit + "cp.async.wait_all;\n" + store + SHOW), pair("inout")).ok
    assert go(of(COPY + commit + store.replace("%rd0", "%rd1").replace("%rd6", "%rd7")), pair("inout")).ok


def test_only_what_has_been_waited_for_may_change() -> None:
    """By those who have waited, and of the groups that they have waited for."""
    second = "cp.async.ca.shared.global [%r4+512], [%rd6+4], 4;\n"
    body = "cp.async.ca.shared.global [%r4], [%rd6], 4;\n" + COMMIT + second + COMMIT + "cp.async.wait_group 1;\n"
    assert go(of(body + "st.global.b32 [%rd6], 7;"), pair("inout")).ok
    assert fault(of(body + "st.global.b32 [%rd6+4], 7;"), pair("inout")).kind == "in-flight"
    some = "setp.ge.u32 %p1, %r0, 16;\n" + COPY + COMMIT + "@%p1 cp.async.wait_group 0;\n"
    assert go(of(some + "@%p1 st.global.b32 [%rd6], 7;"), pair("inout")).ok
    assert fault(of(some + "st.global.b32 [%rd6], 7;"), pair("inout")).thread == (0, 0, 0)


def test_what_is_read_twice_is_free_after_the_second_wait() -> None:
    twice = "cp.async.ca.shared.global [%r4], [%rd0], 4;\n" + COMMIT + "cp.async.ca.shared.global [%r4+4], [%rd0], 4;\n"
    end = "bar.sync 0;\nsetp.eq.u32 %p1, %r0, 5;\n@%p1 st.global.b32 [%rd0], 7;\n"
    assert fault(of(twice + COMMIT + "cp.async.wait_group 1;\n" + end), pair("inout")).kind == "in-flight"
    assert go(of(twice + COMMIT + WAIT + end), pair("inout")).ok


def test_a_part_that_is_not_read_may_change() -> None:
    body = "mov.b32 %r9, 8;\ncp.async.cg.shared.global [%r4], [%rd6], 16, %r9;\n" + COMMIT
    assert go(of(body + "st.global.b32 [%rd6+8], 7;"), pair("inout")).ok
    assert fault(of(body + "st.global.b32 [%rd6+4], 7;"), pair("inout")).kind == "in-flight"


def test_the_copy_that_is_named_is_the_one_that_is_meant() -> None:
    body = (
        "cp.async.ca.shared.global [%r4], [%rd6], 4;\n"
        + COMMIT
        + "cp.async.ca.shared.global [%r4+8], [%rd6], 8;\n"
        + COMMIT
        + "ld.shared.b32 %r8, [%r4+{}];"
    )
    for at, line in ((0, 0), (8, 2), (12, 2)):
        found = fault(of(body.format(at)), pair())
        assert found.kind == "in-flight" and found.address == at
        start = of(body.format(at)).splitlines().index("cp.async.ca.shared.global [%r4], [%rd6], 4;") + 1
        assert f"(PTX line {start + line})" in found.explanation


def test_what_was_never_written_is_known_for_each_unit() -> None:
    """16 bytes, of which only the lower 8 mean anything."""
    start = "st.global.v2.b32 [%rd6], {%r0, %r0};\n" + COPY + COMMIT + WAIT
    bound = [*tensors((words(), "out")), *pair()[1:]]
    low, high = "ld.shared.b32 %r8, [%r4+4];\n", "ld.shared.b32 %r8, [%r4+8];\n"
    end = "st.global.v2.b32 [%rd6+8], {%r8, %r8};\n"
    assert go(of(start + low + end), bound).ok
    assert fault(of(start + high + end), bound).kind == "never-written"
