"""Elementwise kernels of several statements and outputs, and of coordinates, run by the emulator against torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sweep_kit import sampled

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from calls_kit import arguments_of, call  # noqa: E402
from cutlass.cutlass_dsl import DSLCudaRuntimeError  # noqa: E402

from cutegen.codegen import Module, generate  # noqa: E402
from cutegen.codegen.formatting import WIDTH  # noqa: E402
from cutegen.emulator import TensorArgument, install, on_device  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

HEAD = "cutegen: 1\nkernel: {kernel}\nop: elementwise\ntargets: [{target}]\n"
SWIGLU = """
tensors:
  dY: {shape: [M, N], dtype: bf16}
  G: {shape: [M, N], dtype: bf16}
  U: {shape: [M, N], dtype: bf16}
  dG: {shape: [M, N], dtype: bf16, role: out}
  dU: {shape: [M, N], dtype: bf16, role: out}
compute: [s = sigmoid(G), dU = dY * G * s, dG = dY * U * s * (1 + G * (1 - s))]
"""
ADAMW = """
tensors:
  P: {shape: [I, J], dtype: f32, role: inout}
  M: {shape: [I, J], dtype: f32, role: inout}
  V: {shape: [I, J], dtype: f32, role: inout}
  G: {shape: [I, J], dtype: f32}
scalars: {lr: f32, beta1: f32, beta2: f32, eps: f32, decay: f32, correction1: f32, correction2: f32}
compute:
  - M = beta1 * M + (1 - beta1) * G
  - V = beta2 * V + (1 - beta2) * G * G
  - P = P - lr * (decay * P + M / correction1 / (sqrt(V / correction2) + eps))
"""
ROPE = """
tensors:
  X1: {shape: [T, H, D], dtype: bf16}
  X2: {shape: [T, H, D], dtype: bf16}
  cos: {shape: [T, D], dtype: f32}
  sin: {shape: [T, D], dtype: f32}
  Y1: {shape: [T, H, D], dtype: bf16, role: out}
  Y2: {shape: [T, H, D], dtype: bf16, role: out}
compute: [Y1 = X1 * cos - X2 * sin, Y2 = X2 * cos + X1 * sin]
"""
CAUSAL = """
tensors:
  X: {shape: [M, N], dtype: f32%(align)s}
  Y: {shape: [M, N], dtype: f32%(align)s, role: out}
compute: Y = where(coord(N) <= coord(M), X, -1e30)
"""
# dtypes, majornesses, a value that is stored and used later, names that meet those of tensors and of generated code
MIXED = """
tensors:
  X: {shape: [M, N], dtype: f32, align: 4}
  R: {shape: [M], dtype: f32, align: 4}
  Y: {shape: [M, N], dtype: bf16, align: 2, role: out}
  Z: {shape: [M, N], dtype: f32, major: M, align: 4, role: out}
  B: {shape: [M, N], dtype: bool, align: 1, role: out}
  K: {shape: [M, N], dtype: i32, align: 4, role: out}
scalars: {a: f32}
compute:
  - x = X * R
  - tidx = a * 2
  - half = 0.5
  - Y = x + tidx
  - Z = Y * half
  - B = Z > 0 and coord(M) < 6
  - K = where(B, coord(N), -1)
"""
ROWS = torch.arange(5.0)[:, None]
PARTITIONS = {
    "inner": "{partition: inner, threads: 32}",
    "inner tile": "{partition: inner, threads: 32, tiler: {%s: 2, %s: 4}}",
    "inner_outer": "{partition: inner_outer, tiler: {%s: 8, %s: 32}}",
    "runs": "{partition: inner_outer, tiler: {%s: 8, %s: 64}, copy: {bits: 64}}",
    "thread_value": "{partition: thread_value, thread_layout: '(4,8):(8,1)', value_layout: '(2,4):(4,1)'}",
}


def made(kernel: str, body: str, more: str = "", target: str = "sm_80") -> Module:
    return generate(HEAD.format(kernel=kernel, target=target) + body + more, "specs/x.yaml").modules[0]


def loaded(module: Module, folder: Path) -> ModuleType:
    path = folder / module.name
    path.write_text(module.text, encoding="utf-8")
    return load_module(path)


def run(module: Module, folder: Path, *scalars: float, **sizes: int) -> tuple[list[Any], tuple[Any, ...], Any]:
    """Arguments before the call, what the public function gives, and what the reference does."""
    python = loaded(module, folder)
    roles = {t.argument: t.role for t in module.spec.tensors}
    install(python, module.spec.kernel, roles=roles, lines=False)
    count = len(module.spec.tensors)
    arguments = [*arguments_of(python, **sizes)[:count], *scalars]
    before = [x.clone() if isinstance(x, torch.Tensor) else x for x in arguments]
    expected = call(python, "reference", before)
    given = call(python, module.spec.kernel, list(map(on_device, arguments)))
    found = given if isinstance(given, tuple) else (given,)
    places = [arguments[[t.name for t in module.spec.tensors].index(o.name)] for o in module.spec.outputs]
    assert [x.data_ptr() for x in found] == [x.data_ptr() for x in places], "the outputs, in their order"
    return before, tuple(places), expected


def scheduled(name: str, rows: str, columns: str) -> str:
    text = PARTITIONS[name]
    return "schedule: " + (text % (rows, columns) if "%s" in text else text) + "\n"


def close(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_local_value_and_two_outputs(partition: str, tmp_path: Path) -> None:
    module = made("swiglu_bwd", SWIGLU, scheduled(partition, "M", "N"))
    (dy, g, u, *_), (dg, du), expected = run(module, tmp_path, M=13, N=72)
    dy, g, u = (x.double() for x in (dy, g, u))
    s = torch.sigmoid(g)
    for found, right in ((du, dy * g * s), (dg, dy * u * s * (1 + g * (1 - s)))):
        close(found.double(), right, 0.01)
    close((dg, du), expected, 0.01)


@pytest.mark.parametrize("partition", ["inner", "inner_outer", "thread_value"])
def test_what_is_read_written_and_used_again(partition: str, tmp_path: Path) -> None:
    module = made("adamw", ADAMW, scheduled(partition, "I", "J"))
    lr, beta1, beta2, eps, decay, first, second = 0.01, 0.9, 0.99, 1e-8, 0.1, 0.19, 0.0199
    scalars = (lr, beta1, beta2, eps, decay, first, second)
    python = loaded(module, tmp_path)
    install(python, "adamw", roles={"p": "inout", "m": "inout", "v": "inout", "g": "in"}, lines=False)
    p, m, v, g = arguments_of(python, I=9, J=40)[:4]
    v.abs_()
    expected = python.reference(p, m, v, g, *scalars)
    parameter, state = torch.nn.Parameter(p.clone()), torch.optim.AdamW
    optimizer = state([parameter], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay)
    optimizer.state[parameter] = {"step": torch.tensor(1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    parameter.grad = g.clone()
    optimizer.step()
    python.adamw(*map(on_device, (p, m, v, g)), *scalars)
    theirs = optimizer.state[parameter]
    close((m, v, p), (theirs["exp_avg"], theirs["exp_avg_sq"], parameter.detach()))
    close((p, m, v), expected)


def test_operands_that_broadcast_are_read_once_for_both_outputs(tmp_path: Path) -> None:
    module = made("rope", ROPE)
    assert module.text.count("cute.copy(copy_cos") == 1
    (x1, x2, cos, sin, *_), (y1, y2), expected = run(module, tmp_path, T=5, H=3, D=40)
    x1, x2, cos, sin = x1.double(), x2.double(), cos.double()[:, None], sin.double()[:, None]
    close((y1.double(), y2.double()), (x1 * cos - x2 * sin, x2 * cos + x1 * sin), 0.02)
    close((y1, y2), expected, 0.02)


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("align", ["", ", major: M"])
def test_coordinates(partition: str, align: str, tmp_path: Path) -> None:
    modes = ("N", "M") if align else ("M", "N")
    module = made("causal", CAUSAL % {"align": align}, scheduled(partition, *modes))
    (x, _), (y,), expected = run(module, tmp_path, **dict(zip(modes, (37, 44), strict=True)))
    assert torch.equal(y, torch.where(torch.ones_like(x).tril() > 0, x, torch.tensor(-1e30)))
    assert torch.equal(y, expected)


@pytest.mark.parametrize("partition", sampled(["inner_outer", "inner", "thread_value"]))
def test_coordinates_without_predicates(partition: str, tmp_path: Path) -> None:
    schedule = scheduled(partition, "M", "N").replace("}\n", ", predication: {M: none, N: none}}\n")
    module = made("causal", CAUSAL % {"align": ""}, schedule)
    assert "pred=" not in module.text
    (x, _), (y,), _ = run(module, tmp_path, M=64, N=64)
    assert torch.equal(y, torch.where(torch.ones_like(x).tril() > 0, x, torch.tensor(-1e30)))


def test_coordinates_of_one_mode_alone(tmp_path: Path) -> None:
    body = "tensors: {Y: {shape: [N], dtype: i32, role: out}}\ncompute: Y = coord(N) * 3 + 1\n"
    _, (y,), expected = run(made("count_up", body), tmp_path, N=100)
    assert torch.equal(y, torch.arange(100, dtype=torch.int32) * 3 + 1)
    assert torch.equal(y, expected)


def test_arithmetic_on_coordinates_follows_the_types(tmp_path: Path) -> None:
    body = """
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X + coord(M) / 4 - sqrt(coord(N)) + where(coord(M) == coord(N), 1, 0)
"""
    (x, _), (y,), expected = run(made("positions", body), tmp_path, M=7, N=24)
    m, n = torch.arange(7.0)[:, None], torch.arange(24.0)[None]
    close(y, x.float() + m / 4 - n.sqrt() + (m == n))
    close(y, expected)


@pytest.mark.parametrize("partition", ["inner", "inner_outer", "thread_value"])
def test_outputs_of_several_types_and_majornesses(partition: str, tmp_path: Path) -> None:
    module = made("mixed", MIXED, scheduled(partition, "M", "N"))
    (x, r, *_, a), (y, z, b, k), expected = run(module, tmp_path, 0.75, M=11, N=19)
    value = x * r[:, None] + 2 * a
    close(y, value.to(torch.bfloat16), 0.01)
    close(z, value / 2)  # of what was computed, not of what was stored
    right = (value / 2 > 0) & (torch.arange(11)[:, None] < 6)
    assert torch.equal(b, right)
    assert torch.equal(k, torch.where(right, torch.arange(19, dtype=torch.int32), torch.tensor(-1, dtype=torch.int32)))
    close((y, z, b, k), expected, 0.01)
    assert "x_value = x * r" in module.text and "tidx_value = a * 2.0" in module.text


@pytest.mark.parametrize(
    ("statements", "right"),
    [
        ("c = alpha * 2 + 1; Y = X * c; Z = c", lambda x, a: (x * (2 * a + 1), torch.full_like(x, 2 * a + 1))),
        ("c = maximum(alpha, 2); Y = X + c; Z = c * X", lambda x, a: (x + max(a, 2), max(a, 2) * x)),
        ("c = 3; Y = X ** 2 * alpha; Z = X / c", lambda x, a: (x * x * a, x / 3)),
        ("c = alpha > 1; Y = where(c, X, 0); Z = where(not c, X, 1)",
         lambda x, a: (x * (a > 1), x if a <= 1 else torch.ones_like(x))),
        ("c = X; d = c; Y = d * alpha; Z = d", lambda x, a: (x * a, x)),
        ("c = cast(X, bf16); Y = X - c; Z = alpha * c",
         lambda x, a: (x - x.bfloat16().float(), a * x.bfloat16().float())),
        ("Y = 1; Z = X * alpha", lambda x, a: (torch.ones_like(x), x * a)),
        ("c = 2; Y = c ** 2; Z = X * alpha", lambda x, a: (torch.full_like(x, 4), x * a)),
        ("c = coord(M); Y = c * alpha; Z = X + c ** 2",
         lambda x, a: (ROWS * a + 0 * x, x + ROWS ** 2)),
        ("Y = 1; Z = X + Y + alpha", lambda x, a: (torch.ones_like(x), x + 1 + a)),
        ("c = X > alpha; d = c or X < 0; Y = where(d, X, 2); Z = where(c and d, 1, X)",
         lambda x, a: (torch.where((x > a) | (x < 0), x, 2.0), torch.where(x > a, 1.0, x))),
    ],
)  # fmt: skip
def test_local_values(statements: str, right: Callable[..., Any], tmp_path: Path) -> None:
    """Numbers, scalars, conditions, and names for what has one already."""
    body = """
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
  Z: {shape: [M, N], dtype: f32, role: out}
scalars: {alpha: f32}
compute:
"""
    body += "".join(f"  - {statement}\n" for statement in statements.split("; "))
    python = loaded(made("locals_", body), tmp_path)
    install(python, "locals_", roles={"x": "in", "y": "out", "z": "out"}, lines=False)
    for alpha in (0.5, 1.5):
        x, y, z = arguments_of(python, M=5, N=12)[:3]
        expected = python.reference(x, alpha, y=y, z=z)
        call(python, "locals_", [*map(on_device, (x, y, z)), alpha])
        close((y, z), right(x, alpha))
        close((y, z), expected)


def test_the_host_refuses_outputs_that_share_memory(tmp_path: Path) -> None:
    module = made("swiglu_bwd", SWIGLU)
    python = loaded(module, tmp_path)
    emulated = install(python, "swiglu_bwd", lines=False)
    dy, g, u, dg, du = map(on_device, arguments_of(python, M=8, N=16))
    for arguments, says in (
        ((dy, g, u, dg, dg), "dg: expected no overlap with du, got shared memory"),
        ((dy, g, u, u, du), "dg: expected no overlap with u, got shared memory"),
        ((dy, g, u, dg, dy), "du: expected no overlap with dy, got shared memory"),
        ((dy, g, u, dg[:1].expand(8, 16), du), "dg: expected no overlapping elements, got a stride of 0 bytes"),
        (
            (dy, g, u, dg[:7], du),
            "dg: expected M = 8, as dy has it, got 7",
        ),
    ):
        with pytest.raises(ValueError, match=says):
            call(python, "swiglu_bwd", arguments)
    assert not emulated.reports
    (build,) = emulated.builds
    for outputs in ((dg, dg), (u, du), (dg, dy)):  # as `launch` does by itself
        given = [TensorArgument(x.data_ptr(), tuple(x.shape), tuple(x.stride()), "V", 16) for x in (dy, g, u, *outputs)]
        with pytest.raises(DSLCudaRuntimeError, match="cudaErrorInvalidValue"):
            build.host(*given)


WIDE = ("--config", f"line-length={WIDTH}")


def test_modules_are_clean_and_formatted(tmp_path: Path) -> None:
    for kernel, body in (("swiglu_bwd", SWIGLU), ("adamw", ADAMW), ("rope", ROPE), ("causal", CAUSAL % {"align": ""})):
        (tmp_path / f"{kernel}.py").write_text(made(kernel, body).text, encoding="utf-8")
    for command in (("check",), ("format", "--check", "--diff")):
        arguments = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", *WIDE, "."]
        result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]
