"""The arguments of a library's function, by a formula's names, and memory that the function may overwrite."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    Outputs = Mapping[str, torch.Tensor]  # by the formula's names; there may be more than those that are wanted
    Call = Callable[[], Outputs]

PACKAGES = {"quack": "quack-kernels", "liger_kernel": "liger-kernel"}  # modules, and what is installed for them


@dataclass(frozen=True)
class Memory:
    """Memory that a function overwrites, and the tensors whose values it starts with, side by side in the last mode."""

    tensor: torch.Tensor
    originals: tuple[torch.Tensor, ...]

    def restore(self) -> None:
        """Gives it its first values again, on the current stream."""
        import torch

        torch.cat(self.originals, -1, out=self.tensor)


@dataclass(frozen=True)
class Given:
    """The arguments of a function: tensors and scalars by the formula's names, and the outputs that are wanted.

    `memory` lists the memory that the function requested in order to overwrite it.
    """

    values: Mapping[str, Any]
    wanted: Collection[str]
    memory: list[Memory] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def overwritten(self, *names: str) -> torch.Tensor:
        """Memory with the values of these tensors, side by side in the last mode, for a function that overwrites it.

        It has them again before each call that is timed, which is not in the time.
        """
        import torch

        originals = tuple(self[name] for name in names)
        self.memory.append(Memory(torch.cat(originals, -1), originals))
        return self.memory[-1].tensor

    def without_factor(self) -> None:
        """Raises ValueError if the gradient has a factor, for functions that know none."""
        if self["scale"] != 1:
            raise ValueError(f"its gradient has no factor, and the kernel's is multiplied by {self['scale']:g}")


def library_module(name: str) -> ModuleType:
    """A module of a library. Raises ModuleNotFoundError that says what to install."""
    package = name.partition(".")[0]
    if package not in sys.modules and importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(f"{PACKAGES[package]} is not installed")
    return importlib.import_module(name)
