"""Stand-ins for Liger's functions and kernels: their parameters and results, computed by torch on any device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from quack_kit import cross_entropy, layernorm_bwd, layernorm_fwd, rmsnorm_bwd, rmsnorm_fwd, softmax_bwd, softmax_fwd

Tensor = torch.Tensor


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


def swiglu_backward(a: Tensor, b: Tensor, dc: Tensor, gate_multiplier: float = 1.0) -> tuple[Tensor, Tensor]:
    """It overwrites the operands, as the next one does."""
    assert gate_multiplier == 1
    s = a.float().sigmoid()
    da, db = dc.float() * b.float() * s * (1 + a.float() * (1 - s)), dc.float() * a.float() * s
    return a.copy_(da), b.copy_(db)


def geglu_backward(a: Tensor, b: Tensor, dc: Tensor) -> tuple[Tensor, Tensor]:
    gate = a.float().requires_grad_()
    y = torch.nn.functional.gelu(gate, approximate="tanh")
    (da,) = torch.autograd.grad(y, gate, dc.float() * b.float())
    return a.copy_(da), b.copy_(dc.float() * y.detach())


def cross_entropy_loss_and_grad_triton(
    logits_chunk: Tensor,
    target_chunk: Tensor,
    ce_weight: Tensor | None,
    ignore_index: int,
    lse_square_scale: float,
    label_smoothing: float,
    reduction: str,
    softcap: float | None,
    n_non_ignore: int,
    sum_non_ignore_weight: float,
    weight_sum: float,
    return_z_loss: bool,
    return_token_accuracy: bool,
    return_predicted_tokens: bool,
    has_gradients: bool,
    *,
    mode: str | None = None,
) -> tuple[Tensor, None, None, None, Tensor]:
    """It overwrites the logits with their gradient."""
    assert ce_weight is None and not lse_square_scale and reduction == "none" and softcap is None and not weight_sum
    assert has_gradients and not (return_z_loss or return_token_accuracy or return_predicted_tokens)
    assert n_non_ignore == sum_non_ignore_weight == len(target_chunk)
    loss, dx = cross_entropy(logits_chunk, target_chunk, label_smoothing, ignore_index)
    return loss, None, None, None, logits_chunk.copy_(dx)


def dispatch(
    op_name: str,
    student_prob: Tensor,
    teacher_prob: Tensor,
    shift_labels: Tensor | None,
    beta: float,
    ignore_index: int,
    n_non_ignore: float,
) -> tuple[Tensor, Tensor]:
    """The loss of each element, and the gradient, which overwrites the student's."""
    assert op_name == "jsd_loss_and_grad" and shift_labels is None and n_non_ignore == 1
    x, y = student_prob.float(), teacher_prob.float()
    p, q = beta * y.exp(), (1 - beta) * x.exp()
    log_m = (p + q).log()
    return p * (y - log_m) + q * (x - log_m), student_prob.copy_(q * (x - log_m))


class Launched:
    """A kernel of Triton's: `kernel[grid](...)` calls the function on the grid and on what it is given."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return partial(self.function, grid)


def _rows(pointer: Tensor, rows: int, stride: int, *inner: int) -> Tensor:
    """The memory at a kernel's pointer: rows at a stride, each without gaps."""
    strides = torch.empty(inner, device="meta").stride()
    return pointer.as_strided((rows, *inner), (stride, *strides), pointer.storage_offset())


@Launched
def _kldiv_kernel_forward(
    grid: tuple[int, ...],
    y_ptr: Tensor,
    y_stride: int,
    gt_ptr: Tensor,
    gt_stride: int,
    loss_ptr: Tensor,
    loss_stride: int,
    n_cols: int,
    eps: float,
    BLOCK_SIZE: int,
    reduction: int,
    log_target: bool,
    num_warps: int,
) -> None:
    assert (BLOCK_SIZE, num_warps, reduction, log_target, loss_stride) == (16, 4, 1, False, 1)
    y, target = _rows(y_ptr, *grid, y_stride, n_cols).float(), _rows(gt_ptr, *grid, gt_stride, n_cols).float()
    loss_ptr.copy_((target * (target.clamp(min=eps).log() - y)).sum(-1))


@Launched
def _kldiv_kernel_backward(
    grid: tuple[int, ...],
    target_ptr: Tensor,
    target_stride: int,
    new_grads_ptr: Tensor,
    new_grads_stride: int,
    n_cols: int,
    BLOCK_SIZE: int,
    log_target: bool,
    num_warps: int,
) -> None:
    assert (BLOCK_SIZE, num_warps, log_target) == (16, 4, False)
    gradient = -_rows(target_ptr, *grid, target_stride, n_cols)
    _rows(new_grads_ptr, *grid, new_grads_stride, n_cols).copy_(gradient)


@Launched
def _triton_rope(
    grid: tuple[int, ...],
    q_ptr: Tensor,
    q_row_stride: int,
    k_ptr: Tensor,
    k_row_stride: int,
    cos: Tensor,
    cos_row_stride: int,
    sin: Tensor,
    sin_row_stride: int,
    sl: int,
    bs: int,
    cos_bs: int,
    n_qh: int,
    n_kh: int,
    hd: int,
    pad_n_qh: int,
    pad_n_kh: int,
    pad_hd: int,
    pad_rd: int,
    rd: int,
    BLOCK_SIZE: int,
    BACKWARD_PASS: bool,
) -> None:
    """It rotates both tensors where they are."""
    assert (bs, cos_bs, rd, BACKWARD_PASS) == (1, 1, hd, False) and grid == (sl,)
    assert (
        (n_qh, n_kh, hd) <= (pad_n_qh, pad_n_kh, pad_hd) and pad_rd == pad_hd and max(pad_n_qh, pad_n_kh) == BLOCK_SIZE
    )
    c = _rows(cos, sl, cos_row_stride, rd // 2)[:, None]
    s = _rows(sin, sl, sin_row_stride, rd // 2)[:, None]
    for x in (_rows(q_ptr, sl, q_row_stride, n_qh, hd), _rows(k_ptr, sl, k_row_stride, n_kh, hd)):
        first, second = x.float().chunk(2, -1)
        x.copy_(torch.cat((first * c - second * s, second * c + first * s), -1))


MODES = {"llama": 0, "gemma": 1, "none": -1}
MODULES: dict[str, dict[str, Any]] = {
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
    "liger_kernel.ops.swiglu": {"swiglu_forward": swiglu_forward, "swiglu_backward": swiglu_backward},
    "liger_kernel.ops.geglu": {"geglu_forward": geglu_forward, "geglu_backward": geglu_backward},
    "liger_kernel.ops.backends": {},
    "liger_kernel.ops.backends._triton": {},
    "liger_kernel.ops.backends._triton.cross_entropy": {
        "cross_entropy_loss_and_grad_triton": cross_entropy_loss_and_grad_triton,
    },
    "liger_kernel.ops.jsd": {"dispatch": dispatch},
    "liger_kernel.ops.kl_div": {
        "MAX_FUSED_SIZE": 16384,
        "get_num_warps": lambda block: 4,
        "_str_to_reduction_mode": {"none": 0, "sum": 1},
        "_kldiv_kernel_forward": _kldiv_kernel_forward,
        "_kldiv_kernel_backward": _kldiv_kernel_backward,
    },
    "liger_kernel.ops.rope": {"_triton_rope": _triton_rope},
}
