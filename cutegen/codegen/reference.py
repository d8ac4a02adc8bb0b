"""The text of a module's `reference`, as the op of the kernel gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutegen.codegen.formatting import call
from cutegen.language.model import KernelSpec

_DEVICE = "device=device"


@dataclass(frozen=True)
class Reference:
    """Statements on the arguments of the generated function, and what then holds each output's values.

    `results` are expressions in the order of `spec.outputs`; the variable of a single one is `result`. In `statements`
    the scalar arguments are tensors without modes, which `scalars` makes, by argument; `constants` are other calls
    there that make such a tensor. Both kinds of calls, and the statements, may ask for `device`.
    """

    statements: tuple[str, ...]
    results: tuple[str, ...] = ("result",)
    scalars: Mapping[str, str] = field(default_factory=dict)
    constants: tuple[str, ...] = ()

    def lines(self, spec: KernelSpec) -> list[str]:
        """The body of `reference`, without what it returns."""
        made = []
        for scalar in spec.scalars:
            if scalar.argument in self.scalars:
                items = [scalar.argument, f"dtype=torch.{scalar.dtype.torch}", "device=device"]
                made.append(call(f"{scalar.argument} = torch.tensor(", items, ")", 4))
        lines = [*made, *self.statements]
        return [device_of(spec), *lines] if any(_DEVICE in line for line in lines) else lines


def device_of(spec: KernelSpec) -> str:
    """The statement that names the device of the arguments: that of the first, as outputs may be left out."""
    spec = spec.by_argument
    return f"device = {next(iter(spec.inputs), spec.output).argument}.device"
