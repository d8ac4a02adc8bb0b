"""Every function of `compute`, as the compiler makes it of a kernel, on special values and numbers of all sizes.

Each is compared with torch in float64 and with the derived bounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import install  # noqa: E402
from cutegen.expressions.functions import FUNCTIONS  # noqa: E402
from cutegen.reference.bounds import evaluate  # noqa: E402
from cutegen.verification.compare import compare  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 20.0, 20.5, INF, -INF, NAN]
TINY = [1e-45, -1e-45, 1e-39, -1e-39, 2.0**-126, -(2.0**-126), 1e-30, -1e-30, 1e-9, -1e-9, 1e-4]
LARGE = [88.0, 88.8, -87.5, -100.0, -104.0, 100.0, 1e5, -1e5, 16777217.0, 1e10, 1e30, -1e30, 3e38, -3.4e38]
FUNCTIONAL = ("softplus", "logsigmoid", "mish", "elu", "leaky_relu", "hardswish", "relu", "gelu", "silu")
TORCH: dict[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch.nn.functional, name) for name in FUNCTIONAL},
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "elu(x, 0.7)": lambda x: torch.nn.functional.elu(x, 0.7),
    "leaky_relu(x, negative_slope=-2)": lambda x: torch.nn.functional.leaky_relu(x, -2),
    "clamp(x, y, 1.5)": lambda x, y: torch.clamp(x, y, torch.full_like(x, 1.5)),
    "clamp(x, 2.0, max=-1)": lambda x: torch.clamp(x, 2.0, -1),
    "clamp(x, min=y)": torch.clamp_min,
    "clamp(x, max=y)": torch.clamp_max,
    "x ** y": torch.pow,
    "x ** 0.5": lambda x: x**0.5,
    "x ** -1": lambda x: x**-1,
    "x ** 2.5": lambda x: x**2.5,
    "2 ** x": lambda x: 2**x,
    "x ** -3": lambda x: x**-3,
}
PARAMETERS = ("x", "y", "z")
CALLS = {name: f"{name}({', '.join(PARAMETERS[: function.least])})" for name, function in FUNCTIONS.items()}
CALLS = {name: call for name, call in CALLS.items() if FUNCTIONS[name].least < 3}
CANCELLING = ("gelu", "gelu_tanh", "logaddexp")  # of which a sum cancels: as far off as roundings of x
CALLS |= {call: call for call in TORCH if call not in FUNCTIONS}


def numbers(dtype: torch.dtype, two: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of numbers: special ones, with `two` each with each, and random ones of several magnitudes."""
    special = torch.tensor([*SPECIAL, *TINY, *LARGE], dtype=torch.float64)
    pairs = torch.cartesian_prod(special, special) if two else torch.stack([special, special.flip(0)], 1)
    generator = torch.Generator().manual_seed(7)
    scales = torch.tensor([1e-6, 0.1, 1.0, 5.0, 40.0, 1e6], dtype=torch.float64)
    more = torch.randn(2, len(scales), 40, generator=generator, dtype=torch.float64) * scales[:, None]
    x, y = (torch.cat([pairs[:, at], more[at].flatten(), more[0].flatten()]) for at in (0, 1))
    return x.to(dtype), y.to(dtype)


def spec_of(names: list[str], dtype: str) -> str:
    truths = {at for at, name in enumerate(names) if name in FUNCTIONS and FUNCTIONS[name].gives == "truth"}
    lines = ["cutegen: 1", "kernel: functions", "op: elementwise", "targets: [sm_80]", "tensors:"]
    lines += [f"  {name}: {{shape: [N], dtype: {dtype}}}" for name in ("U", "V")]
    for at in range(len(names)):
        lines.append(f"  O{at}: {{shape: [N], dtype: {'bool' if at in truths else dtype}, role: out}}")
    lines.append("compute:")
    for at, name in enumerate(names):
        text = re.sub(r"\bx\b", "U", re.sub(r"\by\b", "V", CALLS[name]))
        lines.append(f'  - "O{at} = {text}"')
    return "\n".join(lines)


ONE = [name for name in sorted(CALLS) if not re.search(r"\by\b", CALLS[name])]
TWO = [name for name in sorted(CALLS) if name not in ONE]
GROUPS = {
    "first": [*ONE[::4], "fmin"],
    "second": [*ONE[1::4], "fmax"],
    "third": [*ONE[2::4], "fmin"],
    "fourth": [*ONE[3::4], "fmax"],
    "two": TWO[::2],
    "also two": TWO[1::2],
}
CALLED = ("cos", "pow", "sin", "tan", "x ** 2.5", "x ** -3", "x ** y", "2 ** x")  # in f64, which are not emulated


@pytest.mark.parametrize("arguments", GROUPS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_every_function(arguments: str, dtype: str, tmp_path: Path) -> None:
    names = [name for name in GROUPS[arguments] if dtype == "f32" or name not in CALLED]
    made = generate(spec_of(names, dtype), "specs/functions.yaml").modules[0]
    path = tmp_path / made.name
    path.write_text(made.text, encoding="utf-8")
    python = load_module(path)
    install(python, "functions", lines=False)
    x, y = numbers(torch.float32 if dtype == "f32" else torch.float64, arguments.endswith("two"))
    outputs = python.functions(x, y)
    derived = evaluate(made.spec, {"U": x, "V": y}, {}).values()
    checked = zip(names, outputs, derived, python.reference(x, y), strict=True)
    problems = []
    for name, found, (value, bound, signed, _), reference in checked:
        right, single = wanted(name, x.double(), y.double()), wanted(name, x, y)
        off = (found.double() - right.double()).abs()
        close = off <= 8 * torch.finfo(x.dtype).eps * right.double().abs().clamp_min(torch.finfo(x.dtype).tiny)
        close |= (off <= 8 * torch.finfo(x.dtype).eps * x.abs()) & (name in CANCELLING)
        close |= (off <= x.abs() * torch.finfo(x.dtype).smallest_normal) & (name == "mish")  # x times a subnormal
        same = (found == right.to(found.dtype)) | (found.isnan() & right.isnan()) | close | (found == single)
        if not same.all():
            rows = zip(*(v[~same].tolist() for v in (x, y, found, right)), strict=True)
            problems.append((name, "of torch", int((~same).sum()), list(rows)[:4]))
        for what, result in (("kernel", found), ("reference", reference)):
            compared = compare(result, value, bound, signed and what == "kernel")
            if not compared.ok:
                problems.append((name, what, str(compared)))
        if (share := bound.isfinite().double().mean()) < 0.9:
            problems.append((name, "bounds", share))
    assert not problems, "\n".join(map(str, problems))


def wanted(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The result of torch, in float64 if it supports that."""
    function = TORCH.get(name) or getattr(torch, name)
    count = FUNCTIONS[name].least if name in FUNCTIONS else 2 if re.search(r"\by\b", name) else 1
    return function(*(x, y)[:count])
