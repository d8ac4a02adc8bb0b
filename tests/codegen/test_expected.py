"""The printed `expected` of a module, against the bound that the verification derives, on random tensors."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from cutegen.codegen import Module, generate
from cutegen.codegen.environment import environment
from cutegen.codegen.expected import expected_context
from cutegen.codegen.formatting import WIDTH
from cutegen.codegen.host import host_context
from cutegen.codegen.regions import separate
from cutegen.contract import as_called
from cutegen.dtypes import Dtype
from cutegen.reference.bounds import Expected, evaluate

BYTES = {dtype.value: dtype.bytes for dtype in Dtype}
SIZES = {"M": 24, "N": 40, "K": 33}
SLACK = 1.001


class Spec(NamedTuple):
    """A spec in short: what it computes on which tensors, each `NAME: DTYPE[MODES]`.

    Tensors that are not named in `compute` are left out.
    """

    compute: str | list[str]
    tensors: str
    scalars: str = ""
    op: str = "elementwise"
    more: str = ""
    loosest: float = SLACK  # by which factor the printed bound may exceed the derived one, which in f64 is 0 for sums
    # and products that happen to be exact


PROBE = 'schedule: {tv_layout: "((2,2),(2,3)):((2,12),(1,4))", tiler: {M: 4, N: 6}}'
F32 = "X: f32[M,N], Y: f32[M,N], Z: f32[N]"
SPECS = {
    "add": Spec("D = X + Y", "X: f32[M,N], Y: f32[M,N], D: f32[M,N]"),
    "arithmetic": Spec("D = (X + Z) * (X - Y) / (Y * Y + 0.1) - alpha * X ** 3", f"{F32}, D: bf16[M,N]", "alpha: f32"),
    "gelu": Spec("D = gelu(X + Y + Z)", "X: bf16[M,N], Y: bf16[M,N], Z: bf16[N], D: bf16[M,N]"),
    "rows": Spec(
        ["c = mean(mean(A * B, M), K)", "d = sum(sum(A - B, K), M)", "t = max(A, N) / 3.0"],
        "A: f32[M,K,N], B: f32[M,K,N], c: f32[N], d: f32[N], t: f32[M,K]",
        op="rowwise",
    ),
    "a loss of what was divided": Spec(
        ["z = A / (B * B + 0.1)", "t = logsumexp(z, N)", "D = z - logsumexp(z, N)"],
        "A: f32[M,N], B: f32[M], t: f32[M], D: f32[M,N]",
        op="rowwise",
        loosest=4,
    ),
    "beside infinities": Spec(
        "D = where(X * Y == inf, X, Y) + where(X - Y > -inf, X + Y, Y) + where(X / 3 < inf, Y * 2, 0)",
        "X: f32[M,N], Y: f32[M,N], D: f32[M,N]",
    ),
    "functions": Spec(
        "D = silu(X) * sigmoid(Y) + tanh(X - Y) + exp(X) + rsqrt(abs(Y) + 1) - log(Y * Y + 2) + sqrt(abs(X + Y))",
        f"{F32}, D: f32[M,N]",
    ),
    "slopes": Spec("D = gelu(X * Y) + silu(X + Z)", f"{F32}, D: f32[M,N]"),
    "gelu by tanh": Spec("D = gelu_tanh(X * Y) + gelu_tanh(Z)", f"{F32}, D: bf16[M,N]"),
    "gelu by tanh in f64": Spec("D = gelu_tanh(X)", "X: f64[M,N], D: f64[M,N]"),
    "whole numbers": Spec("D = round(X * 9.1) + floor(Y / 0.3) - ceil(X - Y) + round(Z)", f"{F32}, D: f32[M,N]"),
    "exact whole numbers": Spec("D = cast(round(X), i8)", "X: bf16[M,N], D: i8[M,N]"),
    "whole numbers of 64 bits": Spec(
        "D = cast(X * 3e9 + Y, i64) * 3 + L * 5000000000 - k", f"{F32}, L: i64[M,N], D: i64[M,N]", "k: i64"
    ),
    "whole numbers of 64 bits as floats": Spec(
        "D = cast(cast(X * 3e9, i64) + L, f64) * 0.1", f"{F32}, L: i64[M,N], D: f64[M,N]", loosest=2
    ),
    "whole numbers of 16 bits, and of 32 without a sign": Spec(
        ["D = cast(X * 3e4 + Y, i16)", "E = cast(X * 3e9 + 4e9, u32) / 3 + K - J", "F = K * 3 / J + X"],
        f"{F32}, J: i16[M,N], K: u32[M,N], D: i16[M,N], E: f64[M,N], F: f32[M,N]",
    ),
    "floats of 8 bits": Spec(
        ["D = X * 30 + Q * Y", "E = cast(X * 300, f8e5m2) * Q + Z", "F = cast(I * 7, f8e4m3)"],
        f"{F32}, I: i32[M,N], Q: f8e4m3[M,N], D: f8e4m3[M,N], E: bf16[M,N], F: f8e4m3[M,N]",
    ),
    "saturated": Spec("D = cast(X * 300 + Y, u8)", f"{F32}, D: u8[M,N]"),
    "near zero": Spec("D = relu(cast(X * Y, bf16) - Z * X)", f"{F32}, D: f32[M,N]"),
    "NaN on one side": Spec("D = where(X * Z > Y, log(X), Z)", f"{F32}, D: f32[M,N]"),
    "f16": Spec("D = relu(X * Y) + maximum(X, 0.1 * Y)", "X: f16[M,N], Y: f16[M,N], D: f16[M,N]"),
    "f64": Spec("D = (X + Y) * X / (Y * Y + 1.1)", "X: f64[M,N], Y: f64[M,N], D: f64[M,N]", loosest=5),
    "whole numbers in f64": Spec("D = floor(V + V) + ceil(V * 3 - 1)", "V: f64[M,N], D: f64[M,N]", loosest=5),
    "f64 functions": Spec("D = exp(X + Y) - gelu(X)", "X: f64[M,N], Y: f64[M,N], D: f64[M,N]", loosest=5),
    "mixed": Spec("D = (X * Y + 1) * W", "X: f32[M,N], Y: bf16[M,N], W: f64[M,N], D: f64[M,N]"),
    "mixed to f16": Spec("D = X * Y * W", "X: f32[M,N], Y: bf16[M,N], W: f64[M,N], D: f16[M,N]"),
    "choice": Spec(
        "D = where(X + Y > Z and not (X * Y < 0) or Y == Z, X * 2, -minimum(X, Y - X))", f"{F32}, D: f32[M,N]"
    ),
    "choice by NaN of what rounds": Spec("D = where(isnan(sqrt(X - Y)), Z, X * 2)", f"{F32}, D: f32[M,N]"),
    "sure choice": Spec("D = where(X > Z and coord(N) >= 3, -1e30, alpha * X)", f"{F32}, D: bf16[M,N]", "alpha: f32"),
    "scalar choice": Spec("D = where(alpha * 3 > 1, X * Y, X)", f"{F32}, D: f32[M,N]", "alpha: f32"),
    "coordinates": Spec("D = X * coord(M) + cast(coord(N), f32) / 3", f"{F32}, D: f32[M,N]"),
    "casts": Spec("D = X - cast(X * Y, bf16) + cast(Y, f16)", f"{F32}, D: f32[M,N]"),
    "narrow copy": Spec("D = X", "X: f32[M,N], D: bf16[M,N]"),
    "twice": Spec("D = X", "X: i32[M,N], D: bf16[M,N]"),
    "integers": Spec("D = cast(I * I * 70001 - J ** 2 + k, i8)", "I: i32[M,N], J: i8[M,N], D: i8[M,N]", "k: i32"),
    "unsure integers": Spec("D = abs(cast(X * 3 + Y, i32) * I) - 5", f"{F32}, I: i32[M,N], D: i32[M,N]"),
    "unsure choice of integers": Spec("D = where(X + Y > Z, I, -I)", f"{F32}, I: i8[M,N], D: i32[M,N]"),
    "integer to float": Spec("D = I / 3 + alpha", "I: i32[M,N], D: f32[M,N]", "alpha: f32"),
    "bool": Spec("D = X < Y or not (Y == Z)", f"{F32}, D: bool[M,N]"),
    "unsure bool": Spec("D = X * Y < 0.3 or cast(X - Y, bool)", f"{F32}, D: bool[M,N]"),
    "outputs": Spec(
        ["s = sigmoid(X)", "D = Y * s", "t = X > 0", "E = where(t, D * s, 0.5)", "B = t"],
        f"{F32}, D: bf16[M,N], E: f32[M,N], B: bool[M,N]",
    ),
    "scalars and locals": Spec(
        ["s = abs(alpha)", "t = Y", "D = where(alpha > s, X * s, cast(-alpha * t, f32))", "E = alpha * t"],
        "X: f32[M,N], Y: f32[M,N], D: f32[M,N], E: f64[M,N]",
        "alpha: f32",
    ),
    "flags": Spec(
        ["D = where(F, X * Y, X)", "E = F", "H = F * X"],
        "X: f32[M,N], Y: f32[M,N], F: bool[M,N], D: f32[M,N], E: bool[M,N], H: f32[M,N]",
    ),
    "moments": Spec(
        ["P = beta * P + (1 - beta) * X", "Q = sqrt(P / gamma) + X"],
        "P: f32[M,N], X: bf16[M,N], Q: f32[M,N]",
        "beta: f32, gamma: f32",
    ),
    "product": Spec("C = A @ B.T", "A: f32[M,K], B: f32[N,K], C: f32[M,N]", op="gemm"),
    "product in bf16": Spec("C = A @ B.T", "A: bf16[M,K], B: bf16[N,K], C: bf16[M,N]", op="gemm"),
    "scaled product in f64": Spec(
        "C = beta * (A @ B.T) + beta", "A: bf16[M,K], B: bf16[N,K], C: f32[M,N]", "beta: f64", op="gemm", loosest=5
    ),
    "product in f64": Spec("C = A @ B.T", "A: f64[M,K], B: f64[N,K], C: f64[M,N]", op="gemm"),
    "axpby": Spec(
        "C = alpha * (A @ B.T) + beta * C",
        "A: f32[M,K], B: f32[N,K], C: f32[M,N]",
        "alpha: f32, beta: f32",
        op="gemm",
    ),
    "bias relu": Spec("C = relu(A @ B.T + Z)", "A: f16[M,K], B: f16[N,K], Z: f32[N], C: f16[M,N]", op="gemm"),
    "probe": Spec("D = A", "A: i32[M,N], D: i32[T,V]", op="probe", more=PROBE),
    "probe to bf16": Spec("D = A", "A: i32[M,N], D: bf16[T,V]", op="probe", more=PROBE),
}  # fmt: skip


def module_of(spec: Spec) -> Module:
    statements = [spec.compute] if isinstance(spec.compute, str) else spec.compute
    assigned = [statement.partition(" = ")[0] for statement in statements]
    read: set[str] = set()  # before they are assigned to
    for number, statement in enumerate(statements):
        read |= set(re.findall(r"\w+", statement.partition(" = ")[2])) - set(assigned[:number])
    lines = ["cutegen: 1", "kernel: trial", f"op: {spec.op}", "tensors:"]
    for entry in spec.tensors.split(", "):
        name, dtype, modes = re.fullmatch(r"(\w+): (\w+)(.*)", entry).groups()  # type: ignore[union-attr]
        if name in read or name in assigned:
            role = {(True, False): "in", (False, True): "out"}.get((name in read, name in assigned), "inout")
            lines.append(f"  {name}: {{shape: {modes}, dtype: {dtype}, align: {BYTES[dtype]}, role: {role}}}")
    lines += [
        f"scalars: {{{spec.scalars}}}" if spec.scalars else "",
        f"compute: [{', '.join(map(repr, statements))}]",
        spec.more,
    ]
    return generate("\n".join(lines), "specs/trial.yaml").modules[0]


def printed(module: Module) -> str:
    family = module.spec.family
    context = host_context(module.plan, family.kernel_parts(module.plan)) | expected_context(module.plan)
    return separate(environment(family).get_template("module/expected.j2").render(context))[0]


def reference_of(module: Module) -> str:
    functions = (node for node in ast.parse(module.text).body if isinstance(node, ast.FunctionDef))
    return next(ast.unparse(node) for node in functions if node.name == "reference")


def function(module: Module) -> Callable[..., list[tuple[torch.Tensor, torch.Tensor]]]:
    """The printed function, beside the module's `reference` and with nothing else that a module has."""
    names: dict[str, Any] = {"torch": torch, "Callable": Callable}
    exec(reference_of(module), names)
    exec(printed(module), names)
    return names["expected"]


def arguments(module: Module, special: bool) -> list[Any]:
    """The tensors and the scalars of a call, the same each time.

    `special`: with NaN, infinities and numbers near the limits.
    """
    generator = torch.Generator().manual_seed(5)
    sizes = SIZES | {"T": 4, "V": 6} | ({"M": 4, "N": 6} if module.spec.op == "probe" else {})
    found: list[Any] = []
    for tensor in module.spec.tensors:
        shape, kind = [sizes[mode] for mode in tensor.shape], getattr(torch, tensor.dtype.torch)
        if tensor.dtype.is_float:
            values = torch.randn(shape, generator=generator, dtype=torch.float64).to(kind)
            values.flatten()[:4] = torch.tensor([0.0, 1.0, -1.0, 0.5])
            if special:
                odd = torch.tensor([torch.nan, torch.inf, -torch.inf, 3e38, -1e-40, 0.0, 2.0])
                where = torch.randint(0, 21, shape, generator=generator)
                values = torch.where(where < 7, odd[where.clamp_max(6)].to(kind), values)
        else:
            top = min(torch.iinfo(kind).max if kind is not torch.bool else 1, 70000)
            values = torch.randint(0 if tensor.dtype.bits == 1 else -top, top, shape, generator=generator).to(kind)
        found.append(values)
    return [*found, *(0.3 if s.dtype.is_float else 7 for s in module.spec.scalars)]


def both(module: Module, special: bool = False) -> list[tuple[torch.Tensor, torch.Tensor, Expected]]:
    """For each output the printed value and error, and what is derived."""
    given = arguments(module, special)
    places, named = as_called(module.spec, given)
    outputs = function(module)(*places, **named)
    names = [x.name for x in (*module.spec.tensors, *module.spec.scalars)]
    tensors = {name: x for name, x in zip(names, given, strict=True) if isinstance(x, torch.Tensor)}
    scalars = {name: x for name, x in zip(names, given, strict=True) if not isinstance(x, torch.Tensor)}
    derived = evaluate(module.spec, tensors, scalars)
    return [
        (*(x.expand(e.value.shape) for x in (value, error)), e)
        for (value, error), e in zip(outputs, derived.values(), strict=True)
    ]


def kernel_of(module: Module, special: bool = False) -> tuple[torch.Tensor, ...]:
    """The outputs, in float64, of a kernel that is right: the module's own `reference`, in the kernel's types."""
    names: dict[str, Any] = {"torch": torch}
    exec(reference_of(module), names)
    places, named = as_called(module.spec, arguments(module, special))
    found = names["reference"](*places, **named)
    return tuple(x.double() for x in (found if isinstance(found, tuple) else (found,)))


def outside(actual: torch.Tensor, value: torch.Tensor, error: torch.Tensor) -> int:
    """How many elements a module's `main` would call wrong."""
    right = (actual == value) | ((actual - value).abs() <= error) | (actual.isnan() & value.isnan())
    return int((~right & error.isfinite()).sum())


@pytest.mark.parametrize("name", SPECS)
def test_value_and_bound_are_the_derived_ones(name: str) -> None:
    module = module_of(SPECS[name])
    for output, (value, error, derived) in zip(module.spec.outputs, both(module), strict=True):
        assert value.dtype is (torch.int64 if output.dtype is Dtype.i64 else torch.float64)
        judged = derived.bound.isfinite()
        assert judged.float().mean() > 0.9 or "sqrt(P" in module.text
        sure = torch.where(judged, error, 0.0)
        assert (sure >= torch.where(judged, derived.bound, 0.0)).all()
        positive = judged & (derived.bound > 0)
        # printed is u of a number; derived half an ulp, which may be half of that
        assert (sure <= 2 * SPECS[name].loosest * derived.bound)[positive].all()
        wanted = derived.value.to(value.dtype)
        assert torch.equal(value[judged].nan_to_num(777.0), wanted[judged].nan_to_num(777.0))
        if not output.dtype.is_float:
            assert not error[derived.bound == 0].any()


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.op == "elementwise"])
def test_nothing_wrong_is_said_of_what_is_not_finite(name: str) -> None:
    """Where the printed error is finite, a kernel that the derived bound accepts is accepted."""
    module = module_of(SPECS[name])
    for (value, error, derived), actual in zip(both(module, True), kernel_of(module, True), strict=True):
        said = error.isfinite()
        assert said.any()
        assert outside(derived.value.double(), value, error) == 0
        judged = torch.where(derived.bound.isfinite(), error, torch.inf)
        assert outside(actual, derived.value.double(), derived.bound) >= outside(actual, value, judged)


def test_a_sum_and_a_product_in_f64_that_do_not_round_are_known() -> None:
    """Else a whole number that is one of an exact sum could as well be the next."""
    spec = Spec("D = floor(V + V) + ceil(W * 4 - 1)", "V: f64[M,N], W: f32[M,N], D: f64[M,N]")
    ((_, error, _),) = both(module_of(spec))
    assert error.max() < 1e-9 < both(module_of(spec._replace(compute="D = floor(V / 0.1)")))[0][1].max()


def test_a_plain_product_needs_no_class_and_what_is_exact_but_the_reference() -> None:
    product, copy = (printed(module_of(SPECS[name])) for name in ("product", "narrow copy"))
    assert "class" not in product and len(product.splitlines()) <= 14
    assert "_Near" not in copy and "reference(x, d=d)" in copy


def test_a_wrong_kernel_is_outside_of_the_bound() -> None:
    ((value, error, _),) = both(module_of(SPECS["axpby"]))
    wrong = value.float().double() * (1 + 2**-10)
    assert ((wrong - value).abs() > error).float().mean() > 0.9


def test_the_text_is_clean_and_formatted(tmp_path: Path) -> None:
    head = "from collections.abc import Callable\n\nimport torch\n\n\ndef reference(*_): ...\n\n\n"
    for number, spec in enumerate(SPECS.values()):
        (tmp_path / f"m{number}.py").write_text(head + printed(module_of(spec)), encoding="utf-8")
    for command in (("check", "--ignore", "F401"), ("format", "--check", "--diff")):
        options = ["--isolated", "--no-cache", "--config", f"line-length={WIDTH}"]
        arguments = [sys.executable, "-m", "ruff", *command, *options, "."]
        result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-1000:]
