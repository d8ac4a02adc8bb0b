"""Stand-ins for quack's functions: their parameters and results, computed by torch on any device."""

from __future__ import annotations

from typing import Any

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


def cross_entropy(x: Tensor, target: Tensor, smoothing: float, ignored: int) -> tuple[Tensor, Tensor]:
    """The cross entropy of each row and its gradient, in f32."""
    assert target.min() >= 0 and target.max() < x.shape[-1]
    logits = x.float().requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        logits, target, ignore_index=ignored, label_smoothing=smoothing, reduction="none"
    )
    (dx,) = torch.autograd.grad(loss.sum(), logits)
    return loss.detach(), dx


def cross_entropy_fwd(
    x: Tensor,
    target: Tensor,
    target_logit: Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    return_lse: bool = False,
    return_dx: bool = False,
    inplace_backward: bool = False,
) -> tuple[Tensor, Tensor]:
    assert target_logit is None and weight is None and return_dx and not return_lse and not inplace_backward
    loss, dx = cross_entropy(x, target, 0.0, ignore_index)
    return loss, dx.to(x.dtype)


MODULES: dict[str, dict[str, Any]] = {
    "quack": {},
    "quack.softmax": {"softmax_fwd": softmax_fwd, "softmax_bwd": softmax_bwd},
    "quack.rmsnorm": {
        "rmsnorm_fwd": rmsnorm_fwd,
        "rmsnorm_bwd": rmsnorm_bwd,
        "layernorm_fwd": layernorm_fwd,
        "layernorm_bwd": layernorm_bwd,
    },
    "quack.cross_entropy": {"cross_entropy_fwd": cross_entropy_fwd},
    "quack.rotary": {"apply_rotary": apply_rotary},
}
