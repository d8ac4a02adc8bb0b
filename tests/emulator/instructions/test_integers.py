"""Integer, bit and predicate instructions against Python's whole numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semantics_kit import REGISTER, compute, compute_all, signed, words

QUICK = settings(max_examples=15, deadline=None)
Rule = Callable[..., int]


def read(bits: int, kind: str) -> int:
    width = int(kind[1:])
    return signed(bits, width) if kind[0] == "s" else bits


def check(text: str, kinds: list[str], result: str, lanes: list[tuple[int, ...]], rule: Rule) -> None:
    """Runs the instruction on lanes of bits and compares each with the rule on numbers, cut to the result's width."""
    columns = [list(column) for column in zip(*lanes, strict=True)]
    got = compute(text, *columns).tolist()
    mask = (1 << int(result[1:])) - 1
    for lane, bits in zip(lanes, got, strict=True):
        want = rule(*[read(b, k) for b, k in zip(lane, kinds, strict=True)]) & mask
        assert bits == want, (text, [hex(b) for b in lane], hex(bits), hex(want))


def rows(*widths: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*[words(w) for w in widths]), min_size=1, max_size=20)


KINDS = ["s16", "u16", "s32", "u32", "s64", "u64"]


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


TWO: dict[str, Rule] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "min": min,
    "max": max,
    "mul.lo": lambda a, b: a * b,
    "div": truncated,
    "rem": lambda a, b: a - b * truncated(a, b),
}


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("kind", KINDS)
@QUICK
@given(data=st.data())
def test_two_operands(name: str, kind: str, data: st.DataObject) -> None:
    width = int(kind[1:])
    r = REGISTER[width]
    lanes = data.draw(rows(width, width))
    if name in ("div", "rem"):  # by zero PTX leaves the result open
        lanes = [(a, b or 3) for a, b in lanes]
    check(f"{name}.{kind} {r}1, {r}2, {r}3", [kind, kind], kind, lanes, TWO[name])


@pytest.mark.parametrize("kind", KINDS)
@QUICK
@given(data=st.data())
def test_high_wide_and_sad(kind: str, data: st.DataObject) -> None:
    width = int(kind[1:])
    r = REGISTER[width]
    lanes = data.draw(rows(width, width, width))
    pairs = [lane[:2] for lane in lanes]
    check(f"mul.hi.{kind} {r}1, {r}2, {r}3", [kind] * 2, kind, pairs, lambda a, b: a * b >> width)
    check(f"mad.hi.{kind} {r}1, {r}2, {r}3, {r}4", [kind] * 3, kind, lanes, lambda a, b, c: (a * b >> width) + c)
    check(f"mad.lo.{kind} {r}1, {r}2, {r}3, {r}4", [kind] * 3, kind, lanes, lambda a, b, c: a * b + c)
    check(f"sad.{kind} {r}1, {r}2, {r}3, {r}4", [kind] * 3, kind, lanes, lambda a, b, c: abs(a - b) + c)
    if width < 64:
        twice = f"{kind[0]}{2 * width}"
        w = REGISTER[2 * width]
        check(f"mul.wide.{kind} {w}1, {r}2, {r}3", [kind] * 2, twice, pairs, lambda a, b: a * b)
        wide = [(a, b, c * 0x10001 % (1 << 2 * width)) for a, b, c in lanes]
        check(f"mad.wide.{kind} {w}1, {r}2, {r}3, {w}4", [kind, kind, twice], twice, wide, lambda a, b, c: a * b + c)


@QUICK
@given(rows(32, 32, 32))
def test_saturating_and_24_bit_forms(lanes: list[tuple[int, ...]]) -> None:
    def clamp(x: int) -> int:
        return max(-(2**31), min(2**31 - 1, x))

    def low24(x: int, sign: bool) -> int:
        x &= 0xFFFFFF
        return x - (1 << 24) if sign and x >> 23 else x

    pairs = [lane[:2] for lane in lanes]
    s = ["s32"] * 3
    check("add.sat.s32 %r1, %r2, %r3", s[:2], "s32", pairs, lambda a, b: clamp(a + b))
    check("sub.sat.s32 %r1, %r2, %r3", s[:2], "s32", pairs, lambda a, b: clamp(a - b))
    check("mad.hi.sat.s32 %r1, %r2, %r3, %r4", s, "s32", lanes, lambda a, b, c: clamp((a * b >> 32) + c))
    check("mul24.lo.s32 %r1, %r2, %r3", s[:2], "s32", pairs, lambda a, b: low24(a, True) * low24(b, True))
    check("mul24.hi.u32 %r1, %r2, %r3", ["u32"] * 2, "u32", pairs, lambda a, b: low24(a, False) * low24(b, False) >> 16)
    check("mad24.lo.s32 %r1, %r2, %r3, %r4", s, "s32", lanes, lambda a, b, c: low24(a, True) * low24(b, True) + c)


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs(kind: str) -> None:
    width = int(kind[1:])
    r = REGISTER[width]
    lanes = [(b % (1 << width),) for b in (0, 1, -1, 7, -7, -(1 << (width - 1)), (1 << (width - 1)) - 1)]
    check(f"abs.{kind} {r}1, {r}2", [kind], kind, lanes, abs)
    check(f"neg.{kind} {r}1, {r}2", [kind], kind, lanes, lambda a: -a)


@QUICK
@given(rows(32, 32))
def test_packed_halves(lanes: list[tuple[int, ...]]) -> None:
    def both(rule: Rule, sign: bool) -> Rule:
        def whole(a: int, b: int) -> int:
            total = 0
            for shift in (0, 16):
                x, y = a >> shift & 0xFFFF, b >> shift & 0xFFFF
                x, y = (signed(x, 16), signed(y, 16)) if sign else (x, y)
                total |= (rule(x, y) & 0xFFFF) << shift
            return total

        return whole

    for name, rule in (("add", TWO["add"]), ("min", min), ("max", max)):
        for kind in ("s16x2", "u16x2"):
            check(f"{name}.{kind} %r1, %r2, %r3", ["u32"] * 2, "u32", lanes, both(rule, kind[0] == "s"))


@QUICK
@given(rows(32, 32, 32))
def test_dot_products_of_bytes(lanes: list[tuple[int, ...]]) -> None:
    def byte(x: int, i: int, sign: bool) -> int:
        value = x >> 8 * i & 0xFF
        return signed(value, 8) if sign else value

    def dp4a(at: str, bt: str) -> Rule:
        return lambda a, b, c: c + sum(byte(a, i, at == "s32") * byte(b, i, bt == "s32") for i in range(4))

    for at in ("s32", "u32"):
        for bt in ("s32", "u32"):
            check(f"dp4a.{at}.{bt} %r1, %r2, %r3, %r4", ["u32"] * 3, "u32", lanes, dp4a(at, bt))

    def dp2a(a: int, b: int, c: int) -> int:
        return c + sum(signed(a >> 16 * i & 0xFFFF, 16) * byte(b, 2 + i, False) for i in range(2))

    check("dp2a.hi.s32.u32 %r1, %r2, %r3, %r4", ["u32"] * 3, "u32", lanes, dp2a)


@QUICK
@given(rows(32, 32, 32), st.integers(0, 255))
def test_logic(lanes: list[tuple[int, ...]], table: int) -> None:
    pairs = [lane[:2] for lane in lanes]
    for name, rule in {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}.items():
        check(f"{name}.b32 %r1, %r2, %r3", ["u32"] * 2, "u32", pairs, rule)
    check("not.b32 %r1, %r2", ["u32"], "u32", [lane[:1] for lane in lanes], lambda a: ~a)
    check("cnot.b32 %r1, %r2", ["u32"], "u32", [(0,), (5,)], lambda a: int(a == 0))

    def lop3(a: int, b: int, c: int) -> int:
        bits = [(table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1))) & 1 for i in range(32)]
        return sum(bit << i for i, bit in enumerate(bits))

    check(f"lop3.b32 %r1, %r2, %r3, %r4, {table}", ["u32"] * 3, "u32", lanes, lop3)


def test_predicates() -> None:
    a, b = [False, False, True, True], [False, True, False, True]
    assert compute("and.pred %p1, %p2, %p3", a, b).tolist() == [False, False, False, True]
    assert compute("or.pred %p1, %p2, %p3", a, b).tolist() == [False, True, True, True]
    assert compute("xor.pred %p1, %p2, %p3", a, b).tolist() == [False, True, True, False]
    assert compute("not.pred %p1, %p2", a).tolist() == [True, True, False, False]
    assert compute("mov.pred %p1, %p2", a).tolist() == a
    assert compute("selp.b32 %r1, %r2, %r3, %p1", [1, 2], [3, 4], [True, False]).tolist() == [1, 4]


@pytest.mark.parametrize(
    "name", ["shl.b16", "shl.b32", "shl.b64", "shr.u16", "shr.s16", "shr.u32", "shr.s32", "shr.b64", "shr.s64"]
)
@QUICK
@given(data=st.data())
def test_shifts(name: str, data: st.DataObject) -> None:
    opcode, kind = name.split(".")
    width = int(kind[1:])
    r = REGISTER[width]
    lanes = data.draw(
        st.lists(st.tuples(words(width), st.one_of(st.integers(0, 70), words(32))), min_size=1, max_size=20)
    )

    def rule(a: int, count: int) -> int:
        count = min(count, width)
        return a << count if opcode == "shl" else a >> count

    check(f"{name} {r}1, {r}2, %r9", [kind, "u32"], kind, lanes, rule)
    for count in (0, 1, width - 1, width, width + 3, 0xFFFFFFFF):
        check(f"{name} {r}1, {r}2, {count}", [kind], kind, [lane[:1] for lane in lanes], lambda a, n=count: rule(a, n))


@QUICK
@given(st.lists(st.tuples(words(32), words(32), st.integers(0, 70)), min_size=1, max_size=20))
def test_funnel_shifts(lanes: list[tuple[int, ...]]) -> None:
    for mode in ("wrap", "clamp"):

        def count(c: int, mode: str = mode) -> int:
            return c & 31 if mode == "wrap" else min(c, 32)

        check(
            f"shf.l.{mode}.b32 %r1, %r2, %r3, %r4",
            ["u32"] * 3,
            "u32",
            lanes,
            lambda a, b, c: (b << 32 | a) << count(c) >> 32,
        )
        check(
            f"shf.r.{mode}.b32 %r1, %r2, %r3, %r4", ["u32"] * 3, "u32", lanes, lambda a, b, c: (b << 32 | a) >> count(c)
        )


@pytest.mark.parametrize("width", [32, 64])
@QUICK
@given(data=st.data())
def test_bit_fields(width: int, data: st.DataObject) -> None:
    r = REGISTER[width]
    fields = st.tuples(words(width), words(width), st.integers(0, 300), st.integers(0, 300))
    near = st.tuples(words(width), words(width), st.integers(0, width + 2), st.integers(0, width + 2))
    lanes = data.draw(st.lists(st.one_of(fields, near), min_size=1, max_size=20))

    def extract(a: int, position: int, length: int, sign: bool) -> int:
        # Bit by bit, as the manual's pseudocode does it.
        position, length = position & 0xFF, length & 0xFF
        last = min(position + length - 1, width - 1)
        fill = 0 if not sign or length == 0 else a >> last & 1
        return sum(
            ((a >> (position + i) & 1) if i < length and position + i < width else fill) << i for i in range(width)
        )

    def insert(a: int, b: int, position: int, length: int) -> int:
        position, length = position & 0xFF, length & 0xFF
        for i in range(length):
            if position + i < width:
                b = (b & ~(1 << (position + i))) | ((a >> i & 1 if i < width else 0) << (position + i))
        return b

    fewer = [(a, p, n) for a, _, p, n in lanes]
    u = f"u{width}"
    check(f"bfe.{u} {r}1, {r}2, %r3, %r4", [u, "u32", "u32"], u, fewer, lambda a, p, n: extract(a, p, n, False))
    check(f"bfe.s{width} {r}1, {r}2, %r3, %r4", [u, "u32", "u32"], u, fewer, lambda a, p, n: extract(a, p, n, True))
    check(f"bfi.b{width} {r}1, {r}2, {r}3, %r4, %r5", [u, u, "u32", "u32"], u, lanes, insert)


@pytest.mark.parametrize("width", [32, 64])
@QUICK
@given(data=st.data())
def test_counting_bits(width: int, data: st.DataObject) -> None:
    r, u = REGISTER[width], f"u{width}"
    lanes = data.draw(rows(width)) + [(0,), ((1 << width) - 1,)]
    check(f"popc.b{width} %r1, {r}2", [u], "u32", lanes, lambda a: a.bit_count())
    check(f"clz.b{width} %r1, {r}2", [u], "u32", lanes, lambda a: width - a.bit_length())
    check(f"brev.b{width} {r}1, {r}2", [u], u, lanes, lambda a: int(f"{a:0{width}b}"[::-1], 2))
    check(f"bfind.{u} %r1, {r}2", [u], "u32", lanes, lambda a: a.bit_length() - 1)
    check(f"bfind.shiftamt.{u} %r1, {r}2", [u], "u32", lanes, lambda a: width - a.bit_length() if a else -1)

    def highest(a: int) -> int:
        return (~a if a < 0 else a).bit_length() - 1

    check(f"bfind.s{width} %r1, {r}2", [f"s{width}"], "u32", lanes, highest)


@QUICK
@given(st.lists(st.tuples(words(32), words(32), words(32)), min_size=1, max_size=20))
def test_byte_permutations(lanes: list[tuple[int, ...]]) -> None:
    def octets(a: int, b: int) -> list[int]:
        return list((b << 32 | a).to_bytes(8, "little"))

    def default(a: int, b: int, c: int) -> int:
        chosen = []
        for i in range(4):
            selector = c >> 4 * i & 0xF
            byte = octets(a, b)[selector & 7]
            chosen.append((0xFF if byte & 0x80 else 0) if selector & 8 else byte)
        return int.from_bytes(bytes(chosen), "little")

    def forward(a: int, b: int, c: int) -> int:
        start = c & 3
        return int.from_bytes(bytes(octets(a, b)[start : start + 4]), "little")

    def backward(a: int, b: int, c: int) -> int:
        return int.from_bytes(bytes(octets(a, b)[((c & 3) - i) % 8] for i in range(4)), "little")

    def replicate(a: int, b: int, c: int) -> int:
        return octets(a, b)[c & 3] * 0x01010101

    def edge_left(a: int, b: int, c: int) -> int:
        return int.from_bytes(bytes(octets(a, b)[max(i, c & 3)] for i in range(4)), "little")

    def edge_right(a: int, b: int, c: int) -> int:
        return int.from_bytes(bytes(octets(a, b)[min(i, c & 3)] for i in range(4)), "little")

    def replicate16(a: int, b: int, c: int) -> int:
        return (a >> 16 * (c & 1) & 0xFFFF) * 0x00010001

    modes = {"": default, ".f4e": forward, ".b4e": backward, ".rc8": replicate, ".ecl": edge_left, ".ecr": edge_right}
    for mode, rule in {**modes, ".rc16": replicate16}.items():
        check(f"prmt.b32{mode} %r1, %r2, %r3, %r4", ["u32"] * 3, "u32", lanes, rule)
    for selector in (0x3210, 0x7770, 0x5410, 0x9BDF, 0x0123):
        pairs = [lane[:2] for lane in lanes]
        check(
            f"prmt.b32 %r1, %r2, %r3, {selector:#x}U",
            ["u32"] * 2,
            "u32",
            pairs,
            lambda a, b, s=selector: default(a, b, s),
        )


def test_moves_pack_and_unpack() -> None:
    assert compute("mov.b32 %r1, {%rs1, %rs2}", [0x1111], [0x2222]).tolist() == [0x22221111]
    assert compute("mov.b64 %rd1, {%r1, %r2}", [1], [2]).tolist() == [0x2_00000001]
    low, high = compute_all("mov.b64 {%r1, %r2}, %rd1", [0x0123456789ABCDEF])
    assert (low.item(), high.item()) == (0x89ABCDEF, 0x01234567)
    parts = compute_all("mov.b64 {%rs1, %rs2, %rs3, %rs4}, %rd1", [0x0123456789ABCDEF])
    assert [p.item() for p in parts] == [0xCDEF, 0x89AB, 0x4567, 0x0123]
    assert compute("mov.b64 %rd1, {%r1, 7}", [5]).tolist() == [(7 << 32) + 5]


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("kind", KINDS)
@QUICK
@given(data=st.data())
def test_comparisons(kind: str, data: st.DataObject) -> None:
    width = int(kind[1:])
    r = REGISTER[width]
    lanes = [
        (a, b, c) for a, b, c in data.draw(st.lists(st.tuples(words(width), words(width), st.booleans()), min_size=1))
    ]
    a, b, c = (list(column) for column in zip(*lanes, strict=True))
    names = {
        **{n: n for n in COMPARISONS},
        **({"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"} if kind[0] == "u" else {}),
    }
    for name, plain in names.items():
        want = [COMPARISONS[plain](read(x, kind), read(y, kind)) for x, y in zip(a, b, strict=True)]
        assert compute(f"setp.{name}.{kind} %p1, {r}1, {r}2", a, b).tolist() == want
        both = compute_all(f"setp.{name}.{kind} %p1|%p2, {r}1, {r}2", a, b)
        assert [x.tolist() for x in both] == [want, [not w for w in want]]
        joined = compute_all(f"setp.{name}.or.{kind} %p1|%p2, {r}1, {r}2, %p3", a, b, c)
        assert joined[0].tolist() == [w or z for w, z in zip(want, c, strict=True)]
        assert joined[1].tolist() == [(not w) or z for w, z in zip(want, c, strict=True)]
        got = compute(f"setp.{name}.xor.{kind} %p1, {r}1, {r}2, %p3", a, b, c).tolist()
        assert got == [w != z for w, z in zip(want, c, strict=True)]
        ones = (
            compute(f"set.{name}.u32.{kind} %r1, {r}1, {r}2", a, b)
            if width != 32
            else compute(f"set.{name}.u32.{kind} %r1, %r2, %r3", a, b)
        )
        assert ones.tolist() == [0xFFFFFFFF if w else 0 for w in want]
        assert compute(f"set.{name}.f32.{kind} %r1, {r}1, {r}2", a, b).tolist() == [
            0x3F800000 if w else 0 for w in want
        ]


def test_select_by_sign() -> None:
    values = np.array([0, 5, 0x80000000, 0xFFFFFFFF], dtype=np.uint32)
    assert compute("slct.b32.s32 %r1, 1, 2, %r2", values).tolist() == [1, 1, 2, 2]
    # +0, 1.0, -0, NaN, the smallest negative number
    values = np.array([0, 0x3F800000, 0x80000000, 0x7FC00000, 0x80000001], dtype=np.uint32)
    assert compute("slct.b32.f32 %r1, 1, 2, %r2", values).tolist() == [1, 1, 1, 2, 2]
    assert compute("slct.ftz.b32.f32 %r1, 1, 2, %r2", values).tolist() == [1, 1, 1, 2, 1]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@QUICK
@given(data=st.data())
def test_sums_and_products_that_carry(kind: str, data: st.DataObject) -> None:
    """The carry is the second result of what has `.cc`, and the last operand of what ends with `c`."""
    width = int(kind[1:])
    r, whole = REGISTER[width], 1 << width
    for a, b, c in data.draw(rows(width, width, width)):
        for carry in (0, 1):
            product = read(a, kind) * read(b, kind)
            rules = {
                "add.cc": a + b,
                "addc": a + b + carry,
                "addc.cc": a + b + carry,
                "sub.cc": a - b,
                "subc": a - b - carry,
                "subc.cc": a - b - carry,
                "mad.lo.cc": product % whole + c,
                "madc.lo.cc": product % whole + c + carry,
                "mad.hi.cc": (product >> width) % whole + c,
                "madc.hi": (product >> width) % whole + c + carry,
                "madc.hi.cc": (product >> width) % whole + c + carry,
            }
            for name, exactly in rules.items():
                given = [a, b, *[c] * name.startswith("mad"), *[carry] * name.split(".")[0].endswith("c")]
                operands = ", ".join(f"{r}{i}" for i in range(2, 4 + name.startswith("mad")))
                found = [int(x) for x in compute_all(f"{name}.{kind} {r}1, {operands}", *given)]
                assert found == [exactly % whole, *[int(not 0 <= exactly < whole)] * name.endswith("cc")], name
