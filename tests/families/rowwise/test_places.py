"""Places in a row are compared with one i64 of the row in 32 bits, and every comparison gives what it gave in 64."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.tree import COMPARISONS, Binary, Call, Cast, Coord, Expr, Literal_, Local, Name, walk
from cutegen.families.rowwise.places import beside_place, brought, in_32_bits
from cutegen.families.rowwise.program import program_of
from cutegen.families.rowwise.walks import Named, Program

SHAPES = {"X": ("M", "N"), "T": ("M", "N"), "t": ("M",), "u": ("M",), "Y": ("M", "N")}
TYPES = {"X": Dtype.f32, "T": Dtype.i64, "t": Dtype.i64, "u": Dtype.u32, "Y": Dtype.f32, "limit": Dtype.i64}
RELATIONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
PLACES = (0, 1, 7, 2**31 - 2)
NUMBERS = (-(2**63), -(2**32), -(2**31) - 1, -(2**31), -2, -1, *PLACES, 2**31 - 1, 2**31, 2**32, 2**32 + 7, 2**63 - 1)


def program(*statements: str) -> Program:
    return program_of(annotate(parse_compute(statements), TYPES), SHAPES, "N", None, True, False)


def compared(found: Program) -> list[Binary]:
    """The comparisons of each element."""
    nodes = (node for one in found.walks for value in one.values for node in walk(value))
    return [node for node in nodes if isinstance(node, Binary) and node.op in COMPARISONS]


def valued(node: Expr, number: int, place: int) -> int:
    """An expression, of t = `number` and coord(N) = `place`, as the machine computes it."""
    match node:
        case Name():
            return number
        case Coord():
            return place
        case Literal_():
            return int(node.value)
        case Cast(dtype=Dtype.i32 | Dtype.i64 as dtype):
            low, high = dtype.range
            return (valued(node.x, number, place) - low) % (high - low + 1) + low
        case Call(function="minimum" | "maximum"):
            return (min if node.function == "minimum" else max)(valued(x, number, place) for x in node.arguments)
        case Binary():
            return int(RELATIONS[node.op](valued(node.left, number, place), valued(node.right, number, place)))
    raise AssertionError(node)


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("text", ["coord(N) {} t", "t {} coord(N)"])
def test_every_comparison_in_32_bits_gives_what_it_gave(text: str, op: str) -> None:
    (typed,) = annotate(parse_compute((f"hit = {text.format(op)}",)), TYPES)
    number = beside_place(typed.value, "N", lambda node: any(isinstance(one, Coord) for one in walk(node)))
    assert number == Name("t", dtype=Dtype.i64)
    short = in_32_bits(typed.value, "N", brought(number))
    assert isinstance(short, Binary) and short.left.dtype is short.right.dtype is Dtype.i32
    for place in PLACES:
        for value in NUMBERS:
            assert valued(short, value, place) == valued(typed.value, value, place), (place, value)


@pytest.mark.parametrize("number", ["t", "t + 1", "u", "limit"])
def test_the_number_is_brought_to_32_bits_once_for_the_row(number: str) -> None:
    found = program(f"hit = coord(N) == {number}", f"Y = where(hit, X, sum(where({number} < coord(N), X, 0), N))")
    (step,) = found.before
    assert isinstance(step, Named) and step.value.dtype is Dtype.i32 and step.why
    assert len(compared(found)) == 2
    for node in compared(found):
        sides = (node.left, node.right)
        assert [side.mode for side in sides if isinstance(side, Coord)] == ["N"]
        assert [side.id for side in sides if isinstance(side, Local)] == [step.name]
        assert node.left.dtype is node.right.dtype is Dtype.i32


def test_a_number_that_a_reduction_gives_is_brought_to_32_bits_after_its_walk() -> None:
    found = program("last = max(T, N)", "Y = where(coord(N) <= last, X, 0)")
    assert not found.before and [step.value.dtype for step in found.walks[0].after] == [Dtype.i32]


@pytest.mark.parametrize("condition", ["coord(N) == T", "coord(N) < 5000000000", "coord(N) < coord(M)", "coord(N) < X"])
def test_other_comparisons_stay_as_they_are(condition: str) -> None:
    found = program(f"Y = where({condition}, X, max(X, N))")
    assert not [node for step in found.rows for node in walk(step.value) if isinstance(node, Call)]
    (typed,) = annotate(parse_compute((f"hit = {condition}",)), TYPES)
    (node,) = compared(found)
    assert isinstance(typed.value, Binary)
    assert node.left.dtype is typed.value.left.dtype and node.right.dtype is typed.value.right.dtype


KERNEL = """\
cutegen: 1
kernel: places
op: rowwise
tensors:
  t: {shape: [M], dtype: i64}
  Y: {shape: [M, N], dtype: i32, role: out}
  count: {shape: [M], dtype: i32, role: out}
compute:
  - below = where(coord(N) < t, 1, 0) + where(coord(N) <= t, 2, 0) + where(coord(N) == t, 4, 0)
  - Y = below + where(t < coord(N), 8, 0) + where(t <= coord(N), 16, 0) + where(t != coord(N), 32, 0)
  - count = sum(where(coord(N) == t, 1, 0), N)
static: {N: 64}
targets: [sm_80]
"""


def test_the_compiled_kernel_compares_no_element_in_64_bits(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("cutlass")
    from cutegen.emulator import install, on_device
    from cutegen.verification.executor import load_module

    (module,) = generate(KERNEL, "x.yaml").modules
    assert ".to(cutlass.Int64)" not in module.text
    (path := tmp_path / "places.py").write_text(module.text)
    install(loaded := load_module(path), "places", lines=False)
    t = torch.tensor([number if number != 7 else 63 for number in NUMBERS])
    y, count = torch.empty(len(t), 64, dtype=torch.int32), torch.empty(len(t), dtype=torch.int32)
    loaded.places(on_device(t), y=on_device(y), count=on_device(count))
    places, rows = torch.arange(64)[None], t[:, None]
    relations = (places < rows, places <= rows, places == rows, rows < places, rows <= places, rows != places)
    assert torch.equal(y.long(), sum(relation.long() << bit for bit, relation in enumerate(relations)))
    assert torch.equal(count.long(), relations[2].sum(1))
