"""The members of a family of kernels and of its op that analysis uses, as documented in `cutegen.family` and
`cutegen.ops.op`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan

if TYPE_CHECKING:
    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer, Scratch
    from cutegen.analysis.claim import Claim
    from cutegen.analysis.tiles import Tiles
    from cutegen.atoms.gpus import Arithmetic
    from cutegen.planning.work import Work


class Op(Protocol):
    """A kind of computation, which a spec names in `op`."""

    def work(self, spec: KernelSpec, sizes: Mapping[str, int]) -> Work: ...


class Family(Protocol):
    """A kernel skeleton."""

    def accesses(self, plan: Plan) -> tuple[Access, ...]: ...

    def claims(self, plan: Plan) -> Iterator[Claim]: ...

    def buffers(self, plan: Plan) -> Iterator[Buffer]: ...

    def scratch(self, plan: Plan) -> Iterator[Scratch]: ...

    def blocks(self, plan: Plan, sizes: Mapping[str, int]) -> int: ...

    def tiles(self, plan: Plan, sizes: Mapping[str, int]) -> Tiles | None: ...

    def arithmetic(self, spec: KernelSpec) -> Arithmetic: ...


def op_of(spec: KernelSpec) -> Op:
    """The op of a spec."""
    return cast(Op, spec.operation)


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
