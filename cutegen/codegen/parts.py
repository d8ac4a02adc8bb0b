"""What a family says of the text of its modules: a template with what it prints, and what is around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Constant(NamedTuple):
    """A constant at the top of a module."""

    name: str
    value: str
    comment: str
    path: str  # the key of the spec that it comes from, dotted


@dataclass(frozen=True)
class Limit:
    """Sizes that the kernel can be launched for."""

    path: str  # the key of the spec that makes it, dotted
    holds: str  # a condition on the modes, as `launch` checks it: names of modes and constants, + - * // % and brackets
    modes: tuple[str, ...]  # those that the condition and the lines name
    lines: tuple[str, ...]  # of `_check_all`, which raise ValueError where it does not hold


@dataclass(frozen=True)
class Workspace:
    """Global memory that each call makes anew, and that `launch` takes after the scalars."""

    path: str  # the key of the spec, dotted
    parameter: str  # of `launch`
    memory: str  # an expression of the host's arguments that makes it
    fakes: tuple[str, ...]  # lines that make a stand-in for the compiler, a variable of the parameter's name
    documentation: str  # a line for those who call the kernel


@dataclass(frozen=True)
class Workspaces:
    """All workspaces of a kernel."""

    path: str  # the key of the spec, dotted
    template: str  # functions of the host that `memory` calls, in the family's `templates`
    each: tuple[Workspace, ...]


@dataclass(frozen=True, kw_only=True)
class KernelParts:
    """What one module prints that others do not.

    `template` is a file of the family's `templates`. It has the kernel and `launch`, and includes `module/memory.j2`
    before `launch` and `module/refuse.j2` as its first statements; what it launches is `kernel_arguments`. It prints
    `plan` and `context`, besides what is there for all kernels: `kernel` (its name), `output` (the first), `O` (that
    one's name), `kernel_parameters`, `kernel_arguments` and `launch_parameters`.
    """

    template: str
    constants: tuple[Constant, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()  # of the kernel, with types, between its tensors and its scalars
    launched: Mapping[str, str] = field(default_factory=dict)  # what the kernel is launched with for a parameter, where
    # that is not a variable of the same name
    limits: tuple[Limit, ...] = ()
    workspaces: Workspaces | None = None
    uses_cpasync: bool = False  # whether the module imports `cpasync`
    without_elements: tuple[str, ...] = ()  # statements of the host before a launch: for tensors without elements,
    # whose strides torch may make up, and the compiled function refuses
