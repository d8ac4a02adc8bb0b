"""The computation of a thread on its part of rows, as text: of each tile of scores, and at the end.

A thread has several columns of each of its rows: expressions of elements are on a vector of them, those of rows on
numbers. What is carried along the walked mode is kept for each row in registers of its name: `m_rows`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from cutegen.codegen.formatting import WIDTH
from cutegen.codegen.variables import Variables
from cutegen.expressions.tree import Call, Cast, Expr, Local, Name, Typed, walk
from cutegen.families.attention.row_printers import Names, VectorPrinter
from cutegen.families.common.row_printing import NumberedPrinter, RowPrinter
from cutegen.language.model import KernelSpec, Tensor
from cutegen.ops.folding import Folded, bounded_choice, folded
from cutegen.ops.neutral import terms_of
from cutegen.ops.reach import Bound
from cutegen.ops.walked import Carried, Walked

INDENT = 8
MINUS_INFINITY = 'float("-inf")'


@dataclass
class RowText:
    """Prints the statements of a plan's rows."""

    spec: KernelSpec
    walked: Walked
    names: Names
    masked: str | None
    whole: bool
    bounds: tuple[Bound, ...] = ()  # of the walked mode
    shared: bool = True  # whether four lanes have a row together
    deferred: bool = False  # the registers of factors and sums are in use while a tile's statements run
    variables: Variables = field(init=False)
    folded: Folded | None = field(init=False, default=None)
    follows: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.variables = Variables(self.spec)
        self.held = {one.name: self.variables.free(f"{one.name}_rows") for one in self.walked.of_rows}
        self.above = {
            one.name: self.variables.free(f"{one.name}_above") for one in self.walked.carried if one.function == "max"
        }
        scalar = {s.name: s.name for s in self.spec.scalars}
        self.inputs = {t.name: self.variables.free(f"{t.argument}_values") for t in self.elements}
        self.read = scalar | self.inputs
        if self.deferred and self.spec.schedule.fast_math:
            self.folded = folded(self.walked, self.bounds, [t.name for t in self.spec.tensors])

    @property
    def elements(self) -> list[Tensor]:
        """The tensors that statements read element by element."""
        factors = {self.walked.scores.a, self.walked.scores.b, *(x.product.b for x in self.walked.outer if x.product)}
        return [tensor for tensor in self.spec.inputs if tensor.name not in factors]

    # ------------------------------------------------------------------------------------------------- loads

    def index(self, tensor: Tensor) -> str:
        """The index of a thread's elements of a tensor, or of all along the mode of a thread's columns."""
        rows = self.walked.rows[0]
        inside = f"cutlass.min({self.names.places[rows]}, {self.names.sizes[rows]} - 1)"  # a tile may end beyond them
        places = {**self.names.places, **dict.fromkeys(self.names.columns, "None"), rows: inside}
        return ", ".join(places[mode] for mode in tensor.shape)

    def load(self, tensor: Tensor) -> list[str]:
        """The statements that load what a row, or a block, reads of a tensor."""
        variable, index = self.inputs[tensor.name], self.index(tensor)
        along = [mode for mode in tensor.shape if mode in self.names.columns]
        if not along:
            return [f"{variable} = m{tensor.name}[{index}]"]
        (mode,) = along
        size, start = self.names.sizes[mode], "start" if mode == self.walked.walked else "0"
        where = f"m{tensor.name}[{index}]" if len(tensor.shape) > 1 else f"m{tensor.name}"
        text = f"{variable} = loaded({where}, {self.names.offsets[mode]}, {start}, {size}).load()"
        if len(text) <= WIDTH - INDENT - 4:
            return [text]
        return [
            f"{variable} = {where}",
            f"{variable} = loaded({variable}, {self.names.offsets[mode]}, {start}, {size}).load()",
        ]

    def loads(self, of_rows: bool, names: Iterable[str]) -> list[str]:
        """The loads of these tensors that differ from row to row, or that do not."""
        wanted = [tensor for tensor in self.elements if tensor.name in set(names)]
        return [line for t in wanted if self.names.differ(t) == of_rows for line in self.load(t)]

    # ------------------------------------------------------------------------------------------------- printers

    def vector_printer(self, numbers: list[int], column: str, anchor: str) -> VectorPrinter:
        vectors = frozenset(t.name for t in self.elements if column in t.shape)
        places = {**self.names.places, column: self.names.columns[column]}
        rest = frozenset(mode for mode in places if mode != column)
        return VectorPrinter(
            self.read, vectors, {}, WIDTH - INDENT, places, uniform=rest, lengths=self.names.sizes, anchor=anchor,
            taken=frozenset(self.variables.taken), numbers=numbers, fast_math=self.spec.schedule.fast_math,
        )  # fmt: skip

    def row_printer(self, numbers: list[int]) -> RowPrinter:
        return RowPrinter(
            self.read, frozenset(), {}, WIDTH - INDENT, self.names.places, lengths=self.names.sizes,
            taken=frozenset(self.variables.taken), numbers=numbers, fast_math=self.spec.schedule.fast_math,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------- a tile

    def tile(self, follows: bool = False) -> list[str]:
        """The statements on one row of a tile of scores, whose values are `scores`; what is multiplied next goes to
        `factors[row, None]`, and `acc_mn[row, None]` is scaled. Where factors are deferred, a tile that `follows` the
        first one does not end beyond the walked mode.
        """
        self.follows = follows
        numbers = [0]
        vectors = self.vector_printer(numbers, self.walked.walked, "scores")
        vectors.locals[self.walked.scores.name] = "scores"
        vectors.tensor_locals.add(self.walked.scores.name)
        rows = self.row_printer(numbers)
        vectors.locals |= self.above
        if self.folded is not None:
            vectors.folded = self.folded
            vectors.power = "cute.math.exp2(scores * steep - base, fastmath=True)"
        lines = list(
            self.loads(True, self.read_by([*(t.value for t in self.in_tile()), *map(terms_of, self.walked.carried)]))
        )
        carried = {one.name: one for one in self.walked.carried}
        names, used = self.element_variables, self.used
        for name in self.order():
            if name not in used:
                continue
            if name in carried:
                lines += self.carry(carried[name], vectors)
                continue
            typed = next(t for t in self.in_tile() if t.target == name)
            if self.walked.walked in self.walked.spans[name]:
                lines += self.element(typed, vectors, names[name])
            else:
                lines += rows.keep(typed.value, name, names[name])
                vectors.locals[name] = rows.locals[name]
        return lines

    def element(self, typed: Typed, printer: VectorPrinter, variable: str) -> Iterator[str]:
        """The statements that compute an element statement on a row. The statement `masked` becomes minus infinity
        beyond the end. Scores that are scaled later have been cut before.
        """
        name = typed.target
        if self.folded is not None and name == self.folded.name:
            return
        yield from printer.keep(typed.value, name, variable)
        if name == self.masked and self.checks:
            yield from self.end_cut(variable, printer.locals[name], MINUS_INFINITY)
            printer.locals[name] = variable

    def end_cut(self, variable: str, held: str, other: str) -> Iterator[str]:
        """The statements that put `other` in the place of what lies beyond the end, into a variable."""
        if not self.deferred:
            yield f"{variable} = cute.where(within, {held}, cute.full_like({held}, {other}))"
            return
        if variable != held:
            yield f"{variable} = {held}"
        yield "if is_cut:"
        yield f"    within = {self.places_along} < {self.names.sizes[self.walked.walked]}"
        yield f"    {variable} = cute.where(within, {variable}, cute.full_like({variable}, {other}))"

    @property
    def checks(self) -> bool:
        """Whether a tile may end beyond the walked mode: of those whose factors are deferred only the first does."""
        return not self.whole and not (self.deferred and self.follows)

    def cut_scores(self, follows: bool = False) -> list[str]:
        """The statements that leave out of the `scores` of a row, which are scaled later, what counts for nothing."""
        if self.folded is None:
            return []
        typed = next(t for t in self.in_tile() if t.target == self.folded.name)
        choice = bounded_choice(self.walked, self.bounds, typed.value)
        lines, printer = list[str](), self.vector_printer([0], self.walked.walked, "scores")
        cut = f"scores = cute.where(within, scores, cute.full_like(scores, {MINUS_INFINITY}))"
        if choice is not None:
            lines += [*printer.run(self.walked.meant(choice[0]), "within"), cut]
        if not follows and not self.whole and typed.target == self.masked:
            walked = self.walked.walked
            lines += [f"within = {self.names.columns[walked]} < {self.names.sizes[walked]}", cut]
        return lines

    @property
    def places_along(self) -> str:
        """The places of a thread's columns along the walked mode."""
        return f"{self.names.offsets[self.walked.walked]}.load() + start"

    @cached_property
    def used(self) -> set[str]:
        """The names of what a tile computes, without what is needed for scores alone that have been cut before."""
        values = {typed.target: typed.value for typed in self.in_tile()}
        values |= {one.name: terms_of(one) for one in self.walked.carried}
        found, waiting = set[str](), [one.name for one in self.walked.carried]
        while waiting:
            name = waiting.pop()
            if name not in values or name in found:
                continue
            found.add(name)
            if self.folded is None or name not in (self.folded.name, self.folded.largest):
                waiting += [node.id for node in walk(values[name]) if isinstance(node, Local)]
        return found

    def in_tile(self) -> list[Typed]:
        """The statements of elements, and those of rows that these need."""
        own, needed = list(self.walked.elements), set[str]()
        ends = {typed.target: typed for typed in self.walked.ends}
        waiting = [*(typed.value for typed in own), *map(terms_of, self.walked.carried)]
        while waiting:
            for node in walk(waiting.pop()):
                if isinstance(node, Local) and node.id in ends and node.id not in needed:
                    needed.add(node.id)
                    waiting.append(ends[node.id].value)
        return [*(typed for name, typed in ends.items() if name in needed), *own]

    def order(self) -> list[str]:
        """The names of what a tile computes: each behind what it needs."""
        known = {typed.target: typed.value for typed in self.in_tile()}
        known |= {one.name: terms_of(one) for one in self.walked.carried}
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in found:
                return
            for node in walk(known[name]):
                if isinstance(node, Local) and node.id in known:
                    visit(node.id)
            found[name] = None

        for name in known:
            visit(name)
        return [name for name in found if name in known]

    @cached_property
    def element_variables(self) -> dict[str, str]:
        return {typed.target: self.variables.free(typed.target, f"{typed.target}_value") for typed in self.in_tile()}

    def carry(self, one: Carried, printer: VectorPrinter) -> Iterator[str]:
        """The statements that add a tile to what is carried."""
        terms = terms_of(one)
        if one.function == "max":
            yield from self.carry_largest(one, printer)
            return
        if one.product is not None:
            yield from self.carry_factor(one, printer)
            return
        values = yield from self.printed(printer, terms, "terms", "0.0")
        held = self.held[one.name]
        before = f"{held}[row] * grown" if one.above is not None else f"{held}[row]"
        yield f"of_tile = cutlass.Float32({values}.reduce(cute.ReductionOp.ADD, 0.0, 0))"
        yield f"{held}[row] = {before} + of_tile"

    def carry_largest(self, one: Carried, printer: VectorPrinter) -> Iterator[str]:
        values = "scores"
        if self.folded is None:
            values = yield from self.printed(printer, terms_of(one), "terms", MINUS_INFINITY)
        held, above = self.held[one.name], self.above[one.name]
        yield f"largest = cutlass.Float32({values}.reduce(cute.ReductionOp.MAX, {MINUS_INFINITY}, 0))"
        yield f"largest = cute.arch.fmax(quad_max(largest), {held}[row], nan=True)"
        yield "# What is relative to an infinity would be NaN: all of it is 0 so far"
        yield f"{above} = cutlass.Float32(0.0) if largest == {MINUS_INFINITY} else largest"
        if any(other.above == one.name for other in self.walked.carried):
            fast = ", fastmath=True" if self.spec.schedule.fast_math else ""
            if self.folded is not None:
                yield f"base = {above} * steep"
                yield f"grown = cute.math.exp2(({held}[row] - {above}) * steep{fast})"
            else:
                yield f"grown = cute.math.exp({held}[row] - {above}{fast})"
        yield f"{held}[row] = largest"

    def carry_factor(self, one: Carried, printer: VectorPrinter) -> Iterator[str]:
        """The statements that make the factors of the products that follow, or if these are `deferred` keep them in the
        registers of the scores, with what sums grow by.
        """
        terms = terms_of(one)
        if not self.deferred:
            values = yield from self.printed(printer, terms, "factor", "0.0")
            yield f"factors[row, None].store({values})"
            if one.above is not None:
                yield "acc_mn[row, None].store(acc_mn[row, None].load() * grown)"
            return
        values = yield from self.printed(printer, terms.x if isinstance(terms, Cast) else terms, "terms", "0.0")
        yield f"scores_mn[row, None].store({values})"
        if one.above is not None:
            yield "grown_rows[row] = grown"

    @property
    def grows(self) -> bool:
        """Whether the sums that products are added to are relative to a maximum."""
        return any(one.above is not None for one in self.walked.outer)

    def printed(self, printer: VectorPrinter, terms: Expr, wanted: str, neutral: str) -> Generator[str, None, str]:
        """The statements that compute terms, made neutral beyond the end where no statement is, and then the variable
        that holds them.
        """
        lines = printer.run(terms, wanted)
        held = lines[-1].removeprefix(f"{wanted} = ")
        if not self.checks or self.masked is not None:
            yield from lines[: -1 if held.isidentifier() else None]
            return held if held.isidentifier() else wanted
        yield from lines
        yield from self.end_cut(wanted, wanted, neutral)
        return wanted

    def read_by(self, values: Sequence[Expr]) -> set[str]:
        """The tensors that expressions read."""
        return {
            node.id for value in values for node in walk(value) if isinstance(node, Name) and node.id in self.inputs
        }

    def tile_loads(self) -> list[str]:
        """The loads of a tile that all of its rows share."""
        names = self.read_by([*(typed.value for typed in self.in_tile()), *map(terms_of, self.walked.carried)])
        shared = [t for t in self.elements if t.name in names and not self.names.differ(t)]
        return [line for t in shared for line in self.load(t)]

    # ------------------------------------------------------------------------------------------------- the end

    def end(self) -> list[str]:
        """The statements on one row at the end: `acc_mn[row, None]` has the sums, `tOrO_mn[row, None]` takes what is
        stored of the output with columns.
        """
        numbers = [0]
        rows = self.row_printer(numbers)
        lines: list[str] = []
        values = [typed.value for typed in self.walked.ends]
        shared = [t for t in self.elements if t.name in self.read_by(values) and not self.names.differ(t)]
        lines += [line for t in shared for line in self.load(t)] + self.loads(True, self.read_by(values))
        undefined = {one.above for one in self.walked.carried if one.above is not None}
        for name in sorted(undefined):
            lines.append("# Above minus infinity nothing is a number, where there is anything")
            size = self.names.sizes[self.walked.walked]
            lines.append(f"is_lowest = {self.held[name]}[row] == {MINUS_INFINITY} and {size} > 0")
            lines.append('undefined = cutlass.Float32(float("nan")) if is_lowest else cutlass.Float32(0.0)')
        used = {node.id for typed in self.walked.ends for node in walk(typed.value) if isinstance(node, Local)}
        for one in self.walked.of_rows:
            if one.name not in used:
                continue
            variable = self.variables.free(one.name, f"{one.name}_row")
            held = f"{self.held[one.name]}[row]"
            if one.function == "sum":
                held = f"quad_sum({held})" if self.shared else held
                held += " + undefined" * (one.above is not None)
            elif self.folded is not None:
                held = f"{held} if {held} == {MINUS_INFINITY} else {held} * magnitude"
            lines.append(f"{variable} = {held}")
            rows.locals[one.name] = variable
        vectors = self.vector_printer(numbers, self.walked.columns, "sums")
        vectors.inverses = self.inverses(rows.locals)
        lines += [f"{inverse} = 1.0 / {rows.locals[name]}" for name, inverse in vectors.inverses.items()]
        for one in self.walked.outer:
            lines.append("sums = acc_mn[row, None].load()" + " + undefined" * (one.above is not None))
            vectors.locals[one.name] = "sums"
            vectors.tensor_locals.add(one.name)
        for typed in self.walked.ends:
            wide = self.walked.columns in self.walked.spans[typed.target]
            printer: NumberedPrinter = vectors if wide else rows
            if wide:
                vectors.locals |= {name: text for name, text in rows.locals.items() if name not in vectors.locals}
            stored = typed.stored
            if not isinstance(typed.value, Local):
                variable = self.variables.free(typed.target, f"{typed.target}_value")
                lines += printer.keep(typed.value, typed.target, variable)
                held_value = Local(typed.target, dtype=typed.value.dtype)
                if stored is not None:
                    stored = held_value if stored == typed.value else replace(stored, x=held_value)  # type: ignore[arg-type]
            if stored is not None:
                lines += self.store(typed, stored, printer)
        return lines

    def inverses(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Variables for the inverses of sums of exponentials, at least 1 each, which results of 16 bits are divided by:
        a product with one is off by 2 ulp of f32 at most.
        """
        wide = [t for t in self.spec.outputs if self.walked.columns in t.shape]
        if not self.spec.schedule.fast_math or any(t.dtype.bits > 16 for t in wide):
            return {}
        sums = [one for one in self.walked.of_rows if one.above is not None and one.name in variables]
        found = [
            one.name for one in sums if isinstance(x := self.walked.meant(one.value), Call) and x.function == "exp"
        ]
        return {name: self.variables.free(f"inverse_{name}") for name in found}

    def store(self, typed: Typed, stored: Expr, printer: NumberedPrinter) -> list[str]:
        """The statements that store an output's elements of a row."""
        tensor = self.spec.tensor(typed.target)
        if self.walked.columns in tensor.shape:
            return [*printer.run(stored, "result"), "tOrO_mn[row, None].store(result)"]
        index = ", ".join(self.names.places[mode] for mode in tensor.shape)
        lines = printer.run(stored, "result")
        rows = self.walked.rows[0]
        inside = f"tidx % 4 == 0 and {self.names.places[rows]} < {self.names.sizes[rows]}"
        return [*lines, f"if {inside if self.shared else 'tidx == 0'}:", f"    m{tensor.name}[{index}] = result"]
