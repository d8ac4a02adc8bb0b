"""Operators on integers: the kernel as emulated, the reference and the bound against Python's integers and torch."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutegen.codegen import generate  # noqa: E402
from cutegen.dtypes import Dtype  # noqa: E402
from cutegen.emulator import install, on_device  # noqa: E402
from cutegen.reference.bounds import evaluate  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402
from tests.fuzz.chance import Chance  # noqa: E402
from tests.fuzz.statements import Writer  # noqa: E402

SHORT, LONG = ("i32", "i16", "i8", "u8"), ("i64", "u32", "i32")
OPERATORS = ("//", "%", "<<", ">>", "&", "|", "^")
NUMBERS = (1, 2, 3, 5, 7, 8, 15, 31, 32, 33, 63, 64, 100, 127, 128, 255, 2**16, 2**24 + 1, 2**31 - 1, 2**32 - 1)
EDGES = (0, *NUMBERS, *(-n for n in NUMBERS), -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
SCHEDULE = 'schedule: {partition: thread_value, thread_layout: "128:1", value_layout: "1:1"}'


def wrapped(value: int, dtype: Dtype) -> int:
    low, _ = dtype.range
    return (value - low) % (1 << dtype.bits) + low


def result(op: str, x: int, y: int, bits: int) -> int:
    """The documented function, on unbounded integers."""
    last = bits - 1
    match op:
        case "//":
            return x // y if y else 0
        case "%":
            return x % y if y else 0
        case "<<":
            return x << y if 0 <= y <= last else 0
        case ">>":
            return x >> (y if 0 <= y <= last else last)
    return {"&": x & y, "|": x | y, "^": x ^ y}[op]


def mixed(x: int, y: int, bits: int) -> int:
    """All operators in one number: each result times a number of its own."""
    width = Dtype.i32 if bits == 32 else Dtype.i64
    parts = [wrapped(result(op, x, y, bits), width) for op in OPERATORS]
    return wrapped(sum(part * (2 * i + 3) for i, part in enumerate(parts)) - ~x, width)


def run(path: Path, name: str, text: str, values: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The kernel's result, after a comparison with `reference` and the bound."""
    module = generate(text, f"specs/{name}.yaml").modules[0]
    file = path / module.name
    file.write_text(module.text, encoding="utf-8")
    python = load_module(file)
    install(python, name, lines=False)
    count = len(next(iter(values.values())))
    outputs = [torch.empty(count, dtype=getattr(torch, tensor.dtype.torch)) for tensor in module.spec.outputs]
    named = {tensor.argument: on_device(out) for tensor, out in zip(module.spec.outputs, outputs, strict=True)}
    getattr(python, name)(*map(on_device, values.values()), **named)
    references = python.reference(*values.values(), **dict(zip(named, outputs, strict=True)))
    wanted = evaluate(module.spec, values, {}).values()
    for found, reference, (value, bound, *_) in zip(outputs, references, wanted, strict=True):
        assert not bound.any()
        assert torch.equal(found.to(value.dtype), value) and torch.equal(reference, found)
    return list(outputs)


def some_of(kind: str, count: int, chance: random.Random) -> torch.Tensor:
    """Integers of a type: numbers that operators treat apart, small ones, and any."""
    low, high = Dtype(kind).range
    found = []
    for _ in range(count):
        value = chance.choice([chance.choice(EDGES), chance.randint(-3, 40), chance.randint(low, high)])
        found.append(value % 2 if kind == "bool" else wrapped(value, Dtype(kind)))
    return torch.tensor(found).to(getattr(torch, Dtype(kind).torch))


@pytest.mark.parametrize(
    ("kinds", "stored", "every"),
    [
        (SHORT, "i32", False),
        (LONG, "i64", False),
        pytest.param(SHORT, "i32", True, marks=pytest.mark.sweep),
        pytest.param(LONG, "i64", True, marks=pytest.mark.sweep),
    ],
)
def test_pairs_of_types(kinds: tuple[str, ...], stored: str, every: bool, tmp_path: Path) -> None:
    """Each type on each side at least: of one side and of the other, operands become the type that both have."""
    chance, count, bits = random.Random(7), 384, Dtype(stored).bits
    lines = [f"cutegen: 1\nkernel: pairs\nop: elementwise\ntargets: [sm_90a]\n{SCHEDULE}\ntensors:"]
    pairs = [(a, b) for a in kinds for b in kinds] if every else list(zip(kinds, (*kinds[1:], kinds[0]), strict=True))
    lines += [f"  {side}{kind}: {{shape: [N], dtype: {kind}}}" for side in "XY" for kind in kinds]
    lines += [f"  Z{a}{b}: {{shape: [N], dtype: {stored}, role: out}}" for a, b in pairs]
    lines.append("compute:")
    for a, b in pairs:
        parts = [f"(X{a} {op} Y{b}) * {2 * i + 3}" for i, op in enumerate(OPERATORS)]
        lines.append(f"  - Z{a}{b} = {' + '.join(parts)} - ~X{a}")

    values = {f"{side}{kind}": some_of(kind, count, chance) for side in "XY" for kind in kinds}
    for (a, b), found in zip(pairs, run(tmp_path, "pairs", "\n".join(lines), values), strict=True):
        x, y = values[f"X{a}"].to(torch.int64).tolist(), values[f"Y{b}"].to(torch.int64).tolist()
        assert found.tolist() == [mixed(*pair, bits) for pair in zip(x, y, strict=True)], (a, b)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_the_documented_meaning_is_torchs(dtype: torch.dtype) -> None:
    bits, info = torch.iinfo(dtype).bits, torch.iinfo(dtype)
    edges = [x for x in EDGES if info.min <= x <= info.max] + [info.min + 1]
    x, y = (side.flatten() for side in torch.meshgrid(*[torch.tensor(edges, dtype=dtype)] * 2, indexing="ij"))
    functions: dict[str, Callable[..., torch.Tensor]] = {
        **{"//": torch.floor_divide, "%": torch.remainder, "<<": torch.bitwise_left_shift},
        **{">>": torch.bitwise_right_shift, "&": torch.bitwise_and, "|": torch.bitwise_or, "^": torch.bitwise_xor},
    }
    for op, function in functions.items():
        kept = y != 0 if op in ("//", "%") else y == y
        own = Dtype.i32 if bits == 32 else Dtype.i64
        pairs = zip(x[kept].tolist(), y[kept].tolist(), strict=True)
        assert function(x[kept], y[kept]).tolist() == [wrapped(result(op, a, b, bits), own) for a, b in pairs], op


@pytest.mark.parametrize("seed", [2, 8, 14])
def test_statements_by_chance(seed: int, tmp_path: Path) -> None:
    chance = Chance(seed)
    read = {"I": "i32", "J": "i32", "U": "u8", "S": "i16", "B": "bool", "W": "i64", "V": "u32"}
    writer = Writer(chance, dict(read), ("N",), plain=True, whole=True)
    written, statements = ["i64", "i32", "u32", "bool", "i16", "u8", "f64"], []
    for number in range(4):
        statements.append(f"v{number} = {writer.integer(3)}")
        writer.types[f"v{number}"] = "i32"
    for number, kind in enumerate(written):
        statements.append(f"O{number} = {writer.truth(3) if kind == 'bool' else writer.integer(4)}")
    statements[-1] += "".join(f" + {name}" for name in (*read, "v0", "v1", "v2", "v3"))
    lines = [f"cutegen: 1\nkernel: chance\nop: elementwise\ntargets: [sm_90a]\n{SCHEDULE}\ntensors:"]
    lines += [f"  {name}: {{shape: [N], dtype: {kind}}}" for name, kind in read.items()]
    lines += [f"  O{number}: {{shape: [N], dtype: {kind}, role: out}}" for number, kind in enumerate(written)]
    lines += ["compute:", *(f"  - {statement}" for statement in statements)]
    values = {name: some_of(kind, 256, chance) for name, kind in read.items()}
    run(tmp_path, "chance", "\n".join(lines), values)


UNSURE = """
cutegen: 1
kernel: unsure
op: elementwise
targets: [sm_90a]
tensors:
  X: {shape: [N], dtype: f32}
  Q: {shape: [N], dtype: i32, role: out}
  R: {shape: [N], dtype: i32, role: out}
  S: {shape: [N], dtype: i32, role: out}
  A: {shape: [N], dtype: i32, role: out}
  L: {shape: [N], dtype: i32, role: out}
compute:
  - i = cast(round(exp(X)), i32)
  - Q = i // 7
  - R = i % 7
  - S = i >> 2
  - A = i & 15
  - L = i << 3
"""


def test_integers_that_are_not_sure() -> None:
    """Bounds of quotients and shifts stay small; what of a remainder or of bits is not sure may be anything."""
    module = generate(UNSURE, "specs/unsure.yaml").modules[0]
    x = torch.linspace(-3, 20, 5000)
    whole = x.double().exp().round().to(torch.int64)
    right = (whole // 7, whole % 7, whole >> 2, whole & 15, whole << 3)
    wanted = list(evaluate(module.spec, {"X": x}, {}).values())
    for exactly, (value, bound, *_) in zip(right, wanted, strict=True):
        assert ((value - exactly).abs() <= bound).all()
        assert (bound == 0).double().mean() > 0.3 and (bound > 0).any()
    for index in (0, 2):
        assert wanted[index].bound.max() < 1e4


COORDINATES = f"""
cutegen: 1
kernel: places
op: elementwise
targets: [sm_90a]
{SCHEDULE}
tensors:
  I: {{shape: [N], dtype: i32}}
  U: {{shape: [N], dtype: u8}}
  B: {{shape: [N], dtype: bool}}
  P: {{shape: [N], dtype: i64, role: out}}
  Q: {{shape: [N], dtype: i64, role: out}}
  R: {{shape: [N], dtype: i32, role: out}}
  S: {{shape: [N], dtype: f64, role: out}}
  T: {{shape: [N], dtype: bool, role: out}}
  V: {{shape: [N], dtype: u32, role: out}}
  W: {{shape: [N], dtype: bool, role: out}}
  A: {{shape: [N], dtype: i32, role: out}}
  C: {{shape: [N], dtype: u8, role: out}}
compute:
  - P = coord(N) * 2000000000
  - p = I * 3
  - Q = where(p > I, p, -p)
  - R = p // 2 - 7 % I
  - S = cast(coord(N) * 2000000000, f64)
  - T = coord(N) * 2000000000 > I * I
  - V = coord(N) * 2000000000 // 3
  - W = (I & 1 == 0) & ~B ^ (U > 7) | (coord(N) == 3)
  - A = ~I + (I // -1) + (I % 8) + (I // 16) + (I % -5) + (I // 3) + (I >> 40) + (I << 40) + (1 << U) + (B & I)
  - C = (U & 15) - 8 | U >> 4 << 5
"""


def test_widths_follow_from_where_a_value_goes(tmp_path: Path) -> None:
    chance = random.Random(3)
    count = 256
    i = torch.tensor([chance.choice([*(x for x in EDGES if abs(x) < 2**31), -(2**31), x]) for x in range(count)])
    u, b = torch.arange(count) * 37 % 256, torch.arange(count) % 3 == 0
    values = {"I": i.to(torch.int32), "U": u.to(torch.uint8), "B": b}
    p, q, r, s, t, v, w, a, c = run(tmp_path, "places", COORDINATES, values)
    place, short = torch.arange(count), values["I"]
    assert torch.equal(p, place * 2_000_000_000) and torch.equal(s, (place * 2_000_000_000).double())
    tripled = i * 3  # wide, as one of its uses is stored in an i64
    assert torch.equal(q, torch.where(tripled > i, tripled, -tripled))
    divisor = torch.where(i == 0, 1, i)
    assert torch.equal(r, (tripled // 2 - torch.where(i == 0, 0, 7 % divisor)).to(torch.int32))
    assert torch.equal(t, place * 2_000_000_000 > short * short)  # a product of int32 wraps in torch as well
    assert torch.equal(v.to(torch.int64), (place * 2_000_000_000 // 3) % 2**32)
    assert torch.equal(w, (short & 1 == 0) & ~b ^ (values["U"] > 7) | (place == 3))
    parts = [~short, -short, short % 8, short // 16, short % -5, short // 3, short >> 40, short << 40, b & short]
    assert torch.equal(a, sum(parts[1:], parts[0]) + (torch.ones_like(short) << u.to(torch.int32)))
    assert torch.equal(c, ((u & 15) - 8 | u >> 4 << 5).to(torch.uint8))


def test_squares_and_sizes_wrap_where_their_type_ends(tmp_path: Path) -> None:
    """In 32 bits where 32 are stored, in 64 where 64 are: a product is as wide as `I * I` would be."""
    made = {"A": ("square(I)", "i64"), "B": ("square(I)", "i32"), "C": ("square(I) // 7", "i32")}
    made |= {"D": ("abs(I)", "i64"), "E": ("clamp(sign(I) * I, I, 7)", "i64")}
    tensors = [f"  {name}: {{shape: [N], dtype: {dtype}, role: out}}" for name, (_, dtype) in made.items()]
    text = "\n".join(
        ["cutegen: 1", "kernel: squares", "op: elementwise", "tensors:", "  I: {shape: [N], dtype: i32}", *tensors]
        + ["compute:", *(f"  - {name} = {what}" for name, (what, _) in made.items()), f"schedule: {SCHEDULE[10:]}"]
    )
    edges = [n for n in EDGES if -(2**31) <= n < 2**31] + [100000, -100000]
    found = run(tmp_path, "squares", text, {"I": torch.tensor(edges, dtype=torch.int32)})
    wide, short, seventh, size, _ = (x.tolist() for x in found)
    assert wide == [n * n for n in edges]
    assert short == [wrapped(n * n, Dtype.i32) for n in edges]
    assert seventh == [wrapped(n * n, Dtype.i32) // 7 for n in edges]
    assert size == [abs(n) for n in edges]
