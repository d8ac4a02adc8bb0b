"""Families of kernels and their ops as verification uses them; documented in `cutegen.family` and `cutegen.ops.op`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from cutegen.expressions.tree import Compute
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.plan import Plan

if TYPE_CHECKING:
    from cutegen.analysis.buffers import Scratch
    from cutegen.atoms.mma import SumOrder
    from cutegen.verification.case_request import CaseRequest


class Op(Protocol):
    """An op: a kind of computation."""

    def contracted(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def summed(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def largest_whole(self, spec: KernelSpec, tensor: Tensor) -> int | None: ...

    def computed_modes(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def raised(self, spec: KernelSpec, tensor: Tensor) -> str | None: ...

    def reduced_together(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def multiply_adds(self, spec: KernelSpec, sizes: Mapping[str, int]) -> int: ...

    def without_reference(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def modes_that_may_be_empty(self, compute: Compute, tensors: Mapping[str, Tensor]) -> tuple[str, ...]: ...


class Family(Protocol):
    """A kernel skeleton."""

    def factor_bits(self, spec: KernelSpec) -> int | None: ...

    def sum_orders(self, spec: KernelSpec) -> tuple[SumOrder, ...]: ...

    def additions(self, plan: Plan, sizes: Mapping[str, int], modes: Sequence[str]) -> int | None: ...

    def scratch(self, plan: Plan) -> Iterator[Scratch]: ...

    def blocks(self, plan: Plan, sizes: Mapping[str, int]) -> int: ...

    def band(self, plan: Plan) -> tuple[str, int] | None: ...

    def largest(self, plan: Plan, beside: Mapping[str, int] | None = None) -> Mapping[str, int]: ...

    def covered(self, plan: Plan) -> dict[str, int]: ...

    def reached(self, plan: Plan, sizes: Mapping[str, int]) -> Mapping[str, int]: ...

    def value_seconds(self, plan: Plan, sizes: Mapping[str, int]) -> float: ...

    def threads_beside(self, plan: Plan, sizes: Mapping[str, int]) -> int: ...

    def requests(self, plan: Plan, tiles: Mapping[str, int]) -> Iterator[CaseRequest] | None: ...

    def more_requests(self, plan: Plan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]: ...

    def verified_form(self, plan: Plan) -> object | None: ...

    def accepted(self, spec: KernelSpec, sizes: dict[str, int]) -> dict[str, int] | None: ...


def op_of(spec: KernelSpec) -> Op:
    """The op that a spec computes."""
    return cast(Op, spec.operation)


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
