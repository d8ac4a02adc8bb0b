"""The computation of a row kernel, as text: the walks over a row, and the values that are the same along it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cutegen.codegen.expressions import is_number
from cutegen.codegen.formatting import WIDTH, call
from cutegen.codegen.variables import Variables
from cutegen.dtypes import Dtype
from cutegen.expressions.intervals import Intervals
from cutegen.expressions.tree import Binary, Call, Expr, Literal_, Local, Reduce, Scan, coords
from cutegen.families.common.pointwise_text import width_name
from cutegen.families.rowwise.across_text import (
    LEAST_F32,
    LEAST_F64,
    AcrossText,
    across_of,
    apart_of,
    name_of,
    scale_of,
)
from cutegen.families.rowwise.column_text import ColumnText, both, names_beside
from cutegen.families.rowwise.operand_text import OperandText, converted_tensors, operands_of
from cutegen.families.rowwise.order import (
    is_backwards,
    loaded_ahead,
    loaded_once,
    loads_of,
    meetings_of,
    partial_of,
)
from cutegen.families.rowwise.partial_text import PartsText
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.printing import OPERATIONS, ElementPrinter, RowPrinter, identity
from cutegen.families.rowwise.row_text import RowText
from cutegen.families.rowwise.scan_text import ScanText, partials_of, scan_text
from cutegen.families.rowwise.walk_parts import ReductionText, StoreText, WalkText
from cutegen.families.rowwise.walks import Column, Named, Reduction, Store, Walk


class WalksText(RowText):
    """The texts of one plan's walks. Names are given out in the order of the kernel."""

    def __init__(self, plan: RowwisePlan) -> None:
        self.plan, self.spec, self.lead = plan, plan.flat, plan.flat.lead
        variables = self.variables = Variables(plan.spec, names_beside(plan.spec))
        self.operands = operands_of(plan)
        self.size = f"m{self.lead.name}.shape[{self.lead.shape.index(plan.row)}]"
        self.coordinate = variables.free(f"coord_{plan.row.replace('*', '_')}")
        self.row_coordinates = {m: variables.free(f"row_{m}") for m in self.lead.shape if m != plan.row}
        self.parts = PartsText(plan, self.row_coordinates, variables)
        self.row_variables = {name: self.spec.tensor(name).argument for name in plan.row_tensors}
        self.partials_of = {r: variables.free(f"partials_{i}") for i, r in enumerate(plan.program.reductions)}
        first = len(self.partials_of)
        self.scan_partials = [variables.free(f"partials_{first + i}") for i in range(len(plan.program.scans))]
        self.before_piece: dict[str, str] = {}  # variables of the largest values that a piece began with
        self.of_piece: dict[str, str] = {}  # variables of what one piece has of sums that squares need, and of these
        self.meetings = [(n, m) for n, one in enumerate(plan.program.walks) for m in meetings_of(plan, one)]
        converted = converted_tensors(plan)
        self.partial = {name: self.parts.tensor(self.spec.tensor(name), converted.get(name)) for name in plan.partial}
        along = {n: o.variable for n, o in self.operands.items()} | {n: o.variable for n, o in self.partial.items()}
        names = {s.name: s.name for s in self.spec.scalars} | self.row_variables | {plan.row: self.size}
        coordinates = self.row_coordinates | {plan.row: self.coordinate} | self.parts.coordinates
        numbers = [0]
        taken = frozenset({*names.values(), *along.values(), *coordinates.values()})
        self.width = WIDTH - (8 if plan.persistent else 4)  # of a line of what is the same along a row
        self.row_printer = RowPrinter(names, frozenset(), {}, self.width, coordinates, taken=taken, numbers=numbers)
        self.element_printer = ElementPrinter(
            names | along,
            frozenset(along),
            {},
            self.width - (4 if plan.walked else 0),
            coordinates,
            taken=taken,
            uniform=frozenset(self.row_coordinates),
            numbers=numbers,
            converted=converted,
        )
        self.row_printer.fast_math = self.element_printer.fast_math = self.spec.schedule.fast_math
        self.row_printer.intervals = self.element_printer.intervals = Intervals(self.spec.static)
        self.old_are_read = False  # whether the threads of a row have met since they read its old values
        self.scans_printed = 0
        self.before = self.row_steps(plan.program.before)
        self.walks = [self._walk(number, one) for number, one in enumerate(plan.program.walks)]

    @property
    def row_lines(self) -> list[str]:
        """The statements about what is the same along a row."""
        return [*self.before, *(line for walk in self.walks for line in walk.after)]

    # -------------------------------------------------------------------------------------------------- of its elements

    def _walk(self, number: int, one: Walk) -> WalkText:
        plan, printer = self.plan, self.element_printer
        asked = {node.mode for value in one.values for node in coords(value)}
        coordinates, parts = plan.row in asked, [mode for mode in self.parts.modes if mode in asked]
        reads, partial = loads_of(plan, number), partial_of(plan, number)
        there = one.reads if plan.walked else (*one.reads, *(x for i in range(number + 1) for x in loads_of(plan, i)))
        held = [self.partial[n].variable if n in self.partial else self.operands[n].variable for n in there]
        anchors = [*held, *([self.coordinate] if coordinates else []), *(self.parts.coordinates[m] for m in parts)]
        printer.anchor = next(iter(anchors), None)
        lines: list[str] = []
        carried: list[tuple[str, str]] = []
        for named in one.elements:
            variable = printer.locals.get(named.name) or self._variable(named.name)
            if isinstance(named.value, Scan):
                scan = self._scan(named, variable)
                lines, carried = lines + scan.lines, carried + scan.carried
            else:
                lines += printer.keep(named.value, named.name, variable)
        reductions = [self._reduction(reduction) for reduction in one.reductions]
        stores = [self._store(store) for store in one.stores]
        columns = [self._column(column) for column in one.columns]
        across = [line for n, met in self.meetings if n == number for line in self._meeting(number, met)]
        after = self.row_steps(one.after)
        masked = plan.row in plan.masked and bool(one.reductions)
        coordinates = coordinates and (plan.walked or not self._had_coordinates(number, plan.row))
        parts = [mode for mode in parts if plan.walked or not self._had_coordinates(number, mode)]
        placed = coordinates or bool(parts or partial)
        return WalkText(
            loads=[self.operands[name] for name in reads if name not in self.early],
            values=[self.operands[name] for name in reads],
            partial=[self.partial[name] for name in partial],
            parts=self.parts.parts(parts),
            identity=(plan.walked or number == 0) if plan.masked else placed,
            coordinates=coordinates,
            accessed=masked and self._first(number, _by_access),
            in_row=masked and self._first(number, lambda r: not _by_access(r)),
            statements=tuple(lines),
            carried=carried,
            stores=stores,
            columns=columns,
            reductions=reductions,
            backwards=is_backwards(plan, number),
            across=across,
            after=after,
        )

    def _scan(self, named: Named, variable: str) -> ScanText:
        partials = self.scan_partials[self.scans_printed] if self.scan_partials else ""
        self.scans_printed += 1
        found = scan_text(self.plan, named, variable, self.element_printer, partials, self.variables.free)
        self._known(named.name, variable)
        self.element_printer.remember(named.name, named.value)
        self.element_printer.tensor_locals.add(named.name)
        return found

    @property
    def early(self) -> dict[str, OperandText]:
        """The tensors whose loads are not part of a walk, of blocks that load ahead, by name: `ahead` and `fixed`."""
        return {o.tensor.name: o for o in (*self.ahead, *self.fixed)}

    @property
    def ahead(self) -> list[OperandText]:
        """Those whose next rows are loaded while a block computes on its own."""
        return [self.operands[name] for name in loaded_ahead(self.plan)]

    @property
    def fixed(self) -> list[OperandText]:
        """Those that are the same for all rows, and are loaded once."""
        return [self.operands[name] for name in loaded_once(self.plan)]

    def _had_coordinates(self, number: int, mode: str) -> bool:
        values = (value for one in self.plan.program.walks[:number] for value in one.values)
        return any(node.mode == mode for value in values for node in coords(value))

    @property
    def first_across(self) -> int:
        """The number of the first walk whose results the threads of a row exchange; -1 if none does."""
        return next((i for i, one in enumerate(self.walks) if one.across), -1)

    def _first(self, number: int, kind: Callable[[Reduction], bool]) -> bool:
        """Whether a walk is the first one with a reduction of some kind, or has one and loads its own rows."""
        having = [i for i, one in enumerate(self.plan.program.walks) if any(map(kind, one.reductions))]
        return number in (having if self.plan.walked else having[:1])

    def _reduction(self, reduction: Reduction) -> ReductionText:
        plan, printer, dtype = self.plan, self.element_printer, reduction.dtype
        variable = self._variable(reduction.name)
        value, before = reduction.value, list[str]()
        if reduction.above is not None:
            value, before = self._exponentials(reduction, variable)
        elif reduction.around is not None:
            value, before = self._difference(reduction)
        elif any(other.above == reduction.name for other in plan.program.reductions):
            kept = self.before_piece[reduction.name] = self.variables.free(f"{variable}_before")
            before = [f"{kept} = {variable}"]
        whole = printer.spread(value, printer.print(value))
        neutral = identity(reduction.function, dtype)
        if plan.row in plan.masked:
            whole = printer.name_of(whole)
            inside = "in_row"
            if _by_access(reduction):
                width, operation = width_name(self.spec), OPERATIONS[reduction.function]
                shape = f"({width}, {plan.values_text} // {width})"
                values = printer.name_of(f"{whole}.reshape({shape})")
                whole = printer.name_of(f"{values}.reduce(cute.ReductionOp.{operation}, {neutral}, (0, None))")
                inside = "accessed"
            whole = f"cute.where({inside}, {whole}, cute.full_like({whole}, {neutral}))"
        statements = [*before, *printer.taken_statements(), *self._folded(reduction, whole, variable)]
        self._known(reduction.name, variable, Reduce(reduction.function, reduction.value, plan.row, dtype=dtype))
        printer.tensor_locals.discard(reduction.name)
        what = f"{reduction.function} along {plan.row}"
        return ReductionText(variable, f"cutlass.{dtype.cutlass}({neutral})", tuple(statements), what)

    def _folded(self, reduction: Reduction, whole: str, variable: str) -> list[str]:
        """The statements that add a thread's values to what came before; of a sum and a count that squares need, once
        these are found.
        """
        plan, printer = self.plan, self.element_printer
        around = {name for one in plan.program.reductions for name in one.around or ()}
        if reduction.name not in around and reduction.around is None:
            return printer.folded(reduction, whole, variable, plan.walked)
        piece = self.of_piece[reduction.name] = self.variables.free(f"piece_{variable}")
        lines = printer.folded(reduction, whole, piece, walked=False)
        if reduction.around is None:
            return lines
        pairs = [(printer.locals[name], self.of_piece[name]) for name in reduction.around]
        parts = [pair[i] for i in range(2) for pair in pairs]
        lines += call(f"{piece} += {apart_of(reduction)}(", parts, ")", 0, printer.width).split("\n")
        lines.append(f"{variable} = {variable} + {piece}")
        if [one for one in plan.program.reductions if one.around == reduction.around][-1] is reduction:
            lines += [f"{own} = {own} + {one}" for own, one in pairs]
        return lines

    def _difference(self, reduction: Reduction) -> tuple[Expr, list[str]]:
        """The squares of what the values of a piece that a thread has differ by from their mean, and what that is."""
        assert reduction.around is not None
        total, count = (self.of_piece[name] for name in reduction.around)
        dtype, place, name = reduction.dtype, reduction.value.place, f"around {reduction.name}"  # no statement's
        mean = self.variables.free(f"{total}_mean")
        self._known(name, mean)
        difference = Binary("-", reduction.value, Local(name, dtype=dtype), dtype=dtype, place=place)
        two = Literal_(2, dtype=dtype)
        return Binary("**", difference, two, dtype=dtype, place=place), [f"{mean} = {total} / {count}"]

    def _exponentials(self, reduction: Reduction, variable: str) -> tuple[Expr, list[str]]:
        """The exponentials of values above the largest that a thread has of them so far, and the statements before.

        Where all are -inf, that is the least finite number: exponentials are 0, and not NaN, as others may be larger.
        """
        assert reduction.above is not None
        printer, dtype, place = self.element_printer, reduction.dtype, reduction.value.place
        largest, least = printer.locals[reduction.above], self.variables.free(f"above_{reduction.above}")
        finite = f"cute.arch.fmax({largest}, {LEAST_F32})"
        if dtype is Dtype.f64:
            finite = f"cutlass.max({largest}, cutlass.Float64({LEAST_F64}))"
        scale = f"{scale_of(reduction)}({self.before_piece[reduction.above]}, {largest})"
        lines = [f"{least} = {finite}", f"{variable} = {variable} * {scale}"]
        name = f"above {reduction.above}"  # no statement's
        self._known(name, least)
        difference = Binary("-", reduction.value, Local(name, dtype=dtype), dtype=dtype, place=place)
        return Call("exp", (difference,), dtype=dtype, place=place), lines

    def _meeting(self, number: int, met: tuple[Reduction, ...]) -> list[str]:
        """The statements by which the threads of a row exchange what they have of some reductions."""
        plan, found = self.plan, []
        variables = [self.element_printer.locals[one.name] for one in met]
        if plan.threads_per_row > 1:
            arguments = [*variables, *(self.partials_of[one] for one in met if self.partials)]
            if self.partials and plan.fewer_threads and plan.cluster == 1:
                arguments += ["False" if plan.walked else "in_warp", *(["turn"] if plan.persistent else [])]
            if plan.cluster > 1:
                before = self.meetings.index((number, met))
                arguments += [f"arrived + {before}" if before else "arrived", "rank"]
                arguments += ["CLUSTER_SIZE"] if plan.any_cluster else []
                arguments += ["turn"] if plan.persistent else []
            found += call(f"{', '.join(variables)} = {name_of(met)}(", arguments, ")", 0, self.width).split("\n")
        for one in met:
            if one.above is not None:
                total, largest = self.element_printer.locals[one.name], self.element_printer.locals[one.above]
                whole = f"{total} + ({largest} - {largest})"  # of no values the sum is 0
                whole = whole if plan.row in plan.flat.static else f"{whole} if {self.size} > 0 else {total}"
                found += ["# NaN where the largest is not finite", f"{total} = {whole}"]
        return found

    def _store(self, store: Store) -> StoreText:
        printer, operand = self.element_printer, self.operands[store.tensor]
        fragment = f"t{self.lead.name}r{store.tensor}_out"
        text = printer.print(store.value)
        statements = printer.taken_statements()
        result = text.text
        is_tensor = printer.is_tensor(store.value)
        if is_number(store.value) and operand.tensor.dtype is Dtype.bool:
            result = f"cutlass.Boolean({result}).to(cutlass.Uint8)"
        elif operand.tensor.dtype is Dtype.bool:
            result = f"({result}).to(cutlass.Uint8)" if not result.isidentifier() else f"{result}.to(cutlass.Uint8)"
        if not is_tensor:
            same = f"cute.full(({self.plan.values_text},), {result}, cutlass.{operand.tensor.dtype.cutlass})"
            return StoreText(operand, tuple(statements), f"{fragment}.fill({result})", same)
        if not result.isidentifier():
            target = self.variables.free(f"result_{store.tensor}")
            statements = [*statements, f"{target} = {result}"]
            result = target
        return StoreText(operand, tuple(statements), f"{fragment}.store({result}.reshape({fragment}.shape))", result)

    def _column(self, column: Column) -> ColumnText:
        """Text that adds a piece of a row to an output that is reduced over the rows."""
        printer = self.element_printer
        text = printer.spread(column.value, printer.print(column.value))
        one = printer.name_of(text)
        texts = ColumnText.of(self.plan, column)
        return replace(texts, statements=tuple(printer.taken_statements()), update=both(column, texts.so_far, one))

    # ----------------------------------------------------------------------------------------------- across its threads

    @property
    def partials(self) -> list[tuple[str, str]]:
        """The tensors in shared memory for partial results of the warps of a row: variables and types."""
        if self.plan.warps_per_row * self.plan.cluster == 1:
            return []
        return [(name, f"cutlass.{r.dtype.cutlass}") for r, name in self.partials_of.items()]

    @property
    def shared(self) -> list[tuple[str, str]]:
        """The tensors in shared memory for all that the warps of a row exchange: variables and types."""
        scanned = partials_of(self.plan.program.scans, self.scan_partials) if self.plan.warps_per_row > 1 else []
        return [*self.partials, *scanned]

    @property
    def across(self) -> list[AcrossText]:
        """The reductions over a row's threads, each once."""
        met = [met for _, met in self.meetings] if self.plan.threads_per_row > 1 else []
        found = (across_of(self.plan, one) for one in met)
        return list({across.name: across for across in found}.values())


def _by_access(reduction: Reduction) -> bool:
    """Whether the values of each access are reduced first, and accesses beyond the row's end then left out."""
    return reduction.function in ("sum", "prod") or reduction.dtype.is_float
