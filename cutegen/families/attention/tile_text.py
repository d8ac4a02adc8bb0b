"""The computation of a thread on its part of each tile of scores, as text.

A thread has several columns of each of its rows: expressions of elements are on a vector of them, those of rows on
numbers. What is carried along the walked mode is kept for each row in registers of its name: `m_rows`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cutegen.codegen.formatting import WIDTH
from cutegen.codegen.variables import Variables
from cutegen.expressions.tree import Cast, Expr, Local, Name, Typed, walk
from cutegen.families.attention.operands import moved_in_tiles
from cutegen.families.attention.plan import suffix_of
from cutegen.families.attention.row_printers import Names, VectorPrinter
from cutegen.families.common.row_printing import RowPrinter
from cutegen.language.model import KernelSpec, Tensor
from cutegen.ops.folding import Folded, bounded_choice, folded
from cutegen.ops.neutral import terms_of
from cutegen.ops.reach import Bound
from cutegen.ops.walked import Carried, Walked

INDENT = 8
MINUS_INFINITY = 'float("-inf")'
RELATIVE_TO_ZERO = "# While all scores are -inf, they are taken relative to 0: -inf - (-inf) would be NaN"


@dataclass
class TileText:
    """Prints what a plan computes of each tile of scores, on one row of it."""

    spec: KernelSpec
    walked: Walked
    names: Names
    masked: str | None
    whole: bool
    bounds: tuple[Bound, ...] = ()  # of the walked mode
    vectors: frozenset[str] = frozenset()  # tensors that a tile has in shared memory
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
        moved = moved_in_tiles(self.spec, self.walked)
        return [tensor for tensor in self.spec.inputs if tensor.name not in moved]

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
        where = self.vector(tensor)
        text = f"{variable} = loaded({where}, {self.names.offsets[mode]}, {start}, {size}).load()"
        if len(text) <= WIDTH - INDENT - 4:
            return [text]
        return [
            f"{variable} = {where}",
            f"{variable} = loaded({variable}, {self.names.offsets[mode]}, {start}, {size}).load()",
        ]

    def vector(self, tensor: Tensor) -> str:
        """The vector of a tensor along the walked mode that a block reads."""
        return f"m{tensor.name}[{self.index(tensor)}]" if len(tensor.shape) > 1 else f"m{tensor.name}"

    def fetched(self, tensor: Tensor) -> str:
        """The variable of a thread's elements of such a vector on their way to shared memory."""
        return f"{self.inputs[tensor.name].removesuffix('_values')}_fetched"

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
            scalars=frozenset(s.name for s in self.spec.scalars),
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
        for number, product in enumerate(self.walked.products):
            vectors.locals[product.name] = f"scores{suffix_of(number)}"
            vectors.tensor_locals.add(product.name)
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
        yield RELATIVE_TO_ZERO
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
            suffix = suffix_of(self.walked.outer.index(one))
            values = yield from self.printed(printer, terms, "factor", "0.0")
            yield f"factors{suffix}[row, None].store({values})"
            if one.above is not None:
                yield f"acc_mn{suffix}[row, None].store(acc_mn{suffix}[row, None].load() * grown)"
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
        shared = [t for t in self.elements if t.name in names - self.vectors and not self.names.differ(t)]
        return [line for t in shared for line in self.load(t)]
