"""Layout notation, and `make_layout_tv` held against CuTeDSL's own."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensor_layouts import Layout

from cutegen.layouts import (
    LayoutSyntaxError,
    count_below,
    format_layout,
    is_compact,
    is_injective,
    make_layout_tv,
    offsets,
    parse_layout,
)

SHAPES = st.recursive(st.integers(1, 6), lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=5)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    def strides(shape: object) -> object:
        return draw(st.integers(0, 40)) if isinstance(shape, int) else tuple(strides(s) for s in shape)  # type: ignore[attr-defined]

    shape = draw(SHAPES)
    return Layout(shape, strides(shape))


@given(layouts())
def test_printing_and_parsing_are_inverse(layout: Layout) -> None:
    assert parse_layout(format_layout(layout)) == layout
    assert " " not in format_layout(layout)


@pytest.mark.parametrize(
    ("text", "shape", "stride"),
    [
        ("(4,32):(32,1)", (4, 32), (32, 1)),
        ("4:1", 4, 1),
        ("4", 4, 1),
        (4, 4, 1),
        ("(4):(1)", (4,), (1,)),
        ("(4,1)", (4, 1), (1, 4)),
        ("(2,(3,4),5)", (2, (3, 4), 5), (1, (2, 6), 24)),
        (" ( 16 ,16, 1 ) : (1,16, 0) ", (16, 16, 1), (1, 16, 0)),
        ("((2,2),(2,3)):((2,12),(1,4))", ((2, 2), (2, 3)), ((2, 12), (1, 4))),
    ],
)
def test_layouts_that_are_read(text: str | int, shape: object, stride: object) -> None:
    layout = parse_layout(text)
    assert (layout.shape, layout.stride) == (shape, stride)


@pytest.mark.parametrize(
    ("text", "offset", "part"),
    [
        ("", 0, "empty"),
        ("  ", 0, "empty"),
        ("(4,32", 4, "never closed"),
        ("(4,32:(32,1)", 5, "missing before `:`"),
        ("(4,32):(32,1", 11, "never closed"),
        ("(4,32):(32)", 7, "do not match"),
        ("(4,32):1", 7, "do not match"),
        ("(4,(2,2)):(1,4)", 10, "do not match"),
        ("4:", 1, "stride is missing"),
        ("0:1", 0, "at least 1"),
        ("(4,0)", 3, "at least 1"),
        ("(4,-2)", 3, "negative"),
        ("(4,2):(1,-4)", 9, "negative"),
        ("9999999999", 0, "at most 2147483647"),
        ("9" * 900, 0, "at most 2147483647"),
        ("(65536,65536)", 0, "at most 2147483647 fit"),
        ("(4,2):(1,4):7", 11, "too many"),
        ("(4,2)x", 5, "too much"),
        ("()", 1, "needed here"),
        ("4,2", 1, "too much"),
        ("(4;2)", 2, "missing before `;`"),
        ("a", 0, "needed here"),
        ("²", 0, "needed here"),
        ("(" * 40, 16, "deeper than 16"),
        ("(" * 2000, 0, "2000 characters"),
    ],
)
def test_layouts_that_are_refused(text: str, offset: int, part: str) -> None:
    with pytest.raises(LayoutSyntaxError) as caught:
        parse_layout(text)
    assert part in caught.value.message
    assert caught.value.offset == offset


def test_incongruent_strides_are_told_the_compact_ones() -> None:
    with pytest.raises(LayoutSyntaxError) as caught:
        parse_layout("(4,(2,3)):(1,4)")
    assert "(1,(4,8))" in (caught.value.help or "")


def places(layout: Layout) -> list[int]:
    from tensor_layouts import size

    return [layout(i) for i in range(size(layout))]


@given(layouts())
def test_injective_and_compact_agree_with_counting(layout: Layout) -> None:
    found = places(layout)
    assert is_injective(layout) == (len(set(found)) == len(found))
    if is_injective(layout):
        assert is_compact(layout) == (set(found) == set(range(len(found))))


def test_injectivity_is_bounded() -> None:
    assert is_injective(parse_layout("(1000000,2):(1,1000000)")) is True
    assert is_injective(parse_layout("(1000000,2):(1,0)")) is False
    assert is_injective(parse_layout("(1000000,2):(1,7)")) is None


@pytest.mark.parametrize(
    ("threads", "values", "tiler", "tv"),
    [
        ("(4,32):(32,1)", "(4,4):(4,1)", (16, 128), "((32,4),(4,4)):((64,4),(16,1))"),
        ("(32,8):(8,1)", "(4,8):(8,1)", (128, 64), "((8,32),(8,4)):((1024,4),(128,1))"),
    ],
)
def test_thread_value_layouts_of_known_kernels(threads: str, values: str, tiler: tuple[int, ...], tv: str) -> None:
    got = make_layout_tv(parse_layout(threads), parse_layout(values))
    assert (got[0], format_layout(got[1])) == (tiler, tv)


def compact(random_: random.Random, shape: tuple[int, ...]) -> Layout:
    order = list(range(len(shape)))
    random_.shuffle(order)
    stride, step = [0] * len(shape), 1
    for i in order:
        stride[i] = step
        step *= shape[i]
    return Layout(shape, tuple(stride))


def test_thread_value_layouts_are_those_of_cutedsl(tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    chance = random.Random(7)
    cases = []
    for _ in range(60):
        rank = chance.randint(1, 3)
        sizes = [tuple(chance.choice((1, 2, 3, 4, 8)) for _ in range(rank)) for _ in range(2)]
        cases.append(tuple(compact(chance, shape) for shape in sizes))
    literal = [(t.shape, t.stride, v.shape, v.stride) for t, v in cases]
    script = tmp_path / "evaluate.py"
    script.write_text(
        "import cutlass, cutlass.cute as cute\n"
        "@cute.jit\n"
        "def show(ts: cutlass.Constexpr, td: cutlass.Constexpr, vs: cutlass.Constexpr, vd: cutlass.Constexpr):\n"
        "    tiler, tv = cute.make_layout_tv(cute.make_layout(ts, stride=td), cute.make_layout(vs, stride=vd))\n"
        "    print(tiler, '|', tv)\n"
        f"for case in {literal!r}:\n"
        "    show(*case)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=True)
    lines = [line.split(" | ") for line in done.stdout.splitlines() if " | " in line]
    assert len(lines) == len(cases)
    for (threads, values), (tiler, tv) in zip(cases, lines, strict=True):
        got = make_layout_tv(threads, values)
        assert (str(got[0]), format_layout(got[1])) == (tiler, tv), (threads, values)


@pytest.mark.parametrize("text", ["8", "(4,8):(8,1)", "((2,2),4):((1,16),4)", "(3,5):(1,100)", "(1,6):(7,2)"])
def test_offsets_below_a_limit_are_counted_without_the_others(text: str) -> None:
    layout = parse_layout(text)
    for limit in (1, 2, 7, 16, 1000):
        assert count_below(layout, limit) == sum(offset < limit for offset in offsets(layout))
    assert count_below(parse_layout("(2147483647,1)"), 16) == 16
