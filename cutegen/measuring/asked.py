"""The members of a family of kernels and of its op that measuring uses, as documented in `cutegen.family` and
`cutegen.ops.op`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, cast

from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan

if TYPE_CHECKING:
    from cutegen.codegen.reference import Reference
    from cutegen.planning.work import Work


class Op(Protocol):
    """A kind of computation, which a spec names in `op`."""

    @property
    def name(self) -> str: ...

    @property
    def unmeasured(self) -> str | None: ...

    @property
    def rate(self) -> Literal["TFLOP/s", "GB/s"]: ...

    def eager(self, plan: Plan) -> Reference: ...

    def bench_shapes(self, spec: KernelSpec) -> Sequence[Mapping[str, int]]: ...

    def work(self, spec: KernelSpec, sizes: Mapping[str, int]) -> Work: ...


class Family(Protocol):
    """A kernel skeleton."""

    def refused(self, spec: KernelSpec, sizes: Mapping[str, int]) -> str | None: ...

    def accepted(self, spec: KernelSpec, sizes: dict[str, int]) -> dict[str, int] | None: ...


def op_of(spec: KernelSpec) -> Op:
    """The op of a spec."""
    return cast(Op, spec.operation)


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
