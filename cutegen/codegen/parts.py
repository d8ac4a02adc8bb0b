"""The text that a family contributes to a module: a template with its context, constants, limits, workspaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, NamedTuple

from cutegen.codegen import formatting
from cutegen.codegen.formatting import Item
from cutegen.dtypes import Dtype
from cutegen.language.kinds import MAX_INT
from cutegen.language.model import KernelSpec
from cutegen.planning.row_copies import RowCopies

_CASE = "case"


def case_parameter(spec: KernelSpec) -> str:
    """The parameter of functions that several cases share, which has the constants in which those differ. No scalar of
    the spec has its name.
    """
    scalars = {scalar.name for scalar in spec.scalars}
    return next(name for name in chain([_CASE], (f"{_CASE}_{n}" for n in count(1))) if name not in scalars)


class Constant(NamedTuple):
    """A constant at the top of a module."""

    name: str
    value: str
    comment: str
    path: str  # the key of the spec that it comes from, dotted


@dataclass(frozen=True)
class Limit:
    """A condition on the number of tiles that a call must meet for the kernel to be launched."""

    path: str  # the key of the spec that makes it, dotted
    tiles: tuple[str, ...]  # factors of their number: expressions of `sizes["M"]` and its like and of constants, with
    # + - * // only, since the host and `launch` both evaluate them
    wanted: str  # Python text of a string that says what is expected
    holds: str  # a comparison of `tiles`
    unless: tuple[tuple[str, ...], ...] = ()  # comparisons of `sizes["M"]` and its like, each in brackets; all of some
    # that stand together lift the limit

    def kept(self, indent: int) -> list[str]:
        """The statements that find out whether a call keeps it or is none of those that must, with as many terms a line
        as it has room for.
        """
        lines: list[str] = []
        for terms in self.unless:
            term = terms[0] if len(terms) == 1 else f"({' & '.join(terms)})"
            line = f"{lines[-1] if lines else f'kept = ({self.holds})'} | {term}"
            if indent + formatting.width_of(line) <= formatting.WIDTH:
                lines[-1:] = [line]
            else:
                lines = lines or [f"kept = {self.holds}"]
                lines.append(formatting.chain("kept = kept | ", terms, " & ", indent))
        return lines


@dataclass(frozen=True)
class WorkspaceMode:
    """The size of a mode of a workspace, in elements: a number, or that of a mode of the spec, or of several as one by
    `joined`, at least 1 and in whole units, where a unit is more than one element. A size that is not `within` these
    bounds has another kernel, and counts as 0.
    """

    size: int | str
    unit: int = 1
    within: tuple[int, int] = (0, MAX_INT)

    def rounded(self, size: int) -> int:
        """The elements where the mode has this size."""
        counted = size if self.within[0] <= size <= self.within[1] else 0
        return max(1, -(-counted // self.unit)) * self.unit if self.unit > 1 else counted


@dataclass(frozen=True)
class Workspace:
    """Global memory that each call makes anew, and that `launch` takes after the scalars."""

    path: str  # the key of the spec, dotted
    parameter: str  # of `launch`
    memory: str  # an expression of the host's arguments that makes it
    fake: tuple[
        Item, ...
    ]  # arguments of `make_fake_tensor` for a stand-in for the compiler, with the symbolic or fixed
    # size of each mode in `sizes`
    documentation: str  # a line for those who call the kernel
    dtype: Dtype
    modes: tuple[WorkspaceMode, ...]
    major: int  # the place of the contiguous mode among these


@dataclass(frozen=True)
class Workspaces:
    """All workspaces of a kernel."""

    path: str  # the key of the spec, dotted
    template: str  # functions of the host that `memory` calls, in the family's `templates`
    each: tuple[Workspace, ...]


class Padding(NamedTuple):
    """How a kernel takes a tensor of any alignment: calls copy it to or from memory like this."""

    align: int  # bytes: of its address and its rows, and of what is written of a row of an output
    path: str  # the key of the spec, dotted


@dataclass(frozen=True)
class Chooser:
    """How the host chooses among kernels of the module, for the sizes of a call, and tells `launch`, after workspaces.

    `template` is a file of the family's `templates` that has the function `_cheapest`, of some sizes; it prints
    `context`, and so does `header`, which has the same function in C++. `sizes` are where the host finds those: the
    name of an argument, and the number of a mode in its shape; with `multiprocessors`, those of the GPU come last,
    which `_multiprocessors` knows by its index. `targets` are those that have these kernels; empty where all have.
    """

    path: str  # the key of the spec, dotted
    parameter: str  # of `launch`: the number of the kernel
    contained: str  # another one: the numbers of those that it is compiled with
    sizes: tuple[tuple[str, int], ...]
    multiprocessors: bool
    targets: tuple[str, ...]
    template: str
    header: str
    context: Mapping[str, Any]

    @property
    def chosen(self) -> str:
        """The number of the kernel, as an expression of the host's arguments."""
        given = [f"{argument}.shape[{place}]" for argument, place in self.sizes]
        given += [f"_multiprocessors({self.sizes[0][0]}.get_device())"] * self.multiprocessors
        return f"_cheapest({', '.join(given)})"


@dataclass(frozen=True, kw_only=True)
class KernelParts:
    """The parts of a module that are specific to its kernel.

    `template` is a file of the family's `templates`. It has the kernel and `launch`, and includes `module/refuse.j2` as
    the first statements of `launch`. That passes `kernel_arguments` to the kernel, and launches nothing for outputs
    without elements. The template prints `plan` and `context`, besides the names that all kernels have: `kernel` (its
    name), `output` (the first), `O` (that one's name), `kernel_parameters`, `kernel_arguments` and `launch_parameters`.
    """

    template: str
    constants: tuple[Constant, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()  # of the kernel, with types, between its tensors and its scalars
    leading: tuple[str, ...] = ()  # parameters of the kernel for tensors that stand before the others
    launched: Mapping[str, str] = field(default_factory=dict)  # what the kernel is launched with for a parameter, where
    # that is not a variable of the same name
    narrow: Mapping[str, str] = field(default_factory=dict)  # the same of its other launch, if it has one, for what its
    # accesses do not fit
    words: Mapping[str, str] = field(default_factory=dict)  # the same of the launch between the two, if there is one
    largest: Mapping[str, str] = field(default_factory=dict)  # text of the largest size, by mode, that the grid counts
    limits: tuple[Limit, ...] = ()
    workspaces: Workspaces | None = None
    padded: Mapping[str, Padding] = field(default_factory=dict)  # by the name of the tensor
    row_copies: RowCopies | None = None  # the kernel that copies what is padded
    documentation: tuple[tuple[str, str], ...] = ()  # lines for its callers, each with its key in the spec
    nvgpu: tuple[str, ...] = ()  # names that the module imports from `cutlass.cute.nvgpu`, in the order of its linter
    nvgpu_path: str = "schedule.copies"  # the key of the spec that asks for these
    chosen_by_target: tuple[str, str] | None = (
        None  # a parameter of `launch` with its type, and what it gets when it is
    )
    # compiled, if what is launched depends on the target
    chooser: Chooser | None = None  # what chooses among the kernels of the module for the sizes of a call
    passed: Mapping[str, str] = field(default_factory=dict)  # parameters that `launch` has besides, with types, in a
    # module that has several launches, and the constant that each of them gets: `case_parameter` the case's own
    multiprocessors: int | None = None  # where `launch` has a parameter of that name: those of the GPU that is assumed
    # where the one of a call is not known
    refuses: bool = True  # whether `launch` checks its arguments; not where another one calls it that does
