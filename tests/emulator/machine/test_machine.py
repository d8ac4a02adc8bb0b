"""Control flow, warps, barriers and memory of the machine: right results on hand-written PTX."""

from __future__ import annotations

import inspect
import re
import struct
import textwrap

import numpy as np
import pytest
from emulator_kit import fault, go, kernel, tensors

from cutegen.emulator import UnsupportedInstruction, bind, launch, place

INDEX = """
mad.lo.s32 %r2, %r1, 64, %r0;
mul.wide.s32 %rd10, %r2, 4;
add.s64 %rd11, %rd0, %rd10;
add.s64 %rd12, %rd1, %rd10;
"""


def numbers(n: int = 64) -> np.ndarray:
    return np.arange(n, dtype=np.uint32)


def collatz(value: int) -> int:
    steps = 0
    while value > 1:
        value = 3 * value + 1 if value % 2 else value // 2
        steps += 1
    return steps


def test_lanes_of_a_loop_leave_it_at_different_times() -> None:
    body = (
        INDEX
        + """
ld.global.b32 %r3, [%rd11];
mov.b32 %r4, 0;
LOOP:
setp.le.u32 %p1, %r3, 1;
@%p1 bra DONE;
and.b32 %r5, %r3, 1;
setp.eq.u32 %p2, %r5, 0;
@%p2 bra EVEN;
mad.lo.u32 %r3, %r3, 3, 1;
bra NEXT;
EVEN:
shr.u32 %r3, %r3, 1;
NEXT:
add.u32 %r4, %r4, 1;
bra LOOP;
DONE:
st.global.b32 [%rd12], %r4;
"""
    )
    data, out = numbers(192), np.zeros(192, np.uint32)
    for seed in (0, 5):
        out[:] = 0
        go(kernel(body), tensors((data, "in"), (out, "out")), grid=3, block=64, seed=seed).check()
        assert out.tolist() == [collatz(int(v)) for v in data]


def test_predicates_select_lanes() -> None:
    body = INDEX + "and.b32 %r3, %r0, 3;\nsetp.eq.u32 %p1, %r3, 2;\n@%p1 st.global.b32 [%rd12], %r2;\n"
    body += "@!%p1 st.global.b32 [%rd12], %r3;\n"
    out = np.zeros(128, np.uint32)
    go(kernel(body), tensors((numbers(128), "in"), (out, "out")), grid=2, block=64).check()
    assert out.tolist() == [i if i % 4 == 2 else i % 4 for i in range(128)]


def test_threads_exit_early_and_others_go_on() -> None:
    body = INDEX + "setp.ge.u32 %p1, %r0, 40;\n@%p1 ret;\nbra ON;\nON:\n"
    body += "ld.global.b32 %r3, [%rd11];\nst.global.b32 [%rd12], %r3;\n"
    out = np.full(64, 9, np.uint32)
    go(kernel(body), tensors((numbers(), "in"), (out, "inout")), block=64).check()
    assert out.tolist() == [*range(40), *[9] * 24]


REVERSE = (
    INDEX
    + """
ld.global.b32 %r3, [%rd11];
mov.b32 %r4, smem;
shl.b32 %r5, %r0, 2;
add.s32 %r6, %r4, %r5;
st.shared.b32 [%r6], %r3;
bar.sync 0;
sub.s32 %r7, 252, %r5;
add.s32 %r7, %r7, %r4;
ld.shared.b32 %r8, [%r7];
st.global.b32 [%rd12], %r8;
"""
)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shared_memory_is_each_blocks_own(seed: int) -> None:
    data, out = numbers(320), np.zeros(320, np.uint32)
    bound = tensors((data, "in"), (out, "out"))
    go(kernel(REVERSE, shared=256), bound, grid=5, block=64, seed=seed).check()
    assert np.array_equal(out, data.reshape(5, 64)[:, ::-1].reshape(-1))


def test_many_blocks_run_in_batches() -> None:
    data, out = numbers(64 * 500), np.zeros(64 * 500, np.uint32)
    report = go(kernel(REVERSE, shared=256), tensors((data, "in"), (out, "out")), grid=500, block=64, orders=2)
    report.check()
    assert np.array_equal(out, data.reshape(500, 64)[:, ::-1].reshape(-1))
    assert report.instructions == 2 * 500 * 64 * 19


def test_block_and_grid_of_three_modes() -> None:
    body = """
mov.u32 %r2, %tid.y;
mov.u32 %r3, %tid.z;
mov.u32 %r4, %ctaid.y;
mov.u32 %r5, %ntid.x;
mov.u32 %r6, %nctaid.x;
mad.lo.s32 %r7, %r4, %r6, %r1;
mad.lo.s32 %r7, %r7, 2, %r3;
mad.lo.s32 %r7, %r7, 3, %r2;
mad.lo.s32 %r7, %r7, %r5, %r0;
mul.wide.s32 %rd10, %r7, 4;
add.s64 %rd11, %rd0, %rd10;
st.global.b32 [%rd11], %r7;
"""
    out = np.zeros(2 * 3 * 5 * 3 * 2, np.uint32)
    go(kernel(body, 1), tensors((out, "out")), grid=(3, 2, 1), block=(5, 3, 2)).check()
    assert out.tolist() == list(range(180))


@pytest.mark.parametrize(
    ("kind", "by", "clamp", "expected"),
    [
        ("idx", 5, 31, lambda i: i // 32 * 32 + 5),
        ("up", 3, 0, lambda i: i if i % 32 < 3 else i - 3),
        ("down", 3, 31, lambda i: i if i % 32 > 28 else i + 3),
        ("bfly", 7, 31, lambda i: i ^ 7),
        ("idx", 1, 0x181F, lambda i: i // 8 * 8 + 1),  # segments of 8 lanes
    ],
)
def test_shuffles(kind: str, by: int, clamp: int, expected: object) -> None:
    body = INDEX + f"ld.global.b32 %r3, [%rd11];\nshfl.sync.{kind}.b32 %r4, %r3, {by}, {clamp}, -1;\n"
    body += "st.global.b32 [%rd12], %r4;\n"
    out = np.zeros(64, np.uint32)
    go(kernel(body), tensors((numbers(), "in"), (out, "out")), block=64).check()
    assert out.tolist() == [expected(i) for i in range(64)]  # type: ignore[operator]


def test_vote_ballot() -> None:
    body = INDEX + "and.b32 %r3, %r0, 5;\nsetp.eq.u32 %p1, %r3, 4;\nvote.sync.ballot.b32 %r4, %p1, -1;\n"
    body += "st.global.b32 [%rd12], %r4;\n"
    out = np.zeros(64, np.uint32)
    go(kernel(body), tensors((numbers(), "in"), (out, "out")), block=64).check()
    assert set(out.tolist()) == {sum(1 << i for i in range(32) if i & 5 == 4)}


COPY = (
    INDEX
    + """
mov.b32 %r4, smem;
shl.b32 %r5, %r0, 2;
add.s32 %r6, %r4, %r5;
setp.lt.u32 %p1, %r0, 50;
selp.b32 %r9, 4, 0, %p1;
cp.async.ca.shared.global [%r6], [%rd11], 4, %r9;
cp.async.commit_group;
cp.async.ca.shared.global [%r6+256], [%rd11], 4;
cp.async.commit_group;
cp.async.wait_group 1;
ld.shared.b32 %r8, [%r6];
st.global.b32 [%rd12], %r8;
"""
)


def test_asynchronous_copies_fill_with_zeros() -> None:
    data, out = numbers() + 7, np.ones(64, np.uint32)
    go(kernel(COPY, shared=512), tensors((data, "in"), (out, "out")), block=64).check()
    assert np.array_equal(out, np.where(numbers() < 50, data, 0))


def test_groups_that_only_some_threads_commit() -> None:
    """Odd threads have one group more behind; their first has landed, the even ones' has not."""
    body = (
        INDEX
        + """
mov.b32 %r4, smem;
shl.b32 %r5, %r0, 2;
add.s32 %r6, %r4, %r5;
cp.async.ca.shared.global [%r6], [%rd11], 4;
cp.async.commit_group;
and.b32 %r7, %r0, 1;
setp.eq.u32 %p1, %r7, 0;
@%p1 bra ON;
cp.async.commit_group;
ON:
cp.async.wait_group 1;
@%p1 cp.async.wait_group 0;
ld.shared.b32 %r8, [%r6];
st.global.b32 [%rd12], %r8;
"""
    )
    data, out = numbers() + 7, np.zeros(64, np.uint32)
    bound = tensors((data, "in"), (out, "out"))
    go(kernel(body, shared=256), bound, block=64).check()
    assert np.array_equal(out, data)
    early = kernel(body.replace("@%p1 cp.async.wait_group 0;", ""), shared=256)
    found = fault(early, bound, block=64)
    assert (found.kind, found.thread) == ("in-flight", (0, 0, 0))


@pytest.mark.parametrize("size", [2, 8, 16])
def test_vectors_and_narrow_accesses_of_shared_memory(size: int) -> None:
    load, store = {
        2: (
            "ld.global.b16 %rs1, [%rd11];",
            "st.shared.b16 [%r6], %rs1;|ld.shared.b16 %rs2, [%r6];|st.global.b16 [%rd12], %rs2;",
        ),
        8: (
            "ld.global.b64 %rd20, [%rd11];",
            "st.shared.b64 [%r6], %rd20;|ld.shared.v2.b32 {%r20, %r21}, [%r6];|st.global.v2.b32 [%rd12], {%r20, %r21};",
        ),
        16: (
            "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd11];",
            "st.shared.v4.b32 [%r6], {%r20, %r21, %r22, %r23};|ld.shared.v2.b64 {%rd20, %rd21}, [%r6];|"
            "st.global.v2.b64 [%rd12], {%rd20, %rd21};",
        ),
    }[size]
    body = f"""
mul.lo.s32 %r2, %r0, {size};
cvt.s64.s32 %rd10, %r2;
add.s64 %rd11, %rd0, %rd10;
add.s64 %rd12, %rd1, %rd10;
mov.b32 %r4, smem;
add.s32 %r6, %r4, %r2;
{load}
{store.replace("|", chr(10))}
"""
    data = np.random.default_rng(1).integers(0, 256, 32 * size, dtype=np.uint8)
    out = np.zeros_like(data)
    wide = data.view(f"u{min(size, 8)}"), out.view(f"u{min(size, 8)}")
    go(kernel(body, shared=32 * size), tensors((wide[0], "in"), (wide[1], "out"))).check()
    assert np.array_equal(data, out)


def test_multiply_add_agrees_with_a_slow_one() -> None:
    from fractions import Fraction

    body = INDEX + "add.s64 %rd13, %rd2, %rd10;\nadd.s64 %rd14, %rd3, %rd10;\n"
    body += "ld.global.b32 %r3, [%rd11];\nld.global.b32 %r4, [%rd12];\nld.global.b32 %r5, [%rd13];\n"
    body += "fma.rn.f32 %r6, %r3, %r4, %r5;\nst.global.b32 [%rd14], %r6;\n"
    chance = np.random.default_rng(3)
    bits = chance.integers(0, 2**32, (3, 4096), dtype=np.uint32)
    bits[:, 1000:3000] = (bits[:, 1000:3000] & 0x80FFFFFF) | 0x3F000000  # of one size: much cancels
    bits[2, 3000:] = (bits[2, 3000:] & 0x807FFFFF) | 0x00000000  # subnormal results
    bits[:2, 3000:] = (bits[:2, 3000:] & 0x80FFFFFF) | 0x20000000
    a, b, c = (row.view(np.float32) for row in bits)
    out = np.zeros(4096, np.float32)
    bound = tensors((a, "in"), (b, "in"), (c, "in"), (out, "out"))
    go(kernel(body, 4), bound, grid=64, block=64).check()
    for x, y, z, got in zip(a, b, c, out, strict=True):
        if not all(map(np.isfinite, (x, y, z))):
            with np.errstate(all="ignore"):
                expected = np.float64(x) * np.float64(y) + np.float64(z)
            if np.isnan(expected):
                assert got.view(np.uint32) == 0x7FFFFFFF
            else:
                assert got == expected
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if abs(exact) >= 2**128:
            assert np.isinf(got) or abs(float(got)) == float(np.finfo(np.float32).max)
            continue
        error = abs(Fraction(float(got)) - exact)
        for other in (np.nextafter(got, np.float32(np.inf)), np.nextafter(got, np.float32(-np.inf))):
            if np.isfinite(other):
                rival = abs(Fraction(float(other)) - exact)
                assert error < rival or (error == rival and got.view(np.uint32) % 2 == 0), (x, y, z, got)


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        # A midpoint of two float32 numbers, and a little more than float64 holds
        (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-80, 1 + 2.0**-11 + 2.0**-23),
        (1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-80), 1 + 2.0**-11),
        # The same among subnormal numbers
        (-(1 + 2.0**-23) * 2.0**-75, (1 - 2.0**-23) * 2.0**-75, 2.0**-127 + 2.0**-149, 2.0**-127 + 2.0**-149),
    ],
)
def test_multiply_add_rounds_once(a: float, b: float, c: float, expected: float) -> None:
    body = INDEX + "add.s64 %rd13, %rd2, %rd10;\nadd.s64 %rd14, %rd3, %rd10;\n"
    body += "ld.global.b32 %r3, [%rd11];\nld.global.b32 %r4, [%rd12];\nld.global.b32 %r5, [%rd13];\n"
    body += "fma.rn.f32 %r6, %r3, %r4, %r5;\nst.global.b32 [%rd14], %r6;\n"
    given = [np.full(64, v, np.float32) for v in (a, b, c)]
    assert [float(v[0]) for v in given] == [a, b, c]
    out = np.zeros(64, np.float32)
    go(kernel(body, 4), tensors(*((v, "in") for v in given), (out, "out")), block=64).check()
    assert set(out.tolist()) == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "atom.global.add.u32 %r2, [%rd0], 1;",
        "bar.red.popc.u32 %r2, 1, %p1;",
        "cvta.local.u64 %rd2, %rd0;",
        "ld.relaxed.gpu.global.b32 %r2, [%rd0];",
        "mov.u32 %r2, %clock;",
        "shfl.idx.b32 %r2, %r0, 0, 31;",
        "cp.async.bulk.prefetch.L2.global [%rd0], 16;",
    ],
)
def test_what_is_not_emulated_stops_before_anything_runs(text: str) -> None:
    out = np.full(4, 3, np.uint32)
    with pytest.raises(UnsupportedInstruction) as caught:
        go(kernel(f"st.global.b32 [%rd0], %r0;\n{text}", 1), tensors((out, "out")), block=1)
    assert caught.value.line == kernel(f"st.global.b32 [%rd0], %r0;\n{text}", 1).split(text)[0].count("\n") + 1
    assert out.tolist() == [3, 3, 3, 3]


def test_a_launch_that_no_device_takes() -> None:
    out = np.zeros(4, np.uint32)
    bound = tensors((out, "out"))
    for sizes, says in (
        ({"block": 2048}, "block (2048, 1, 1)"),
        ({"block": (1, 1, 65)}, "block (1, 1, 65)"),
        ({"block": (32, 32, 2)}, "2048 threads, at most 1024"),
        ({"block": 0}, "block (0, 1, 1)"),
        ({"grid": (1, 65536, 1)}, "grid (1, 65536, 1)"),
        ({"grid": (1, 1)}, "grid: expected one whole number or three, got (1, 1)"),
        ({"grid": 1.5}, "grid: expected"),
        ({"shared": -5}, "-5 bytes of shared memory"),
        ({"shared": 163 * 1024 + 1}, "from 0 to 166912 on sm_80"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            go(kernel("", 1), bound, **sizes)  # type: ignore[arg-type]
    assert go(kernel("", 1), tensors((out, "inout")), grid=list(np.ones(3, int)), shared=163 * 1024).ok
    for block in (64, 16, (16, 2, 1)):  # .reqntid is to be met exactly, .maxntid bounds the number of threads
        with pytest.raises(ValueError, match="compiled for"):
            go(kernel("", 1, threads=32), bound, block=block)
    most = kernel("", 1, threads=32).replace(".reqntid", ".maxntid")
    assert go(most, tensors((out, "inout")), block=(4, 8, 1)).ok
    with pytest.raises(ValueError, match="for 32 threads at most"):
        go(most, bound, block=33)
    with pytest.raises(TypeError, match="expected what `bind` returns, got ndarray"):
        launch(kernel("", 1), "k", 1, 1, bytes(8), [out])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="8 bytes of parameters, got 3"):
        launch(kernel("", 1), "k", 1, 1, b"abc", bound)
    with pytest.raises(KeyError, match="no kernel 'other'"):
        launch(kernel("", 1), "other", 1, 1, b"", bound)


def test_the_example_of_launch() -> None:
    example = inspect.cleandoc(launch.__doc__ or "").split("\n\n")[1]
    names = {"struct": struct, "numpy": np, "launch": launch, "bind": bind, "place": place}
    exec(textwrap.dedent(example), names)
    assert (names["x"] == 2 * np.arange(64)).all()
    assert example.count("\n") + 1 <= 13


def test_what_cannot_be_bound() -> None:
    readonly = np.frombuffer(bytes(16), np.uint32)
    assert bind(readonly, "A", "in").shape == (4,)
    for role in ("out", "inout"):
        with pytest.raises(ValueError, match="A: a read-only array that the kernel may write"):
            bind(readonly, "A", role)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="A: the role is one of in, out, inout, not 'output'"):
        bind(np.zeros(4), "A", "output")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="A: expected strides that are not negative"):
        bind(np.zeros(4)[::-1], "A")
    with pytest.raises(TypeError, match="A: expected a torch tensor or a numpy array, got list"):
        bind([1.0], "A")
    torch = pytest.importorskip("torch")
    for strange in (torch.zeros(4, device="meta"), torch.zeros(4).to_sparse()):
        with pytest.raises(ValueError, match="A: expected a tensor in the CPU's memory"):
            bind(strange, "A")
    assert bind(torch.zeros(4, 3), "A").strides == (3, 1)
