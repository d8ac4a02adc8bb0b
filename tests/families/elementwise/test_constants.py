"""Numbers and truths that no argument decides, and infinity: what is printed of them compiles and is right."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from calls_kit import arguments_of, call  # noqa: E402

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import install, on_device  # noqa: E402
from cutegen.reference.bounds import evaluate  # noqa: E402
from cutegen.verification.compare import compare  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

# expression of X, its type, and what it is in Python
VALUES = [
    ("X + (not 1 > 0)", "f32", lambda x: x),
    ("tanh(not False) * X", "f32", lambda x: math.tanh(1) * x),
    ("X + (1 < 2 and not (2 == 3 or False))", "f32", lambda x: x + 1),
    ("where(not (not (0.5 < 0)) or X > 0, 1, 2 > 1)", "i32", lambda x: 1),
    ("where(X > 0 and (True or False), cast(300, u8), cast(1.5, i32))", "i32", lambda x: 44 if x > 0 else 1),
    ("X > (3 > 2)", "bool", lambda x: x > 1),
    ("not (1 > 0)", "bool", lambda x: False),
    ("minimum(cast(1.5, i32), 3 * 3) + cast(X, i32)", "i32", lambda x: 1 + math.trunc(x)),
    ("cast(0.1, f16) + cast(not (1 > 2), f32) * 0 * X", "f32", lambda x: 0.0999755859375),
    ("cast(cast(0.1, bf16), f64) + 0 * X", "f64", lambda x: 0.10009765625),
    ("where(X > 0, X, -inf)", "f32", lambda x: x if x > 0 else -math.inf),
    ("maximum(X, nan)", "f32", lambda x: math.nan),
    ("where(X == -inf, 1 / inf, X)", "f64", lambda x: x),
    ("cast(where(X > 0, inf, X), u8)", "u8", lambda x: 255 if x > 0 else 0),
]


def test_constants(tmp_path: Path) -> None:
    names = [f"Y{i}" for i in range(len(VALUES))]
    tensors = [
        f"{n}: {{shape: [N], dtype: {dtype}, role: out}}" for n, (_, dtype, _) in zip(names, VALUES, strict=True)
    ]
    statements = [f"{n} = {text}" for n, (text, _, _) in zip(names, VALUES, strict=True)]
    text = "\n  ".join(["cutegen: 1\nkernel: some_numbers\nop: elementwise\ntargets: [sm_80]\ntensors:", *tensors])
    lines = "\n  - ".join(["compute:", "c = (0.5 < 1) ** 2", "d = not (1 > 2)", *statements, "Z = where(d, X * c, 0)"])
    text += "\n  X: {shape: [N], dtype: f32}\n  Z: {shape: [N], dtype: f32, role: out}\n" + lines
    module = generate(text, "specs/numbers.yaml").modules[0]
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    python = load_module(path)
    install(python, "some_numbers", lines=False)
    arguments = arguments_of(python, N=64)
    x, z = arguments[-2:]
    x[:4] = torch.tensor([0.0, -0.5, 1.0, 70.25])
    call(python, "some_numbers", list(map(on_device, arguments)))
    reference = call(python, "reference", arguments)
    derived = evaluate(module.spec, {"X": x}, {})
    assert torch.equal(z, x)
    for number, (text, _, independent) in enumerate(VALUES):
        found = arguments[number]
        right = torch.tensor([independent(value) for value in x.tolist()], dtype=torch.float64)
        torch.testing.assert_close(found.double(), right, rtol=1e-6, atol=0, equal_nan=True, msg=text)
        expected, bound, *_ = derived[names[number]]
        assert bound.isfinite().all() and compare(found, expected, bound).ok, text
        assert compare(reference[number], expected, bound).ok, text


def test_a_name_that_is_declared_is_no_number() -> None:
    head = "cutegen: 1\nkernel: named\nop: elementwise\ntensors:\n  Y: {shape: [N], dtype: f32, role: out}\n"
    tensor = head + "  inf: {shape: [N], dtype: f32}\ncompute: Y = inf * 2"
    scalar = head + "scalars: {nan: f32}\ncompute: Y = nan * 2"
    local = head + "  X: {shape: [N], dtype: f32}\ncompute: [inf = X * 2, Y = inf]"
    for text in (tensor, scalar, local):
        module = generate(text, "specs/named.yaml").modules[0].text
        assert 'float("' not in module and "torch.inf" not in module


def test_a_constant_of_f32_is_rounded_before_f64_takes_it() -> None:
    """CuTeDSL keeps all digits of `Float32(0.1)` where it becomes a Float64."""
    text = """
cutegen: 1
kernel: shifted
op: elementwise
tensors:
  X: {shape: [N], dtype: f64}
  Y: {shape: [N], dtype: f64, role: out}
compute: [v = 0.1, Y = X + v]
"""
    (module,) = generate(text, "specs/x.yaml").modules
    assert "v = cutlass.Float32(0.10000000149011612)\n" in module.text


def test_tiles_under_a_mask_count_as_begun_where_blocks_must_be_whole() -> None:
    text = """
cutegen: 1
kernel: whole
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X
schedule: {partition: inner, tiler: {M: 2, N: 2}, predication: {N: none}, scheduler: {raster: M}}
"""
    (module,) = generate(text, "specs/x.yaml").modules
    assert 'tiles = -(-sizes["M"] // TILER[0]) * (sizes["N"] // TILER[1])\n' in module.text
