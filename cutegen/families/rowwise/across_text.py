"""How the threads of a row put together what each has of its reductions, as text."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from cutegen.atoms.targets import WARP
from cutegen.codegen.formatting import WIDTH
from cutegen.dtypes import Dtype
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.printing import combined, identity
from cutegen.families.rowwise.trees import tree_of
from cutegen.families.rowwise.walks import Reduction, counts_of

LEAST_F32, LEAST_F64 = "-3.4028234663852886e38", "-1.7976931348623157e308"  # finite numbers


@dataclass(frozen=True)
class ValueText:
    """One of the values that threads put together."""

    x: str  # what a thread has
    other: str  # what another one has
    both: str  # the variable of both as one
    text: str  # how it is made
    partials: str  # the tensor in shared memory for what warps have
    type: str
    bytes: int
    bits: str  # `x` as an integer of as many bytes
    start: str  # what changes nothing that it is put together with


@dataclass(frozen=True)
class AcrossText:
    """A function that makes values of a row of those that its threads have."""

    name: str
    what: str
    nan: str  # what becomes of a NaN
    values: tuple[ValueText, ...]
    shared: bool  # whether warps exchange what they have in shared memory
    where: str  # how far apart the threads are, in words
    squares: bool  # whether some are squares around a mean, which takes more words than a line has

    @property
    def documentation(self) -> list[str]:
        """The lines of its docstring."""
        text = f'"""The {self.what} over all threads of a row{self.where.format(nan=self.nan)}."""'
        return textwrap.wrap(text, WIDTH - 4, break_on_hyphens=False) if self.squares else [text]

    @property
    def parameters(self) -> list[str]:
        own = [f"{value.x}: {value.type}" for value in self.values]
        return [*own, *(f"{value.partials}: cute.Tensor" for value in self.values if self.shared)]

    @property
    def joined(self) -> list[str]:
        """The statements that make both of what a thread has and of what another one has."""
        if len(self.values) == 1:
            return [f"x = {self.values[0].text}"]
        made = [f"{value.both} = {value.text}" for value in self.values]
        return [*made, f"{self.result} = {', '.join(value.both for value in self.values)}"]

    @property
    def result(self) -> str:
        return ", ".join(value.x for value in self.values)

    @property
    def bytes(self) -> int:
        """Of all values together."""
        return sum(value.bytes for value in self.values)


def scale_of(one: Reduction) -> str:
    """The name of the function that says by how much a sum of exponentials changes where a larger value turned up."""
    return f"scale_{one.dtype.value}"


def apart_of(one: Reduction) -> str:
    """The name of the function that says what squares around the means of two parts are short of those around both."""
    return f"apart_{one.dtype.value}"


def name_of(met: tuple[Reduction, ...]) -> str:
    """The name of the function that reduces over a row's threads what belongs to one group."""
    largest = [one.name for one in met if one.function == "max"]
    counts = counts_of(met)

    def word(one: Reduction) -> str:
        if one.around is not None:
            return "squares"
        if one.name in counts:
            return "count"
        if one.above is None:
            return one.function
        return "sum_exp" + str(largest.index(one.above)) * (len(largest) > 1)

    return "row_" + "_and_".join(f"{word(one)}_{one.dtype.value}" for one in met)


def across_of(plan: RowwisePlan, met: tuple[Reduction, ...]) -> AcrossText:
    """The function that reduces over a row's threads what belongs to one group."""
    words = {"sum": "sum", "prod": "product", "max": "largest", "min": "smallest"}
    numbers = ["" if len(met) == 1 else str(i) for i in range(len(met))]
    above = {one.name: number for one, number in zip(met, numbers, strict=True)}
    whats, values = [], []
    for one, number in zip(met, numbers, strict=True):
        x, other, both = f"x{number}", f"other{number}", f"both{number}"
        text = combined(one, x, other)
        what = f"{words[one.function]} of {x}"
        if one.name in counts_of(met):
            what = f"count {x} of values"
        if one.above is not None:
            own = above[one.above]
            scaled = (f"{y} * {scale_of(one)}({z}{own}, both{own})" for y, z in ((x, "x"), (other, "other")))
            text = " + ".join(scaled)
        if one.around is not None:
            parts = (f"{y}{above[name]}" for y in ("x", "other") for name in one.around)
            text = f"{x} + {other} + {apart_of(one)}({', '.join(parts)})"
            what = f"squares {x} around their mean"
        own_type = f"cutlass.{one.dtype.cutlass}"
        size = "Int64" if one.dtype.bytes == 8 else "Int32"
        bits = x if one.dtype.is_integer else f"{x}.bitcast(cutlass.{size})"
        start = f"{own_type}({identity(one.function, one.dtype)})"
        partials = f"partials{number}"
        values.append(ValueText(x, other, both, text, partials, own_type, one.dtype.bytes, bits, start))
        whats.append(what)
    extreme = any(one.function in ("max", "min") and one.dtype.is_float for one in met)
    nan, shared = ", NaN if one is" if extreme else "", plan.warps_per_row * plan.cluster > 1
    squares = any(one.around is not None for one in met)
    what = " and the ".join([", the ".join(whats[:-1]), whats[-1]] if squares else whats)
    return AcrossText(name_of(met), what, nan, tuple(values), shared, _where(plan), squares)


def _where(plan: RowwisePlan) -> str:
    """Which threads share a row, in words, with a place for what becomes of a NaN."""
    if plan.fewer_threads and plan.warps_per_row > 1:
        return "{nan}: lanes of one warp, or whole warps"
    if plan.warps_per_row * plan.cluster == 1:
        return ", lanes of one warp{nan}"
    return "{nan}: in each warp, then of " + ("all warps of a cluster" if plan.cluster > 1 else "its warps")


def results_of_cluster(plan: RowwisePlan) -> dict[str, Any]:
    """How the warps of a cluster read what all of them have sent: `first_result` is the place of the first result that
    a lane reads and `more_results`, where there may be more than lanes, counts the rounds in which it reads them. Then
    lanes exchange what they have in `result_steps`. `sent` is how many bytes come to a block, by those of a result.
    """
    tree, rows = tree_of(plan), plan.rows
    if not plan.any_cluster:
        return {
            "sent": lambda size: tree.results * rows * size,
            "first_result": f"lane % {tree.results}" if tree.results < WARP else "lane",
            "more_results": tree.rounds if tree.rounds > 1 else "",
            "result_steps": tree.result_steps,
        }
    count, known = plan.results_text, "CLUSTER_SIZE"
    results = f"({count})" if " " in count else count
    return {
        "sent": lambda size: f"{plan.warps_per_row * rows * size} * {known}",
        "first_result": f"lane % {results}",
        "more_results": f"({count} + {WARP - 1}) // {WARP}",
        "result_steps": f"min({results}.bit_length() - 1, {WARP.bit_length() - 1})",
    }


def scales(plan: RowwisePlan) -> list[tuple[str, str]]:
    """The functions by which sums of exponentials change where a larger value turned up: names and types."""
    found = [one for one in plan.program.reductions if one.above is not None]
    return list({scale_of(one): (scale_of(one), f"cutlass.{one.dtype.cutlass}") for one in found}.values())


def aparts(plan: RowwisePlan) -> list[tuple[str, str, str]]:
    """The functions that say what squares around two means are short of those around one: names, types, and the
    least finite number where the hardware has a reciprocal and a maximum that drops NaN, as of f32.
    """
    found = {one.dtype: apart_of(one) for one in plan.program.reductions if one.around is not None}
    return [(name, f"cutlass.{t.cutlass}", LEAST_F32 if t is Dtype.f32 else "") for t, name in found.items()]


def extremes(plan: RowwisePlan) -> list[tuple[str, str]]:
    """The functions that find the largest or smallest of a thread's integers, and of two of them."""
    used = {r.function for r in plan.program.reductions if not r.dtype.is_float}
    names = {"max": "largest", "min": "smallest"}
    return [(name, f"cutlass.{function}") for function, name in names.items() if function in used]
