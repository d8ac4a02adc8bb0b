"""The functions of an expression, under CuTeDSL's names: each is registered where it is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tensor_layouts import ComposedLayout, Layout

from cutegen.algebra.arguments import Kind
from cutegen.algebra.steps import Steps
from cutegen.algebra.values import Value

F = TypeVar("F", bound=Callable[..., Value])


@dataclass(frozen=True)
class Function:
    """`operation` takes one argument for each parameter, None for one that was left out, and the steps if it has any.

    With `inside`, a swizzled layout as first argument keeps its swizzle, and `operation` gets the layout inside: it
    works on coordinates only, which a swizzle does not see.
    """

    name: str
    group: str
    parameters: tuple[tuple[str, Kind], ...]
    operation: Callable[..., Value]
    has_steps: bool
    inside: bool

    @property
    def summary(self) -> str:
        """The first line of the operation's docstring, which says what the function computes."""
        return (self.operation.__doc__ or "").partition("\n")[0].rstrip(".")

    @property
    def usage(self) -> str:
        """How it is called: `coalesce(input, [target_profile])`."""
        parts = [f"[{name}]" if kind.optional else name for name, kind in self.parameters]
        return f"{self.name}({', '.join(parts)})"

    def run(self, arguments: list[Value], steps: Steps) -> Value:
        first = arguments[0]
        swizzled = self.inside and isinstance(first, ComposedLayout)
        given = [first.inner, *arguments[1:]] if swizzled else arguments
        result = self.operation(*given, steps) if self.has_steps else self.operation(*given)
        if swizzled and isinstance(result, Layout):
            return ComposedLayout(first.outer, result, offset=first.offset)
        return result


FUNCTIONS: dict[str, Function] = {}


def function(group: str, *, name: str | None = None, inside: bool = False, **parameters: Kind) -> Callable[[F], F]:
    """Registers a function with its parameters, under its own name or `name`."""

    def register(operation: F) -> F:
        called = name or operation.__name__
        code = operation.__code__
        has_steps = "steps" in code.co_varnames[: code.co_argcount]
        FUNCTIONS[called] = Function(called, group, tuple(parameters.items()), operation, has_steps, inside)
        return operation

    return register


# What users of CuTe's C++, of pycute and of tensor_layouts call the same
OTHER_NAMES = {
    "compose": "composition",
    "layout": "make_layout",
    "inverse": "right_inverse",
    "mode": "get",
    "group": "group_modes",
    "slice": "slice_",
    "upcast": "recast_layout",
    "downcast": "recast_layout",
    "tile": "zipped_divide",
    "crd2offset": "crd2idx",
    "shape": "L.shape",
    "stride": "L.stride",
}
