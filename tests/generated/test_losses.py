"""The specs of losses and of quantised rows agree with torch's functions."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cutlass")

from calls_kit import arguments_of, call  # noqa: E402
from cutegen.emulator import install, on_device  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

GENERATED = Path(__file__).parents[2] / "generated"
SCALE = 0.37


@lru_cache
def loaded(name: str) -> ModuleType:
    module = load_module(GENERATED / f"{name}.py")
    install(module, name, module.TARGETS[-1:], lines=False)
    return module


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignored", [-100, 2])
def test_cross_entropy_and_its_gradient_are_torchs(smoothing: float, ignored: int) -> None:
    module = loaded("cross_entropy")
    x, target, loss, dx = arguments_of(module, M=6)[:4]
    x *= 3
    if not smoothing:
        x[:, 9] = -torch.inf  # a word that cannot be
    target[:] = torch.tensor([0, 4095, ignored, 17, 2, 8])
    call(module, "cross_entropy", [*map(on_device, (x, target, loss, dx)), SCALE, smoothing, ignored])
    wide = x.double().requires_grad_()
    wanted = torch.nn.functional.cross_entropy(
        wide, target, reduction="none", label_smoothing=smoothing, ignore_index=ignored
    )
    wanted.sum().backward()
    assert wide.grad is not None
    torch.testing.assert_close(loss.double(), wanted.detach(), rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(dx.double(), wide.grad * SCALE, rtol=2**-8, atol=1e-9)
    skipped = target == ignored
    assert skipped.any() and not loss[skipped].any() and not dx[skipped].any()


def test_rows_in_floats_of_8_bits_come_back_to_half_a_step() -> None:
    module = loaded("quantize_f8")
    arguments: list[Any] = arguments_of(module, M=4)
    x, y, scale = arguments
    x[1] = 0
    x[2] *= 1e4
    call(module, "quantize_f8", list(map(on_device, arguments)))
    assert scale[1] == 1 and not y[1].float().any()
    torch.testing.assert_close(scale[[0, 2, 3]], x.float().abs().amax(1)[[0, 2, 3]] / 448)
    assert (y.float().abs().amax(1)[[0, 2, 3]] == 448).all()
    step = torch.maximum(x.float().abs() * 2**-4, scale[:, None] * 2**-10)  # half of one, of 4 digits or subnormal
    assert ((y.float() * scale[:, None] - x.float()).abs() <= step * 1.0001).all()
