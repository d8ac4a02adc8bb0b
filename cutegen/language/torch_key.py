"""The key `torch` of a spec: the op that torch knows its kernel by."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.language.kinds import OneOrMore, Text, key
from cutegen.language.names import MAX_KERNEL_NAME

MAX_OP_NAME = 2 * MAX_KERNEL_NAME + len("::")


@dataclass(frozen=True)
class TorchOp:
    """The op that a module makes of its kernel for torch, if `op` says so."""

    op: str | None = key(
        Text(most=MAX_OP_NAME),
        "Name of the op, as in `mylib::rms_norm`: the module registers it with torch, for `torch.compile`, "
        "`torch.export` and autocast. `{a}` stands for a value of the matrix, in lower case.",
    )
    backward: tuple[str, ...] = key(
        OneOrMore(most=16, longest=MAX_KERNEL_NAME),
        "The kernel, in the same folder, that computes the gradient, or a list of kernels that each compute the "
        "gradients of some inputs. They have ops as well, read tensors of this kernel and the gradients of its "
        "outputs, `dY` of `Y`, and write the gradients of inputs, `dX` of `X`.",
        default=(),
    )
