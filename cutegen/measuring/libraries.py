"""Peers from libraries of kernels that a user may have installed: quack's, written in CuTeDSL, and Liger's, in Triton.

They are offered where a spec computes a formula that they have a function for. Arguments are never written: what has
to be overwritten by a function could not be timed on the same data as the others.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutegen.language.model import KernelSpec
from cutegen.measuring.formulas import Recognised, recognise
from cutegen.measuring.peers import Peer

if TYPE_CHECKING:
    import torch

    from cutegen.measuring.arguments import Arguments

    Outputs = Mapping[str, torch.Tensor]  # by the formula's names; there may be more than those that are wanted
    Call = Callable[[], Outputs]

PACKAGES = {"quack": "quack-kernels", "liger_kernel": "liger-kernel"}  # modules, and what is installed for them


@dataclass(frozen=True)
class Given:
    """What a function is called on: tensors and scalars by the formula's names, and the outputs that are wanted."""

    values: Mapping[str, Any]
    wanted: Collection[str]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def library_peers(spec: KernelSpec) -> tuple[Peer, ...]:
    """The peers of libraries that have a function for what a spec computes, installed or not."""
    found = recognise(spec)
    if found is None:
        return ()
    return tuple(Peer(name, "library", found=found) for name, made in _MADE.items() if found.formula in made)


def library_calls(peer: Peer, arguments: Arguments) -> list[Callable[[], tuple[torch.Tensor, ...]]]:
    """The calls of a peer on each set of arguments, which give the results in the order of the spec's outputs.

    Raises what the library does where it is not installed or cannot do it.
    """
    found = peer.found
    assert found is not None
    made = _MADE[peer.name][found.formula]
    return [_call(made, found, arguments, number) for number in range(len(arguments.sets))]


def unsettled() -> bool:
    """Whether a library is loaded that changes CuTeDSL itself, so that kernels must be compiled in another process."""
    return "quack" in sys.modules


def _call(
    made: Callable[[Given], Call], found: Recognised, arguments: Arguments, number: int
) -> Callable[[], tuple[torch.Tensor, ...]]:
    named, spec = arguments.named(number), arguments.spec
    values: dict[str, Any] = {name: named[tensor] for name, tensor in found.inputs.items()}
    values |= {n: arguments.scalars[v] if isinstance(v, str) else v for n, v in found.scalars.items()}
    call = made(Given(values, found.outputs.keys()))
    names = {tensor: name for name, tensor in found.outputs.items()}
    outputs = [(names[tensor.name], named[tensor.name]) for tensor in spec.outputs]

    def results() -> tuple[torch.Tensor, ...]:
        given = call()
        for name, output in outputs:
            if given[name].dtype is not output.dtype and len(output.shape) == len(spec.lead.shape):
                raise TypeError(f"it gives {given[name].dtype}, and the kernel {output.dtype}")
        return tuple(given[name] for name, _ in outputs)

    return results


def _module(name: str) -> ModuleType:
    """A module of a library. Raises ModuleNotFoundError that says what to install."""
    package = name.partition(".")[0]
    if package not in sys.modules and importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(f"{PACKAGES[package]} is not installed")
    return importlib.import_module(name)


# ------------------------------------------------------------------------------------------------------------- quack


def _quack_softmax(x: Given) -> Call:
    function = _module("quack.softmax").softmax_fwd
    return lambda: {"Y": function(x["X"])}


def _quack_softmax_bwd(x: Given) -> Call:
    function = _module("quack.softmax").softmax_bwd
    return lambda: {"dX": function(x["dY"], x["Y"])}


def _quack_rms_norm(x: Given) -> Call:
    function = _module("quack.rmsnorm").rmsnorm_fwd
    residual, store = x.values.get("R"), "rstd" in x.wanted

    def call() -> Outputs:
        y, s, rstd = function(x["X"], x["W"], residual=residual, eps=x["eps"], store_rstd=store)
        return {"Y": y, "S": s, "rstd": rstd}

    return call


def _quack_rms_norm_bwd(x: Given) -> Call:
    function = _module("quack.rmsnorm").rmsnorm_bwd
    saved, beside = x.values.get("S", x.values.get("X")), x.values.get("dS")

    def call() -> Outputs:
        dx, dw, *_ = function(saved, x["W"], x["dY"], x["rstd"], dresidual_out=beside)
        return {"dX": dx, "dW": dw}

    return call


def _quack_layer_norm(x: Given) -> Call:
    function = _module("quack.rmsnorm").layernorm_fwd
    names = ["Y", *(name for name in ("rstd", "mu") if name in x.wanted)]  # in the order in which it gives them
    stored = {"return_rstd": "rstd" in names, "return_mean": "mu" in names}

    def call() -> Outputs:
        found = function(x["X"], x["W"], x["B"], eps=x["eps"], **stored)
        return dict(zip(names, found if len(names) > 1 else (found,), strict=True))

    return call


def _quack_layer_norm_bwd(x: Given) -> Call:
    function = _module("quack.rmsnorm").layernorm_bwd

    def call() -> Outputs:
        dx, dw, db = function(x["X"], x["W"], x["dY"], x["rstd"], x["mu"])
        return {"dX": dx, "dW": dw, "dB": db}

    return call


def _quack_rope(x: Given) -> Call:
    """It wants the halves of a head side by side, so they are laid so before anything is timed."""
    import torch

    function = _module("quack.rotary").apply_rotary
    heads = torch.cat((x["X1"], x["X2"]), -1).unsqueeze(0)

    def call() -> Outputs:
        first, second = function(heads, x["COS"], x["SIN"]).squeeze(0).chunk(2, -1)
        return {"Y1": first, "Y2": second}

    return call


# ------------------------------------------------------------------------------------------------------------- Liger

_IN_F32 = "gemma"  # Liger's name for norms that are computed in f32 up to their output, as ours are


def _liger_softmax(x: Given) -> Call:
    function = _module("liger_kernel.ops.softmax").LigerSoftmaxFunction.apply
    return lambda: {"Y": function(x["X"])}


def _liger_softmax_bwd(x: Given) -> Call:
    function = _module("liger_kernel.ops.softmax")._softmax_backward
    settings = _liger_settings(x["Y"])
    return lambda: {"dX": function(x["dY"], x["Y"], *settings, False)}


def _liger_rms_norm(x: Given) -> Call:
    function = _module("liger_kernel.ops.rms_norm").rms_norm_forward

    def call() -> Outputs:
        y, _, rstd, *_ = function(x["X"], x["W"], x["eps"], 0.0, _IN_F32, None)
        return {"Y": y, "rstd": rstd}

    return call


def _liger_rms_norm_bwd(x: Given) -> Call:
    module = _module("liger_kernel.ops.rms_norm")
    mode, settings = module._str_to_casting_mode[_IN_F32], _liger_settings(x["X"])

    def call() -> Outputs:
        given = (x["dY"], x["X"], x["W"], x["rstd"], 0.0, mode, *settings)
        dx, dw = module.rms_norm_backward(*given, in_place=False, row_mode=None)
        return {"dX": dx, "dW": dw}

    return call


def _liger_add_rms_norm(x: Given) -> Call:
    function = _module("liger_kernel.ops.fused_add_rms_norm").fused_add_rms_norm_forward

    def call() -> Outputs:
        y, s, rstd, *_ = function(x["X"], x["R"], x["W"], x["eps"], 0.0, _IN_F32)
        return {"Y": y, "S": s, "rstd": rstd}

    return call


def _liger_add_rms_norm_bwd(x: Given) -> Call:
    module = _module("liger_kernel.ops.fused_add_rms_norm")
    mode, settings = module._str_to_casting_mode[_IN_F32], _liger_settings(x["S"])

    def call() -> Outputs:
        given = (x["dY"], x["dS"], x["S"], x["W"], x["rstd"], 0.0, mode, *settings)
        dx, _, dw = module.fused_add_rms_norm_backward(*given, num_stages=2, in_place=False)
        return {"dX": dx, "dW": dw}

    return call


def _liger_layer_norm(x: Given) -> Call:
    function = _module("liger_kernel.ops.layer_norm").layer_norm_forward

    def call() -> Outputs:
        y, _, mu, rstd, *_ = function(x["X"], x["W"], x["B"], x["eps"])
        return {"Y": y, "mu": mu, "rstd": rstd}

    return call


def _liger_layer_norm_bwd(x: Given) -> Call:
    function = _module("liger_kernel.ops.layer_norm").layer_norm_backward

    def call() -> Outputs:
        bias = x["W"]  # of which it reads the type alone
        dx, dw, db = function(x["dY"], x["X"], x["W"], bias, x["mu"], x["rstd"])
        return {"dX": dx, "dW": dw, "dB": db}

    return call


def _liger_swiglu(x: Given) -> Call:
    function = _module("liger_kernel.ops.swiglu").swiglu_forward
    return lambda: {"Y": function(x["G"], x["U"])[-1]}


def _liger_geglu(x: Given) -> Call:
    function = _module("liger_kernel.ops.geglu").geglu_forward
    return lambda: {"Y": function(x["G"], x["U"])[-1]}


def _liger_settings(rows: torch.Tensor) -> tuple[int, int]:
    """The size of a block and the number of its warps, as Liger chooses them for such rows."""
    block, warps = _module("liger_kernel.ops.utils").calculate_settings(rows.shape[-1])
    return block, warps


_MADE: Mapping[str, Mapping[str, Callable[[Given], Call]]] = {
    "quack": {
        "softmax": _quack_softmax,
        "softmax_bwd": _quack_softmax_bwd,
        "rms_norm": _quack_rms_norm,
        "rms_norm_bwd": _quack_rms_norm_bwd,
        "add_rms_norm": _quack_rms_norm,
        "add_rms_norm_bwd": _quack_rms_norm_bwd,
        "layer_norm": _quack_layer_norm,
        "layer_norm_bwd": _quack_layer_norm_bwd,
        "rope": _quack_rope,
    },
    "Liger": {
        "softmax": _liger_softmax,
        "softmax_bwd": _liger_softmax_bwd,
        "rms_norm": _liger_rms_norm,
        "rms_norm_bwd": _liger_rms_norm_bwd,
        "add_rms_norm": _liger_add_rms_norm,
        "add_rms_norm_bwd": _liger_add_rms_norm_bwd,
        "layer_norm": _liger_layer_norm,
        "layer_norm_bwd": _liger_layer_norm_bwd,
        "swiglu": _liger_swiglu,
        "geglu": _liger_geglu,
    },
}
