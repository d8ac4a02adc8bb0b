"""The scans of a row kernel, as text: what makes each of a thread's values one of all values of the row up to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cutegen.codegen.formatting import call
from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Scan
from cutegen.families.common.pointwise_text import width_name
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.printing import ElementPrinter, identity
from cutegen.families.rowwise.walks import Named, function_of_scan


@dataclass(frozen=True)
class ScanFunction:
    """A function of the module that scans the values of a row."""

    name: str
    what: str
    type: str
    start: str  # what changes nothing that it is combined with
    dtype: Dtype
    function: str

    def both(self, x: str, y: str) -> str:
        """The text of two results as one."""
        return f"{x} + {y}" if self.function == "sum" else f"{x} * {y}"


@dataclass(frozen=True)
class ScanText:
    """One scan of a walk: its statements, and the variable that carries it from one piece of a row to the next."""

    lines: list[str]
    carried: list[tuple[str, str]]  # that variable and what it begins with; none where a row is held whole


def function_of(node: Scan) -> ScanFunction:
    """The function that a scan calls."""
    function, dtype = function_of_scan(node), node.dtype
    assert dtype is not None
    own = f"cutlass.{dtype.cutlass}"
    what = "sum" if function == "sum" else "product"
    return ScanFunction(
        f"scan_{function}_{dtype.value}", what, own, f"{own}({identity(function, dtype)})", dtype, function
    )


def functions(plan: RowwisePlan) -> list[ScanFunction]:
    """The functions that the scans of a plan call, each once."""
    found = (function_of(node) for node in plan.program.scans)
    return list({one.name: one for one in found}.values())


def parameters(plan: RowwisePlan, function: ScanFunction) -> list[str]:
    """Those of such a function."""
    found = ["values: cute.Tensor", "vector: cutlass.Constexpr[int]"]
    if plan.warps_per_row > 1:
        found.append("partials: cute.Tensor")
        found += ["in_warp: cutlass.Constexpr[bool]"] if plan.fewer_threads else []
    return [*found, f"before: {function.type}"]


def scan_text(
    plan: RowwisePlan, named: Named, variable: str, printer: ElementPrinter, partials: str, free: Callable[[str], str]
) -> ScanText:
    """A scan of the values that a thread has, whose result `variable` holds; warps leave their parts in `partials`."""
    node = named.value
    assert isinstance(node, Scan)
    function, registers = function_of(node), free(f"{variable}_values")
    x = printer.spread(node.x, printer.print(node.x))
    lines = printer.taken_statements()
    lines += [
        f"{registers} = cute.make_rmem_tensor(({plan.values_text},), {function.type})",
        f"{registers}.store({x})",
    ]
    carried = free(f"{variable}_before") if plan.walked else ""
    arguments = [registers, width_name(plan.flat)]
    if plan.warps_per_row > 1:
        arguments.append(partials)
        arguments += ["False" if plan.walked else "in_warp"] if plan.fewer_threads else []
    arguments.append(carried or function.start)
    target = f"{carried} = " if carried else ""
    lines += call(f"{target}{function.name}(", arguments, ")", 0, printer.width).split("\n")
    return ScanText([*lines, f"{variable} = {registers}.load()"], [(carried, function.start)] if carried else [])


def partials_of(scans: Sequence[Scan], names: Sequence[str]) -> list[tuple[str, str]]:
    """The tensors in shared memory for what the warps of a row have of each scan: variables and types."""
    return [(name, function_of(node).type) for node, name in zip(scans, names, strict=True)]
