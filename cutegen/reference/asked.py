"""What the reference asks of a family of kernels and of its op. `cutegen.family` says what each answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

from cutegen.language.model import KernelSpec, Tensor

if TYPE_CHECKING:
    import torch

    from cutegen.atoms.mma import SumOrder
    from cutegen.dtypes import Dtype
    from cutegen.reference.rounding import Bounded


class Op(Protocol):
    """What is computed."""

    def apart(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def sizes(self, spec: KernelSpec) -> Mapping[str, int]: ...

    def elements(self, spec: KernelSpec, tensor: Tensor, values: torch.Tensor) -> Bounded: ...


class Family(Protocol):
    """A kernel skeleton."""

    def accumulator(self, spec: KernelSpec) -> Dtype | None: ...

    def factor_bits(self, spec: KernelSpec) -> int | None: ...

    def sum_orders(self, spec: KernelSpec) -> tuple[SumOrder, ...]: ...


def op_of(spec: KernelSpec) -> Op:
    """What a spec computes."""
    return cast(Op, spec.operation)


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
