"""Outputs that are reduced over the rows, as text: each block has its own sums, which a kernel of their own adds up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cutegen.codegen.formatting import WIDTH
from cutegen.codegen.parts import Workspace, WorkspaceMode, Workspaces
from cutegen.dtypes import Dtype
from cutegen.families.common.pointwise_text import vector_text
from cutegen.families.rowwise.flat_text import row_source
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.printing import RowPrinter, combined_texts, identity
from cutegen.families.rowwise.schedule import Spec
from cutegen.families.rowwise.walks import RESULT, Column
from cutegen.language.kinds import MAX_INT

PATH = "schedule.scheduler"


def names_beside(spec: Spec) -> set[str]:
    """Names that a kernel uses for its column sums and the pieces of a row, and never for values of the spec."""
    outputs, names = [t.name for t in spec.outputs], [t.name for t in spec.tensors]
    pieces = {f"t{lead}r{name}_all" for lead in names for name in outputs}
    return {"walked", *pieces, *(f"sums_{name}" for name in outputs)}


@dataclass(frozen=True)
class ColumnText:
    """The texts of one such output. `statements` and `update` are those of the walk that computes it."""

    name: str
    type: str  # of its sums
    neutral: str
    vector: int  # elements of one access to the workspace
    vector_text: str
    bits_text: str
    so_far: str  # a thread's sums, in registers
    memory: str  # where they are in the workspace
    both: str  # two partial results, `x` and `other`, as one
    result: str  # of the sum `x`, what is stored
    axis: int  # of the columns in the output
    place: str  # of one of them
    finish: tuple[str, ...] = ()  # the statements before that, of a kernel that adds up what blocks have
    statements: tuple[str, ...] = ()
    update: str = ""

    @property
    def shared(self) -> str:
        """Shared memory for the sums of a block's rows, where launches choose how many it has."""
        return f"sums_{self.name}"

    @property
    def workspace(self) -> str:
        return f"workspace_{self.name}"

    @staticmethod
    def of(plan: RowwisePlan, column: Column) -> ColumnText:
        """The texts that do not depend on the walk."""
        dtype, out, lead = column.dtype, plan.flat.tensor(column.tensor).dtype, plan.flat.lead.name
        vector, shape = min(plan.vector, 16 // dtype.bytes), plan.flat.tensor(column.tensor).shape
        narrows = plan.flat.schedule.narrows
        text = vector_text(plan.flat, vector, plan.vector) if narrows else str(vector)
        mean = f"x / row_count.to(cutlass.{dtype.cutlass})" if column.mean else "x"
        converted = f"({mean})" if column.mean else mean
        if out.is_f8 and not dtype.is_float:  # as `KernelPrinter.cast` has it
            converted = f"({converted}.to(cutlass.{Dtype.f32.cutlass}) + 0.0)"
        result = mean if out is dtype else f"{converted}.to(cutlass.{out.cutlass})"
        return ColumnText(
            name=column.tensor,
            type=f"cutlass.{dtype.cutlass}",
            neutral=identity(column.function, dtype),
            vector=vector,
            vector_text=text,
            bits_text=f"{text} * {dtype.bits}" if narrows else str(vector * dtype.bits),
            so_far=f"t{lead}r{column.tensor}",
            memory=f"t{lead}g{column.tensor}",
            both=combined_texts(column.function, dtype, "x", "other"),
            result=result,
            axis=shape.index(plan.row),
            place=", ".join("column" if mode == plan.row else "0" for mode in shape),
        )


def columns_of(plan: RowwisePlan) -> list[ColumnText]:
    """All of them, in the order of the statements."""
    numbers = [0]
    return [_finished(plan, ColumnText.of(plan, column), column, numbers) for column in plan.program.columns]


def _finished(plan: RowwisePlan, text: ColumnText, column: Column, numbers: list[int]) -> ColumnText:
    """The texts with those of what is made of a column's result and its old value; `numbers` as for the printer."""
    if column.finish is None:
        return text
    tensor, dtype = plan.flat.tensor(column.tensor), column.dtype
    old, new = f"old_{tensor.argument}", f"new_{tensor.argument}"
    whole = f"x / row_count.to(cutlass.{dtype.cutlass})" if column.mean else "x"
    printer = RowPrinter({tensor.name: old}, frozenset(), {}, WIDTH - 8, {}, numbers=numbers)
    printer.locals[RESULT] = f"whole_{tensor.argument}"
    truth = " != 0" if tensor.dtype is Dtype.bool else ""
    lines = [f"{printer.locals[RESULT]} = {whole}", f"{old} = m{tensor.name}[{text.place}]{truth}"]
    return replace(text, finish=(*lines, *printer.run(column.finish, new)), result=new)


def workspaces(plan: RowwisePlan) -> Workspaces | None:
    """The workspaces for the blocks' sums, as the host prints them; None where nothing is reduced over the rows."""
    each = tuple(_workspace(plan, column) for column in plan.program.columns)
    return Workspaces(PATH, "column_space.j2", each) if each else None


def _workspace(plan: RowwisePlan, column: Column) -> Workspace:
    unit, argument = plan.column_unit, plan.flat.tensor(column.tensor).argument
    columns = f"cute.sym_int(divisibility={unit})"
    if plan.row in plan.flat.static:
        columns = str(max(1, -(-plan.flat.static[plan.row] // unit)) * unit)
    return Workspace(
        path=PATH,
        parameter=f"workspace_{column.tensor}",
        memory=f"_column_space({row_source(plan).argument}, torch.{column.dtype.torch})",
        fake=(
            f"cutlass.{column.dtype.cutlass}",
            ("(", [str(plan.column_rows), columns], ")"),
            ("(", [f"cute.sym_int64(divisibility={ColumnText.of(plan, column).vector})", "1"], ")"),
            "assumed_align=16",
        ),
        documentation=f"Each call first writes the partial sums of {argument} of every block to a workspace.",
        dtype=column.dtype,
        modes=(
            WorkspaceMode(plan.column_rows),
            WorkspaceMode(plan.flat.static.get(plan.row, plan.row), unit, within(plan)),
        ),
        major=1,
    )


def within(plan: RowwisePlan) -> tuple[int, int]:
    """The least and the largest row that takes such memory, of a kernel that is one of several cases."""
    return (0, MAX_INT) if plan.row in plan.flat.static else plan.flat.sizes_of(plan.row)


def counted_columns(plan: RowwisePlan, size: str) -> list[str]:
    """The comparisons of a row's size, `size` as text; one is false if another case has the row."""
    low, high = within(plan)
    return [f"{low} <= {size}"] * (low > 0) + [f"{size} <= {high}"] * (high < MAX_INT)


def is_double(plan: RowwisePlan) -> bool:
    """Whether the number of rows is divided by in f64."""
    return any(column.mean and column.dtype is Dtype.f64 for column in plan.program.columns)


def both(column: Column, so_far: str, one: str) -> str:
    """The text of what was so far, in registers, and one more of each value."""
    if column.function in ("sum", "prod"):
        return f"{so_far}.load() {'+' if column.function == 'sum' else '*'} {one}"
    if not column.dtype.is_float:
        return f"cute.math.{column.function}({so_far}.load(), {one})"
    relation, opposite = (">", "<=") if column.function == "max" else ("<", ">=")
    before = f"{so_far}.load()"
    other = f"cute.where({before} {opposite} {one}, {one}, {before} + {one})"  # a NaN is on no side
    return f"cute.where({before} {relation} {one}, {before}, {other})"
