"""The key `torch` of a spec: the op that torch knows its kernel by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutegen.language.kinds import Kind, Path, Text, key
from cutegen.language.names import MAX_KERNEL_NAME
from cutegen.language.values import ValueReader

MAX_OP_NAME = 2 * MAX_KERNEL_NAME + len("::")


@dataclass(frozen=True)
class OneOrMore(Kind):
    """A text, or a list of texts: a tuple of texts in the model, empty where nothing is written."""

    most: int
    longest: int

    def schema(self, says: str) -> dict[str, Any]:
        one = {"type": "string", "minLength": 1, "maxLength": self.longest}
        several = {"minItems": 1, "maxItems": self.most, "uniqueItems": True, "items": one}
        return {"description": says, "type": ["string", "array"], **{k: one[k] for k in one if k != "type"}, **several}

    def read(self, value: str | Sequence[str], ctx: ValueReader, path: Path) -> tuple[str, ...]:
        return (value,) if isinstance(value, str) else tuple(value)

    def write(self, value: Sequence[str]) -> str | list[str]:
        return value[0] if len(value) == 1 else list(value)


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
        "outputs, `dY` of `Y`, and write the gradients of inputs, `dX` of `X`. They may also read other outputs of "
        "kernels before them in the list.",
        default=(),
    )
