"""Protocols that the language requires of a family and its op; `cutegen.family` and `cutegen.ops.op` document them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from cutegen import registry
from cutegen.expressions.tree import Compute, Place
from cutegen.language.context import Context
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Scalar, Schedule, Tensor
from cutegen.language.modes import Mode

Tensors = Mapping[str, Tensor]


class Op(Protocol):
    """One kind of computation, as far as the language needs to know it."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def called(self) -> tuple[str, ...]: ...

    @property
    def has_product(self) -> bool: ...

    @property
    def has_reductions(self) -> bool: ...

    @property
    def takes_segments(self) -> bool: ...

    def check_lengths(self, ctx: Context, modes: tuple[Mode, ...], tensors: tuple[Tensor, ...]) -> bool: ...

    @property
    def takes_blocks(self) -> bool: ...

    def check_blocks(self, ctx: Context, modes: tuple[Mode, ...], tensors: tuple[Tensor, ...]) -> bool: ...

    @property
    def has_lengths(self) -> bool: ...

    @property
    def reserved(self) -> frozenset[str]: ...

    @property
    def unmeasured(self) -> str | None: ...

    def check_places(self, ctx: Context, tensors: tuple[Tensor, ...]) -> bool: ...

    def check_compute(self, ctx: Context, compute: Compute, tensors: Tensors, scalars: tuple[Scalar, ...]) -> None: ...

    def refuse_product(self, ctx: Context, statement: int, place: Place) -> None: ...

    def modes_that_may_be_empty(self, compute: Compute, tensors: Tensors) -> tuple[str, ...]: ...

    def modes_that_follow(self, compute: Compute | None, tensors: Tensors) -> tuple[str, ...]: ...


class Family(Protocol):
    """A kernel skeleton."""

    @property
    def name(self) -> str: ...

    @property
    def op(self) -> Op: ...

    @property
    def schedule(self) -> type[Schedule]: ...

    @property
    def atoms(self) -> tuple[str, ...]: ...

    def check_schedule(self, ctx: Context, schedule: Any, tensors: Tensors, compute: Compute | None) -> None: ...


class FamilyOfCases(Protocol):
    """The reader of schedules that are lists of cases."""

    def read(
        self, ctx: Context, op: Op, tensors: Tensors, modes: tuple[str, ...], compute: Compute | None
    ) -> Schedule: ...


class FamilyOfChoices(Protocol):
    """The reader of all other schedules. It knows which families a schedule may belong to."""

    def read(
        self, ctx: Context, op: str, tensors: Tensors, compute: Compute | None
    ) -> tuple[Schedule, dict[str, tuple[Any, ...]]]: ...

    def families_meant(self, op: str, schedule: Any) -> tuple[Family, ...]: ...

    def with_known_atoms(self, data: Any) -> tuple[Any, tuple[Path, ...]]: ...


def op_named(name: str) -> Op:
    """The op of that name. Raises KeyError."""
    return cast(Op, registry.op_named(name))


def cases() -> FamilyOfCases:
    """The family of schedules of several cases."""
    return cast(FamilyOfCases, registry.family_of_cases())


def choices() -> FamilyOfChoices:
    """The family of schedules that may be of several families."""
    return cast(FamilyOfChoices, registry.family_of_choices())


def op_of(spec: KernelSpec) -> Op:
    """The op of a spec: the kind of computation that `op` names."""
    return cast(Op, spec.operation)


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
