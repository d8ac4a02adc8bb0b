"""The op `rowwise`: statements on elements of one coordinate, reductions along the mode of a row, and over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from cutegen.expressions.places import joined
from cutegen.expressions.selecting import kept_modes
from cutegen.expressions.spans import span, spans_of
from cutegen.expressions.tree import Assignment, Compute, Reduce, along, reductions
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.language.tensor import with_elements
from cutegen.ops.modes import check_fits, has_names
from cutegen.ops.op import ELEMENTS, Op
from cutegen.ops.row_modes import OVER_ROWS, chains, is_used, leading, over_rows, row_modes
from cutegen.ops.row_shapes import check_row
from cutegen.ops.selections import check_selections
from cutegen.ops.taking import check_taken

if TYPE_CHECKING:
    from cutegen.codegen.reference import Reference
    from cutegen.planning.plan import Plan

ROWS = (1024, 8192, 65536)  # elements of a row, where a kernel is measured and nothing else is said


class Rowwise(Op):
    """Statements whose reductions go along one mode, the row's; tensors broadcast along the modes that they lack.

    One tensor at least has all modes. An output has the modes of what is assigned to it, or more; or it has the row's
    mode alone, and is all that is reduced over the rows.
    """

    name = "rowwise"
    called = ("reduction", "reduce", "row", "rows")
    summary = "reductions along a row, `sum(x, N)`, `mean`, `max`, `argmax` and others, with statements around them"
    has_reductions = True
    differentiable = True
    reserved = frozenset(
        (
            *(
                "BLOCKS",
                "CLUSTER_SIZE",
                "THREADS_PER_ROW",
                "has_row",
                "in_row",
                "in_row_values",
                "largest",
                "of_thread",
                "piece",
            ),
            *("pieces", "row_count", "row_tile", "row_tiles", "smallest"),
            *(
                "MOST_THREADS",
                "WARPS",
                "WORD",
                "FEWER_VALUES",
                "NARROW_VALUES",
                "OWN_VALUES",
                "clear_values",
                "load_columns",
                "load_each",
                "load_rows",
                "registers_of",
                "row_values",
            ),
            *("fixed_tile", "keep_columns", "keep_row", "kept_tile", "loaded", "neighbours", "next_stage", "stage"),
            "values_of",
            *(f"scale_{dtype}" for dtype in ("f32", "f64")),
            *(f"scan_{function}_{dtype}" for function in ("sum", "prod") for dtype in ("f32", "f64", "i32", "i64")),
            *(
                f"{what}{bits}"
                for what in ("keys_f32", "keys_i32", "key_value_f32", "key_value_i32", "key_place")
                for bits in ("", "_13", "_16", "_20", "_21")
            ),
            *(
                f"row_{function}_{dtype}"
                for function in ("sum", "prod", "max", "min")
                for dtype in ("f32", "f64", "i32")
            ),
        )
    )
    starter = """\
summary: Softmax of every row.
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - e = exp(X - max(X, N))
  - Y = e * (1 / sum(e, N))
targets: [sm_80, sm_90a]
"""

    def check_places(self, ctx: Context, tensors: tuple[Tensor, ...]) -> bool:
        return check_taken(ctx, tensors)

    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        if not check_selections(ctx, compute, tensors):
            return
        lead, kept = leading(tensors.values(), compute), kept_modes(compute)
        if lead is None:
            widest = max(tensors.values(), key=lambda t: len({*t.modes} - {*kept}))
            elements = with_elements(tuple(tensors.values()))
            lacks = next((m for t in elements for m in t.modes if m not in (*widest.shape, *kept)), None)
            if lacks is None:
                has_names(ctx, widest)
                return  # or it has a mode twice, which is said where shapes are read
            message = f"no tensor has all modes: `{widest.name}` lacks `{lacks}`"
            help = "give one tensor all modes; the others broadcast along those that they lack"
            if any(tensor.at for tensor in tensors.values()):
                help = "give one tensor without `at` all modes, such as an output"
            ctx.say("CG129", message, "tensors", widest.name, "shape", help=help)
            return
        written, tensors = tensors, {tensor.name: tensor for tensor in with_elements(tuple(tensors.values()))}
        for tensor in tensors.values():
            check_fits(ctx, tensor, lead, written, kept)
        for number, statement in enumerate(compute.statements):
            if statement.matmul:
                self.refuse_product(ctx, number, statement.matmul.place)
                return
        spans = spans_of(compute, {t.name: t.modes for t in tensors.values()})
        for number, statement in enumerate(compute.statements):
            for node in along(statement.value):
                if node.mode not in span(node.x, spans):
                    message = f"the argument of {node.function} is constant along {node.mode}"
                    what = "reduce" if isinstance(node, Reduce) else "write"
                    help = f"{what} an expression that varies along {node.mode}"
                    say(ctx, "CG127", message, number, node.place, help)
                    return
            if not _check_target(ctx, number, statement, tensors, span(statement.value, spans)):
                return
        _check_reductions(ctx, compute, tensors, lead)
        _check_taken_rows(ctx, compute, written)

    def lead(self, spec: KernelSpec) -> Tensor:
        """The first tensor that has all modes."""
        found = leading(spec.by_view.tensors, spec.compute)
        assert found is not None
        return found

    def contracted(self, spec: KernelSpec) -> tuple[str, ...]:
        """None: what is zero adds nothing to a product's sums, and anything to a row's."""
        return ()

    def summed(self, spec: KernelSpec) -> tuple[str, ...]:
        every = dict.fromkeys(one.mode for value in spec.compute.values for one in along(value))
        return tuple(mode for mode in every if mode not in kept_modes(spec.compute))

    def axes(self, spec: KernelSpec) -> tuple[str, ...]:
        return (*spec.lead.shape, *kept_modes(spec.compute))

    def reduced_together(self, spec: KernelSpec) -> tuple[str, ...]:
        return row_modes(spec.compute, spec.by_view.tensors)

    def modes_that_may_be_empty(self, compute: Compute, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
        extremes = (*_of_extremes(compute), *kept_modes(compute))
        reduced = dict.fromkeys(one.mode for value in compute.values for one in along(value))
        return tuple(mode for mode in reduced if mode not in extremes)

    def without_reference(self, spec: KernelSpec) -> tuple[str, ...]:
        """Modes of maxima and minima: torch rejects empty reductions of these."""
        return _of_extremes(spec.compute)

    def reference(self, plan: Plan) -> Reference:
        from cutegen.ops.reference import meant, reference_of

        return reference_of(plan.spec, meant(plan.spec))

    def eager(self, plan: Plan) -> Reference:
        from cutegen.ops.reference import meant, reference_of

        return reference_of(plan.spec, meant(plan.spec), stable=False)

    def bench_shapes(self, spec: KernelSpec) -> Sequence[Mapping[str, int]]:
        """Rows of several lengths, as many of each as come to about `ELEMENTS`; other modes than two are 1."""
        row = row_modes(spec.compute, spec.by_view.tensors)
        others = [mode for mode in spec.modes if mode not in row and mode not in spec.static]
        free = [mode for mode in row if mode not in spec.static]
        inside = prod(spec.static[mode] for mode in row if mode in spec.static)
        found = []
        for length in ROWS if free else (inside,):
            fixed = prod(size for mode, size in spec.static.items() if mode not in row)
            own = max(1, length // inside)
            rows = max(1, ELEMENTS // (own * inside * fixed))
            sizes = {**dict.fromkeys(spec.modes, 1), **dict.fromkeys(others[-1:], rows)}
            found.append({**sizes, **{mode: spec.static.get(mode, 1) for mode in row}, **dict.fromkeys(free[-1:], own)})
        return found


def _check_taken_rows(ctx: Context, compute: Compute, tensors: Mapping[str, Tensor]) -> None:
    """Rows are taken whole, each at one place, by kernels whose blocks do not walk them."""
    row = row_modes(compute, tensors.values())
    for tensor in (tensor for tensor in tensors.values() if tensor.at):
        path = ("tensors", tensor.name, "at")
        along = next((name for _, name in tensor.at if {*tensors[name].modes} & {*row}), None)
        if along is not None:
            message = (
                f"`{along}` has a place for each element of a row, along {', '.join(row)}, and rows are taken whole"
            )
            ctx.say("CG143", message, *path, key=True, help="gather along rows with `op: elementwise`, before this")
        elif any(over_rows(statement, (*row, *kept_modes(compute))) for statement in compute.statements):
            message = f"`{tensor.name}` has `at`, and `compute` reduces over the rows"
            ctx.say("CG143", message, *path, key=True, help="gather or scatter in a separate kernel")


def _check_reductions(ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], lead: Tensor) -> None:
    """Reductions go along the row, but for those that make an output of one element for each column."""
    found = [(i, one) for i, statement in enumerate(compute.statements) for one in along(statement.value)]
    if not found:
        help = "write `op: elementwise`"
        say(ctx, "CG127", "a rowwise kernel reduces along a mode", 0, compute.statements[0].value.place, help)
        return
    row, kept = row_modes(compute, tensors.values()), kept_modes(compute)
    if len(row) > 1 and not check_row(ctx, compute, tensors, row):
        return
    name = ", ".join(row)
    other = next(((i, one) for i, one in found if not isinstance(one, Reduce) and one.mode not in row), None)
    if other is not None:
        number, node = other
        message = f"`{name}` is the mode of the rows, and {node.function} goes along `{node.mode}`"
        say(ctx, "CG127", message, number, node.place, f"write the {node.function} as a kernel of its own")
        return
    for number, statement in enumerate(compute.statements):
        last = over_rows(statement, (*row, *kept))
        for reduction in chains(statement.value):
            if (
                reduction.mode not in kept
                and reduction not in last
                and {one.mode for one in reduction.nested} != {*row}
            ):
                _refuse_other(ctx, number, statement, reduction, row)
                return
        others = {mode for mode in lead.shape if mode not in row}
        if not last:
            _check_rows_apart(ctx, number, statement, tensors, others)
            continue
        place = statement.value.place
        if statement.target not in tensors or is_used(statement, compute):
            message = f"`{statement.target}` is reduced over the rows, and used again"
            say(ctx, "CG127", message, number, place, "assign it to an output, and use that in a kernel of its own")
        elif len(functions := {reduction.function for reduction in last}) > 1:
            message = f"the rows are reduced by {' and by '.join(sorted(functions))}"
            say(ctx, "CG127", message, number, place, "reduce them along each mode by the same function")
        elif {reduction.mode for reduction in last} != others or {*tensors[statement.target].modes} != {*row}:
            each = name if len(row) == 1 else f"place of {joined(row)}"
            message = f"a reduction over the rows has one element for each {each}, and covers all other modes"
            wanted = statement.value
            text = f"sum over {' and '.join(sorted(others))}, into an output of `shape: [{name}]`"
            say(ctx, "CG127", message, number, wanted.place, text)


def _refuse_other(ctx: Context, number: int, statement: Assignment, reduction: Reduce, row: tuple[str, ...]) -> None:
    """Says that a reduction goes neither along the row nor over the rows, and what would work."""
    modes = [one.mode for one in reduction.nested]
    name, along = joined(row), "`, `".join(modes)
    message = f"`{name}` is the mode of the rows, and {reduction.function} goes along `{along}`"
    help = f"a reduction over the rows must be an output with one element for each {name}, and cannot be used again"
    apart = [mode for mode in modes if mode not in row]
    if len(row) > 1:
        message = f"a row goes along {' and '.join(row)}, and {reduction.function} along {' and '.join(modes)}"
        help = f"all reductions of a kernel go along the same modes, as `{reduction.function}(x, {', '.join(row)})`"
        if apart and len(apart) < len(modes):
            inside = ", ".join(mode for mode in modes if mode in row)
            help = (
                f"two kernels do it: one reduces along {inside} to an output with the other modes, "
                f"and one reduces that along {', '.join(apart)}"
            )
    elif len(modes) > 1 and row[0] in modes:
        help = f"the first reduction makes `{name}` a row: write all of them along {' and '.join(modes)}"
    elif reduction.function not in OVER_ROWS:
        several = f"{', '.join(OVER_ROWS[:-1])} and {OVER_ROWS[-1]}"
        help = f"over the rows there are {several}; write the {reduction.function} as a kernel of its own"
    say(ctx, "CG127", message, number, reduction.place, help)


def _check_rows_apart(
    ctx: Context, number: int, statement: Assignment, tensors: Mapping[str, Tensor], others: set[str]
) -> None:
    """Every row has elements of its own of each output."""
    if statement.target in tensors and (lacks := others - set(tensors[statement.target].shape)):
        mode = min(lacks)
        message = f"`{statement.target}` lacks {mode}, and every row along that would write it"
        help = f"give {statement.target} the mode {mode}, or reduce over all rows"
        say(ctx, "CG129", message, number, statement.target_place, help)


def _of_extremes(compute: Compute) -> tuple[str, ...]:
    """The modes along which the largest or smallest, or its place, is asked for."""
    found = (r for value in compute.values for r in reductions(value))
    return tuple(dict.fromkeys(r.mode for r in found if r.function in ("max", "min", "argmax", "argmin")))


def _check_target(
    ctx: Context, number: int, statement: Assignment, tensors: Mapping[str, Tensor], modes: frozenset[str]
) -> bool:
    """Whether a tensor that is assigned to has the modes of what it is assigned; where not, that is said."""
    if statement.target not in tensors:
        return True
    tensor = tensors[statement.target]
    if not tensor.shape:
        message = f"`{tensor.name}` has no modes: every row would write it, and the rows are not summed to one value"
        help = "write a value for each row, such as `shape: [M]`, and reduce those in torch or in a second kernel"
        ctx.say("CG129", message, "tensors", tensor.name, "shape", help=help)
        return False
    for mode in modes - set(tensor.shape):
        message = f"`{tensor.name}` is [{', '.join(tensor.shape)}], and the value assigned to it varies along {mode}"
        whole = next((t.shape for t in tensors.values() if {*tensor.shape, mode} <= set(t.shape)), None)
        whole = (*(m for m in tensor.shape if m in modes), mode) if whole is None else whole
        wanted = ", ".join(m for m in whole if m in modes or m in tensor.shape)
        help = f"reduce it along {mode}, or write `shape: [{wanted}]` for {tensor.name}"
        say(ctx, "CG129", message, number, statement.value.place, help)
        return False
    return True


ROWWISE = Rowwise()
