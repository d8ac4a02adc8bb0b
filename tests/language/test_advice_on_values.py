"""The replacements that lint suggests for torch functions agree with those functions, also for special values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from sweep_kit import sampled

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import install  # noqa: E402
from cutegen.expressions.absent import INSTEAD  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
X = [100.0, -100.0, -20.0, 1e-9, NAN, INF, -INF, 1.0, 1e30, -1.0, 5.0, -0.0, -1e-9, 16777217.0, 0.5, -0.5, 2.5, 3.4e38]
Z = [1.0, 1.0, 1.0, 1.0, 1.0, INF, -INF, 0.1, 1e30, -1.0, INF, NAN, 1.0, 3.0, 0.0, -2.5, 0.5, -1.0]
A, B = -0.75, 1.25  # the scalars a and b
WANTED: dict[str, Callable[..., torch.Tensor]] = {
    "rcp": torch.reciprocal,
    "floordiv": torch.floor_divide,
    "mod": torch.remainder,
    "clip": lambda x: torch.clip(x, A, B),
    "absolute": torch.absolute,
    "sgn": torch.sgn,
    "float_power": lambda x, y: torch.float_power(x, y).float(),
    "lerp": lambda x, y: torch.lerp(x, y, A),
    "round_": torch.round,
    "fix": torch.fix,
    "frac": torch.frac,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "logical_not": torch.logical_not,
    "bool": lambda x: x.bool(),
    "log_sigmoid": lambda x: F.logsigmoid(x.double()).float(),  # torch's own is a subnormal off in f32
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "logit": torch.logit,
    "softsign": F.softsign,
    "prelu": lambda x: F.prelu(x, torch.tensor([A])),
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardsigmoid": lambda x: F.hardsigmoid(x.double()).float(),
    "hard_swish": lambda x: F.hardswish(x.double()).float(),
    "half": lambda x: x.half().float(),
    "cbrt": lambda x: x.double().sign() * x.double().abs() ** (1 / 3),
}
LARGEST = torch.finfo(torch.float32).max
SPECIAL = [0.0, -0.0, 0.25, 0.5, -0.5, 1.0, -1.0, 2.5, 20.0, -30.0, 1e-40, 1e10, LARGEST, INF, -INF, NAN]
SUMS = ("logaddexp2",)  # of numbers that cancel each other
C, D = 0.5, 0.25  # a and b
ON_PAIRS: dict[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, name) for name in ("deg2rad", "rad2deg", "signbit", "isposinf", "isneginf", "positive")},
    **{name: getattr(torch, name) for name in ("logaddexp2", "xlogy", "ldexp", "copysign", "heaviside", "rsub")},
    **{name: getattr(torch.special, name) for name in ("sinc", "expit", "xlog1py")},
    **{name: getattr(F, name) for name in ("selu", "tanhshrink")},
    "isclose": lambda x, y: torch.isclose(x, y, rtol=D, atol=C),
    "celu": lambda x: F.celu(x, C),
    "hardshrink": lambda x: F.hardshrink(x, C),
    "softshrink": lambda x: F.softshrink(x, C),
    "threshold": lambda x: F.threshold(x, C, D),
    "exp10": lambda x: torch.pow(10, x),
    "around": torch.round,
}
TRUTHS = ("logical_and", "logical_or", "logical_xor", "logical_not", "bool")
TRUTHS += ("signbit", "isposinf", "isneginf", "isclose")


def third(of: Mapping[str, Callable[..., torch.Tensor]], first: int) -> dict[str, Callable[..., torch.Tensor]]:
    """Every third function: neighbours in the table are most alike."""
    return dict(itertools.islice(of.items(), first, None, 3))


@pytest.mark.parametrize("first", sampled(range(3)))
def test_advice_of_elements(first: int, tmp_path: Path) -> None:
    assert not (wrong := wrong_ones(third(WANTED, first), torch.tensor(X), torch.tensor(Z), A, B, tmp_path)), wrong


@pytest.mark.parametrize("first", sampled(range(3)))
def test_advice_on_all_pairs_of_special_values(first: int, tmp_path: Path) -> None:
    x, z = torch.tensor(list(itertools.product(SPECIAL, SPECIAL))).T.contiguous()
    assert not (wrong := wrong_ones(third(ON_PAIRS, first), x, z, C, D, tmp_path)), wrong


def wrong_ones(
    wanted_of: Mapping[str, Callable[..., torch.Tensor]],
    x: torch.Tensor,
    z: torch.Tensor,
    a: float,
    b: float,
    tmp_path: Path,
) -> list[tuple[str, float, float, float, float]]:
    """Where what is said to write gives another number than torch: the name, x, y, both numbers."""
    lines = ["cutegen: 1", "kernel: advice", "op: elementwise", "targets: [sm_80]", "scalars: {A: f32, B: f32}"]
    lines += ["tensors:", "  X: {shape: [N], dtype: f32}", "  Z: {shape: [N], dtype: f32}"]
    lines += [f"  {n}_: {{shape: [N], dtype: {'bool' if n in TRUTHS else 'f32'}, role: out}}" for n in wanted_of]
    lines += ["  used: {shape: [N], dtype: f32, role: out}", "compute:"]
    for name in wanted_of:
        text = INSTEAD[name]
        for letter, stands in (("x", "X"), ("y", "Z"), ("a", "A"), ("b", "B")):
            text = re.sub(rf"\b{letter}\b", stands, text)
        lines.append(f'  - "{name}_ = {text}"')
    lines.append("  - used = X + Z + A + B")  # which a part of the functions may leave out
    made = generate("\n".join(lines), "specs/advice.yaml").modules[0]
    path = tmp_path / made.name
    path.write_text(made.text, encoding="utf-8")
    python = load_module(path)
    install(python, "advice", lines=False)
    wrong = []
    for name, found in zip(wanted_of, python.advice(x, z, a, b)[:-1], strict=True):
        wanted = wanted_of[name]
        right = wanted(x, z) if re.search(r"\by\b", INSTEAD[name]) else wanted(x)
        close = (found.double() - right.double()).abs() <= 1e-5 * right.double().abs() + (
            3e-8 if name in SUMS else 1e-44
        )
        same = close | (found == right) | (found.double().isnan() & right.double().isnan())
        rows = zip(*(v[~same].tolist() for v in (x, z, found, right)), strict=True)
        wrong += [(name, *row) for row in rows]
    return wrong
