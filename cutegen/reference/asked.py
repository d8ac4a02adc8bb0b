"""Families of kernels and their ops as the reference uses them; documented in `cutegen.family` and `cutegen.ops.op`."""

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
    """An op: a kind of computation."""

    def apart(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def scaled_late(self, spec: KernelSpec) -> str | None: ...

    def sizes(self, spec: KernelSpec) -> Mapping[str, int]: ...

    def axes(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def elements(self, spec: KernelSpec, tensor: Tensor, values: torch.Tensor) -> Bounded: ...


class Family(Protocol):
    """A kernel skeleton."""

    def accumulator(self, spec: KernelSpec) -> Dtype | None: ...

    def factor_bits(self, spec: KernelSpec) -> int | None: ...

    def sum_orders(self, spec: KernelSpec) -> tuple[SumOrder, ...]: ...


def op_of(spec: KernelSpec) -> Op:
    """The op that a spec computes."""
    return cast(Op, spec.operation)


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
