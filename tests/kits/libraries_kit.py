"""Stand-ins for quack and Liger: functions with their parameters and results, computed by torch on any device."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

Tensor = torch.Tensor


def softmax_fwd(x: Tensor) -> Tensor:
    return x.float().softmax(-1).to(x.dtype)


def softmax_bwd(dy: Tensor, y: Tensor) -> Tensor:
    return (y.float() * (dy.float() - (dy.float() * y.float()).sum(-1, keepdim=True))).to(dy.dtype)


def rmsnorm_fwd(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    residual_dtype: torch.dtype | None = None,
    eps: float = 1e-6,
    store_rstd: bool = False,
    weight_offset: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor | None]:
    assert weight is not None and bias is None and out_dtype is None and residual_dtype is None and not weight_offset
    s = x.float() if residual is None else x.float() + residual.float()
    rstd = (s.square().mean(-1) + eps).rsqrt()
    y = s * rstd[:, None] * weight.float()
    return y.to(x.dtype), x if residual is None else s.to(residual.dtype), rstd if store_rstd else None


def rmsnorm_bwd(
    x: Tensor,
    weight: Tensor | None,
    dout: Tensor,
    rstd: Tensor,
    dresidual_out: Tensor | None = None,
    has_bias: bool = False,
    has_residual: bool = False,
    weight_offset: float = 0.0,
) -> tuple[Tensor, Tensor, None, None]:
    assert weight is not None and not has_bias and not has_residual and not weight_offset
    n, g = x.float() * rstd[:, None], dout.float() * weight.float()
    dx = (g - n * (g * n).mean(-1, keepdim=True)) * rstd[:, None]
    dx = dx if dresidual_out is None else dx + dresidual_out.float()
    return dx.to(x.dtype), (dout.float() * n).sum(0).to(weight.dtype), None, None


def layernorm_fwd(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    eps: float = 1e-6,
    return_rstd: bool = False,
    return_mean: bool = False,
) -> Any:
    assert weight.dtype == torch.float32, "Weight must be float32"
    assert bias is not None
    mean = x.float().mean(-1)
    n = x.float() - mean[:, None]
    rstd = (n.square().mean(-1) + eps).rsqrt()
    out = (n * rstd[:, None] * weight + bias).to(x.dtype)
    found = [out, *([rstd] if return_rstd else []), *([mean] if return_mean else [])]
    return tuple(found) if len(found) > 1 else out


def layernorm_bwd(
    x: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor, mean: Tensor, has_bias: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    n, g = (x.float() - mean[:, None]) * rstd[:, None], dout.float() * weight.float()
    dx = (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True)) * rstd[:, None]
    return dx.to(x.dtype), (dout.float() * n).sum(0).to(weight.dtype), dout.float().sum(0).to(weight.dtype)


def apply_rotary(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    seqlen_offsets: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    conjugate: bool = False,
) -> Tensor:
    assert x.dim() == 4 and not interleaved and not inplace and not conjugate
    first, second = x.float().chunk(2, -1)
    c, s = cos[None, :, None].float(), sin[None, :, None].float()
    return torch.cat((first * c - second * s, second * c + first * s), -1).to(x.dtype)


class LigerSoftmaxFunction:
    @staticmethod
    def apply(x: Tensor) -> Tensor:
        return softmax_fwd(x)


def _softmax_backward(dy: Tensor, y: Tensor, BLOCK_SIZE: int, num_warps: int, multi_block_launch: bool) -> Tensor:
    assert (BLOCK_SIZE, num_warps, multi_block_launch) == (64, 4, False)
    return softmax_bwd(dy, y)


def rms_norm_forward(X: Tensor, W: Tensor, eps: float, offset: float, casting_mode: str, row_mode: Any) -> Any:
    assert offset == 0 and casting_mode == "gemma" and row_mode is None
    y, _, rstd = rmsnorm_fwd(X, W, eps=eps, store_rstd=True)
    return y, X, rstd, 64, 4, 1


def rms_norm_backward(
    dY: Tensor,
    X: Tensor,
    W: Tensor,
    RSTD: Tensor,
    offset: float,
    casting_mode: int,
    BLOCK_SIZE: int,
    num_warps: int,
    in_place: bool,
    row_mode: Any,
    needs_dw: bool | None = None,
) -> tuple[Tensor, Tensor]:
    assert (offset, casting_mode, BLOCK_SIZE, num_warps, in_place) == (0, 1, 64, 4, False)
    return rmsnorm_bwd(X, W, dY, RSTD)[:2]


def fused_add_rms_norm_forward(X: Tensor, R: Tensor, W: Tensor, eps: float, offset: float, casting_mode: str) -> Any:
    assert offset == 0 and casting_mode == "gemma"
    return *rmsnorm_fwd(X, W, residual=R, eps=eps, store_rstd=True), 64, 4, 2, 1


def fused_add_rms_norm_backward(
    dY: Tensor,
    dS_out: Tensor,
    S: Tensor,
    W: Tensor,
    RSTD: Tensor,
    offset: float,
    casting_mode: int,
    BLOCK_SIZE: int,
    num_warps: int,
    num_stages: int,
    in_place: bool,
    needs_dw: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    assert (offset, casting_mode, BLOCK_SIZE, num_warps, in_place) == (0, 1, 64, 4, False)
    dx, dw, *_ = rmsnorm_bwd(S, W, dY, RSTD, dS_out)
    return dx, dx, dw


def layer_norm_forward(X: Tensor, W: Tensor, B: Tensor, eps: float) -> Any:
    y, rstd, mean = layernorm_fwd(X, W.float(), B.float(), eps, True, True)
    return y, X, mean, rstd, 64, 4


def layer_norm_backward(
    dY: Tensor,
    X: Tensor,
    W: Tensor,
    B: Tensor,
    Mean: Tensor,
    RSTD: Tensor,
    needs_dw: bool | None = None,
    needs_db: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    return layernorm_bwd(X, W, dY, RSTD, Mean)


def swiglu_forward(a: Tensor, b: Tensor, gate_multiplier: float = 1.0) -> Any:
    return a, b, torch.nn.functional.silu(a.float()).to(b.dtype) * b


def geglu_forward(a: Tensor, b: Tensor) -> Any:
    return a, b, torch.nn.functional.gelu(a.float(), approximate="tanh").to(b.dtype) * b


MODES = {"llama": 0, "gemma": 1, "none": -1}
MODULES: dict[str, dict[str, Any]] = {
    "quack": {},
    "quack.softmax": {"softmax_fwd": softmax_fwd, "softmax_bwd": softmax_bwd},
    "quack.rmsnorm": {
        "rmsnorm_fwd": rmsnorm_fwd,
        "rmsnorm_bwd": rmsnorm_bwd,
        "layernorm_fwd": layernorm_fwd,
        "layernorm_bwd": layernorm_bwd,
    },
    "quack.rotary": {"apply_rotary": apply_rotary},
    "liger_kernel": {},
    "liger_kernel.ops": {},
    "liger_kernel.ops.utils": {"calculate_settings": lambda n: (64, 4)},
    "liger_kernel.ops.softmax": {
        "LigerSoftmaxFunction": LigerSoftmaxFunction,
        "_softmax_backward": _softmax_backward,
    },
    "liger_kernel.ops.rms_norm": {
        "rms_norm_forward": rms_norm_forward,
        "rms_norm_backward": rms_norm_backward,
        "_str_to_casting_mode": MODES,
    },
    "liger_kernel.ops.fused_add_rms_norm": {
        "fused_add_rms_norm_forward": fused_add_rms_norm_forward,
        "fused_add_rms_norm_backward": fused_add_rms_norm_backward,
        "_str_to_casting_mode": MODES,
    },
    "liger_kernel.ops.layer_norm": {
        "layer_norm_forward": layer_norm_forward,
        "layer_norm_backward": layer_norm_backward,
    },
    "liger_kernel.ops.swiglu": {"swiglu_forward": swiglu_forward},
    "liger_kernel.ops.geglu": {"geglu_forward": geglu_forward},
}


def install(monkeypatch: pytest.MonkeyPatch, package: str, **changed: Callable[..., Any]) -> SimpleNamespace:
    """Puts a library's stand-in where imports find it; `changed` are other functions by name. Counts its calls."""
    calls = SimpleNamespace(count=0)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            calls.count += 1
            return function(*given, **named)

        return call

    for name, contents in MODULES.items():
        if name.partition(".")[0] != package:
            continue
        module = ModuleType(name)
        for key, value in contents.items():
            value = changed.get(key, value)
            vars(module)[key] = value if isinstance(value, type | dict) else counted(value)
        monkeypatch.setitem(sys.modules, name, module)
    return calls


def remove(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Makes a library be missing, on machines that have it too."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *more: None if name == package else found(name, *more))
