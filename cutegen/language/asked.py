"""What the language asks of a family of kernels and of its op. `cutegen.family` says what each answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from cutegen import registry
from cutegen.expressions.tree import Compute, Place
from cutegen.language.context import Context
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Scalar, Schedule, Tensor

Tensors = Mapping[str, Tensor]


class Op(Protocol):
    """What is computed."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def has_product(self) -> bool: ...

    @property
    def has_reductions(self) -> bool: ...

    @property
    def reserved(self) -> frozenset[str]: ...

    @property
    def unmeasured(self) -> str | None: ...

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
    """What reads a schedule that is a list of cases."""

    def read(
        self, ctx: Context, op: Op, tensors: Tensors, modes: tuple[str, ...], compute: Compute | None
    ) -> Schedule: ...


class FamilyOfChoices(Protocol):
    """What reads any other schedule, and knows which families one may be of."""

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
    """What a spec computes."""
    return cast(Op, spec.operation)


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
