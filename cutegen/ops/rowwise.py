"""The op `rowwise`: statements on elements of one coordinate, and reductions along the mode of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from cutegen.expressions.spans import span, spans_of
from cutegen.expressions.tree import Assignment, Compute, reductions
from cutegen.language.computing import check_fits, say
from cutegen.language.context import Context
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.ops.op import ELEMENTS, Op

if TYPE_CHECKING:
    from cutegen.ops.reference import Reference
    from cutegen.planning.plan import Plan

ROWS = (1024, 8192, 65536)  # elements of a row, where a kernel is measured and nothing else is said


class Rowwise(Op):
    """Statements whose reductions go along one mode, the row's; tensors broadcast along the modes that they lack.

    One tensor at least has all modes. An output has the modes of what is assigned to it, or more.
    """

    name = "rowwise"
    summary = "reductions along a row, `sum(x, N)`, `mean`, `max`, `min`, and what is made of them"
    has_reductions = True
    differentiable = True
    reserved = frozenset(
        ("THREADS_PER_ROW", "has_row", "in_row", "in_row_values", "largest", "of_thread", "piece", "pieces", "smallest")
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

    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        lead = leading(tensors.values())
        if lead is None:
            widest = max(tensors.values(), key=lambda t: len(t.shape))
            lacks = next(m for t in tensors.values() for m in t.shape if m not in widest.shape)
            message = f"no tensor has all modes: `{widest.name}` lacks `{lacks}`"
            help = "give one tensor all modes; the others broadcast along those that they lack"
            ctx.say("CG129", message, "tensors", widest.name, "shape", help=help)
            return
        for tensor in tensors.values():
            check_fits(ctx, tensor, lead)
        spans = spans_of(compute, {t.name: t.shape for t in tensors.values()})
        for number, statement in enumerate(compute.statements):
            for reduction in reductions(statement.value):
                if reduction.mode not in span(reduction.x, spans):
                    message = f"what {reduction.function} goes over is the same along all of {reduction.mode}"
                    say(ctx, "CG127", message, number, reduction.place, f"reduce what has the mode {reduction.mode}")
                    return
            _check_target(ctx, number, statement, tensors, span(statement.value, spans))
        self._check_rows(ctx, compute, lead)

    def _check_rows(self, ctx: Context, compute: Compute, lead: Tensor) -> None:
        """All reductions go along one mode, which is contiguous in memory."""
        found = [(i, r) for i, statement in enumerate(compute.statements) for r in reductions(statement.value)]
        if not found:
            help = "write `op: elementwise`"
            say(ctx, "CG127", "a rowwise kernel reduces along a mode", 0, compute.statements[0].value.place, help)
            return
        row = found[0][1].mode
        for number, reduction in found:
            if reduction.mode != row:
                message = f"`{row}` is the mode of the rows, and {reduction.function} goes along `{reduction.mode}`"
                say(ctx, "CG127", message, number, reduction.place, "write a kernel for each mode that is reduced")
                return

    def lead(self, spec: KernelSpec) -> Tensor:
        """The first tensor that has all modes."""
        found = leading(spec.tensors)
        assert found is not None
        return found

    def contracted(self, spec: KernelSpec) -> tuple[str, ...]:
        """None: what is zero adds nothing to a product's sums, and anything to a row's."""
        return ()

    def summed(self, spec: KernelSpec) -> tuple[str, ...]:
        return (row_mode(spec.compute),)

    def modes_that_may_be_empty(self, compute: Compute, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
        return () if _has_extremes(compute) else (row_mode(compute),)

    def without_reference(self, spec: KernelSpec) -> tuple[str, ...]:
        """The row's mode, where its largest or smallest is asked for: torch has none of no numbers."""
        return (row_mode(spec.compute),) if _has_extremes(spec.compute) else ()

    def reference(self, plan: Plan) -> Reference:
        from cutegen.ops.reference import reference_of

        return reference_of(plan.spec, plan.statements)

    def bench_shapes(self, spec: KernelSpec) -> Sequence[Mapping[str, int]]:
        """Rows of several lengths, as many of each as come to about `ELEMENTS`; other modes than two are 1."""
        row = row_mode(spec.compute)
        others = [mode for mode in spec.modes if mode != row and mode not in spec.static]
        found = []
        for length in (spec.static[row],) if row in spec.static else ROWS:
            fixed = prod(size for mode, size in spec.static.items() if mode != row)
            rows = max(1, ELEMENTS // (length * fixed))
            found.append({**dict.fromkeys(spec.modes, 1), **dict.fromkeys(others[-1:], rows), row: length})
        return found


def leading(tensors: Iterable[Tensor]) -> Tensor | None:
    """The first tensor that has all modes of all tensors, if there is one."""
    tensors = tuple(tensors)
    every = {mode for tensor in tensors for mode in tensor.shape}
    return next((tensor for tensor in tensors if len(tensor.shape) == len(every)), None)


def row_mode(compute: Compute) -> str:
    """The mode that the statements' reductions go along."""
    return next(reduction.mode for value in compute.values for reduction in reductions(value))


def _has_extremes(compute: Compute) -> bool:
    return any(r.function in ("max", "min") for value in compute.values for r in reductions(value))


def _check_target(
    ctx: Context, number: int, statement: Assignment, tensors: Mapping[str, Tensor], modes: frozenset[str]
) -> None:
    """A tensor that is assigned to has the modes of what it is assigned."""
    if statement.target not in tensors:
        return
    tensor = tensors[statement.target]
    for mode in modes - set(tensor.shape):
        message = f"`{tensor.name}` is [{', '.join(tensor.shape)}], and what is assigned to it differs along {mode}"
        whole = next((t.shape for t in tensors.values() if {*tensor.shape, mode} <= set(t.shape)), ())
        wanted = ", ".join(m for m in whole if m in modes or m in tensor.shape)
        help = f"reduce it along {mode}, or write `shape: [{wanted}]` for {tensor.name}"
        say(ctx, "CG129", message, number, statement.value.place, help)
        return


ROWWISE = Rowwise()
