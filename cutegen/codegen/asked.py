"""Protocols that codegen requires of a family and its op; `cutegen.family` and `cutegen.ops.op` document them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from cutegen.atoms.mma import SumOrder
    from cutegen.codegen.parts import KernelParts
    from cutegen.codegen.reference import Reference


class Op(Protocol):
    """One kind of computation, as far as codegen needs to know it."""

    @property
    def reserved(self) -> frozenset[str]: ...

    def reference(self, plan: Plan) -> Reference: ...

    def product_modes(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def product_widths(self, spec: KernelSpec) -> tuple[str, ...]: ...


class Family(Protocol):
    """A kernel skeleton."""

    @property
    def name(self) -> str: ...

    @property
    def templates(self) -> Mapping[str, Traversable]: ...

    def kernel_parts(self, plan: Plan) -> KernelParts: ...

    def factor_bits(self, spec: KernelSpec) -> int | None: ...

    def sum_orders(self, spec: KernelSpec) -> tuple[SumOrder, ...]: ...

    def __hash__(self) -> int: ...


def op_of(spec: KernelSpec) -> Op:
    """The op of a spec: the kind of computation that `op` names."""
    return cast(Op, spec.operation)


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
