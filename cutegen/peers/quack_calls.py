"""The calls of quack's functions, which are written in CuTeDSL, by the formula that each of them computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cutegen.peers.given import Given, library_module

if TYPE_CHECKING:
    from cutegen.peers.given import Call, Outputs


def _softmax(x: Given) -> Call:
    function = library_module("quack.softmax").softmax_fwd
    return lambda: {"Y": function(x["X"])}


def _softmax_bwd(x: Given) -> Call:
    function = library_module("quack.softmax").softmax_bwd
    return lambda: {"dX": function(x["dY"], x["Y"])}


def _rms_norm(x: Given) -> Call:
    function = library_module("quack.rmsnorm").rmsnorm_fwd
    residual, store = x.values.get("R"), "rstd" in x.wanted

    def call() -> Outputs:
        y, s, rstd = function(x["X"], x["W"], residual=residual, eps=x["eps"], store_rstd=store)
        return {"Y": y, "S": s, "rstd": rstd}

    return call


def _rms_norm_bwd(x: Given) -> Call:
    function = library_module("quack.rmsnorm").rmsnorm_bwd
    saved, beside = x.values.get("S", x.values.get("X")), x.values.get("dS")

    def call() -> Outputs:
        dx, dw, *_ = function(saved, x["W"], x["dY"], x["rstd"], dresidual_out=beside)
        return {"dX": dx, "dW": dw}

    return call


def _layer_norm(x: Given) -> Call:
    import torch

    function = library_module("quack.rmsnorm").layernorm_fwd
    if x["W"].dtype is not torch.float32 or x["B"].dtype is not torch.float32:
        raise TypeError(f"it takes a weight and a bias in f32, and here they are {x['W'].dtype} and {x['B'].dtype}")
    names = ["Y", *(name for name in ("rstd", "mu") if name in x.wanted)]  # in the order in which it gives them
    stored = {"return_rstd": "rstd" in names, "return_mean": "mu" in names}

    def call() -> Outputs:
        found = function(x["X"], x["W"], x["B"], eps=x["eps"], **stored)
        return dict(zip(names, found if len(names) > 1 else (found,), strict=True))

    return call


def _layer_norm_bwd(x: Given) -> Call:
    function = library_module("quack.rmsnorm").layernorm_bwd

    def call() -> Outputs:
        dx, dw, db = function(x["X"], x["W"], x["dY"], x["rstd"], x["mu"])
        return {"dX": dx, "dW": dw, "dB": db}

    return call


def _rope(x: Given) -> Call:
    """It wants the halves of a head side by side, so they are laid so before anything is timed."""
    import torch

    function = library_module("quack.rotary").apply_rotary
    heads = torch.cat((x["X1"], x["X2"]), -1).unsqueeze(0)

    def call() -> Outputs:
        first, second = function(heads, x["COS"], x["SIN"]).squeeze(0).chunk(2, -1)
        return {"Y1": first, "Y2": second}

    return call


def _cross_entropy(x: Given) -> Call:
    function = library_module("quack.cross_entropy").cross_entropy_fwd
    x.without_factor()

    def call() -> Outputs:
        loss, dx = function(x["X"], x["target"], ignore_index=int(x["ignored"]), return_dx=True)
        return {"loss": loss, "dX": dx}

    return call


def _gemm(x: Given) -> Call:
    """In the configuration that it has for a GPU; the search for a better one compiles for minutes."""
    function = library_module("quack.gemm_interface").gemm
    return lambda: {"C": function(x["A"], x["B"].T, tuned=False)}


MADE: Mapping[str, Callable[[Given], Call]] = {
    "matrix_product": _gemm,
    "softmax": _softmax,
    "softmax_bwd": _softmax_bwd,
    "rms_norm": _rms_norm,
    "rms_norm_bwd": _rms_norm_bwd,
    "add_rms_norm": _rms_norm,
    "add_rms_norm_bwd": _rms_norm_bwd,
    "layer_norm": _layer_norm,
    "layer_norm_bwd": _layer_norm_bwd,
    "cross_entropy": _cross_entropy,
    "rope": _rope,
}
