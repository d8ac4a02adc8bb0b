"""The calls of Liger's functions, written in Triton unless they say otherwise, by the formula that each computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cutegen.peers.given import Given, library_module

if TYPE_CHECKING:
    import torch

    from cutegen.peers.given import Call, Outputs


_IN_F32 = "gemma"  # Liger's name for norms that are computed in f32 up to their output, as ours are


def _softmax(x: Given) -> Call:
    function = library_module("liger_kernel.ops.softmax").LigerSoftmaxFunction.apply
    return lambda: {"Y": function(x["X"])}


def _softmax_bwd(x: Given) -> Call:
    function = library_module("liger_kernel.ops.softmax")._softmax_backward
    settings = _settings(x["Y"])
    return lambda: {"dX": function(x["dY"], x["Y"], *settings, False)}


def _rms_norm(x: Given) -> Call:
    function = library_module("liger_kernel.ops.rms_norm").rms_norm_forward

    def call() -> Outputs:
        y, _, rstd, *_ = function(x["X"], x["W"], x["eps"], 0.0, _IN_F32, None)
        return {"Y": y, "rstd": rstd}

    return call


def _rms_norm_bwd(x: Given) -> Call:
    module = library_module("liger_kernel.ops.rms_norm")
    mode, settings = module._str_to_casting_mode[_IN_F32], _settings(x["X"])

    def call() -> Outputs:
        given = (x["dY"], x["X"], x["W"], x["rstd"], 0.0, mode, *settings)
        dx, dw = module.rms_norm_backward(*given, in_place=False, row_mode=None)
        return {"dX": dx, "dW": dw}

    return call


def _add_rms_norm(x: Given) -> Call:
    function = library_module("liger_kernel.ops.fused_add_rms_norm").fused_add_rms_norm_forward

    def call() -> Outputs:
        y, s, rstd, *_ = function(x["X"], x["R"], x["W"], x["eps"], 0.0, _IN_F32)
        return {"Y": y, "S": s, "rstd": rstd}

    return call


def _add_rms_norm_bwd(x: Given) -> Call:
    module = library_module("liger_kernel.ops.fused_add_rms_norm")
    mode, settings = module._str_to_casting_mode[_IN_F32], _settings(x["S"])

    def call() -> Outputs:
        given = (x["dY"], x["dS"], x["S"], x["W"], x["rstd"], 0.0, mode, *settings)
        dx, _, dw = module.fused_add_rms_norm_backward(*given, num_stages=2, in_place=False)
        return {"dX": dx, "dW": dw}

    return call


def _layer_norm(x: Given) -> Call:
    function = library_module("liger_kernel.ops.layer_norm").layer_norm_forward

    def call() -> Outputs:
        y, _, mu, rstd, *_ = function(x["X"], x["W"], x["B"], x["eps"])
        return {"Y": y, "mu": mu, "rstd": rstd}

    return call


def _layer_norm_bwd(x: Given) -> Call:
    function = library_module("liger_kernel.ops.layer_norm").layer_norm_backward

    def call() -> Outputs:
        bias = x["W"]  # of which it reads the type alone
        dx, dw, db = function(x["dY"], x["X"], x["W"], bias, x["mu"], x["rstd"])
        return {"dX": dx, "dW": dw, "dB": db}

    return call


def _swiglu(x: Given) -> Call:
    function = library_module("liger_kernel.ops.swiglu").swiglu_forward
    return lambda: {"Y": function(x["G"], x["U"])[-1]}


def _geglu(x: Given) -> Call:
    function = library_module("liger_kernel.ops.geglu").geglu_forward
    return lambda: {"Y": function(x["G"], x["U"])[-1]}


def _swiglu_bwd(x: Given) -> Call:
    """It writes the gradients over the gate and the other operand."""
    function = library_module("liger_kernel.ops.swiglu").swiglu_backward
    return _gated_bwd(x, function)


def _geglu_bwd(x: Given) -> Call:
    """It writes the gradients over the gate and the other operand."""
    function = library_module("liger_kernel.ops.geglu").geglu_backward
    return _gated_bwd(x, function)


def _gated_bwd(x: Given, function: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> Call:
    gate, operand = x.overwritten("G"), x.overwritten("U")

    def call() -> Outputs:
        dg, du = function(gate, operand, x["dY"])
        return {"dG": dg, "dU": du}

    return call


def _cross_entropy(x: Given) -> Call:
    """It writes the gradient over its argument. This is the part of Liger's loss that asks the host for nothing."""
    function = library_module("liger_kernel.ops.backends._triton.cross_entropy").cross_entropy_loss_and_grad_triton
    x.without_factor()
    logits, rows = x.overwritten("X"), len(x["target"])
    weight, lse_square_scale, softcap, weight_sum = None, 0.0, None, 0.0
    smoothing, ignored = float(x.values.get("smoothing", 0)), int(x["ignored"])

    def call() -> Outputs:
        parts = (weight, ignored, lse_square_scale, smoothing, "none", softcap, rows, rows, weight_sum)
        loss, _, _, _, dx = function(logits, x["target"], *parts, False, False, False, True)
        return {"loss": loss, "dX": dx}

    return call


def _kl_div(x: Given) -> Call:
    """Its kernels for the loss and for the gradient, without the sum over the rows that follows in Liger's loss."""
    import torch

    module = library_module("liger_kernel.ops.kl_div")
    rows, columns = x["P"].shape
    x.without_factor()
    block = min(module.MAX_FUSED_SIZE, _power_of_two(columns))
    settings = {"BLOCK_SIZE": block, "num_warps": module.get_num_warps(block), "log_target": False}
    by_row, eps = module._str_to_reduction_mode["sum"], 1e-10

    def call() -> Outputs:
        loss = torch.empty(rows, dtype=torch.float32, device=x["P"].device)
        dl = torch.empty_like(x["P"])
        given = [each for tensor in (x["L"], x["P"], loss) for each in (tensor, tensor.stride(0))]
        module._kldiv_kernel_forward[rows,](*given, columns, eps=eps, reduction=by_row, **settings)
        module._kldiv_kernel_backward[rows,](x["P"], x["P"].stride(0), dl, dl.stride(0), columns, **settings)
        return {"loss": loss, "dL": dl}

    return call


def _jsd(x: Given) -> Call:
    """Liger's loss with a sum along each row in the place of that over all elements.

    What it does itself is timed: it copies the argument that its kernel overwrites, and has torch add up the losses of
    the elements. The kernel is the one that Liger prefers on this GPU, in CuTeDSL or in Triton.
    """
    dispatch = library_module("liger_kernel.ops.jsd").dispatch
    x.without_factor()
    labels, ignored, count = None, -100, 1.0  # by which it divides the loss and the gradient

    def call() -> Outputs:
        copy = x["LQ"].clone()
        losses, dlq = dispatch("jsd_loss_and_grad", copy, x["LP"], labels, float(x["beta"]), ignored, count)
        return {"loss": losses.sum(-1), "dLQ": dlq}

    return call


def _rope(x: Given) -> Call:
    """It rotates the heads of queries and keys where they are: here they are the first and the last heads of a token.

    Liger's own function takes them in two tensors; its kernel is launched on the two parts of one.
    """
    module = library_module("liger_kernel.ops.rope")
    tokens, heads, half = x["X1"].shape
    if heads < 2:
        raise ValueError("it takes two heads at least")
    queries = _power_of_two(heads) // 2  # as many as fill its block, and fewer than all
    keys = heads - queries
    memory = x.overwritten("X1", "X2")
    rows = [each for part in (memory, memory[:, queries:], x["COS"], x["SIN"]) for each in (part, part.stride(0))]
    sizes = (tokens, 1, 1, queries, keys, 2 * half)
    padded = (_power_of_two(queries), _power_of_two(keys), _power_of_two(2 * half), _power_of_two(2 * half))
    block = max(padded[:2])

    def call() -> Outputs:
        module._triton_rope[tokens,](*rows, *sizes, *padded, 2 * half, BLOCK_SIZE=block, BACKWARD_PASS=False)
        return {"Y1": memory[..., :half], "Y2": memory[..., half:]}

    return call


def _settings(rows: torch.Tensor) -> tuple[int, int]:
    """The size of a block and the number of its warps, as Liger chooses them for such rows."""
    block, warps = library_module("liger_kernel.ops.utils").calculate_settings(rows.shape[-1])
    return block, warps


def _power_of_two(size: int) -> int:
    """The least power of two that is not below a size."""
    return 1 << (size - 1).bit_length()


MADE: Mapping[str, Callable[[Given], Call]] = {
    "softmax": _softmax,
    "softmax_bwd": _softmax_bwd,
    "rms_norm": _rms_norm,
    "rms_norm_bwd": _rms_norm_bwd,
    "add_rms_norm": _add_rms_norm,
    "add_rms_norm_bwd": _add_rms_norm_bwd,
    "layer_norm": _layer_norm,
    "layer_norm_bwd": _layer_norm_bwd,
    "cross_entropy": _cross_entropy,
    "smoothed_cross_entropy": _cross_entropy,
    "kl_div": _kl_div,
    "jsd": _jsd,
    "swiglu": _swiglu,
    "swiglu_bwd": _swiglu_bwd,
    "geglu": _geglu,
    "geglu_bwd": _geglu_bwd,
    "rope": _rope,
}
