"""How the statements of `compute` become walks over a row.

A reduction that needs the result of another one comes in a later walk. What is the same along the whole row is computed
once for it, after the walk that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

from cutegen.dtypes import Dtype
from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.spans import span
from cutegen.expressions.tree import Binary, Call, Cast, Expr, Literal_, Local, Name, Reduce, Scan, Typed, Unary, walk
from cutegen.families.rowwise.alone import alone_in, at_place, is_there
from cutegen.families.rowwise.online import Seen
from cutegen.families.rowwise.places import BROUGHT, beside_place, brought, in_32_bits
from cutegen.families.rowwise.walks import (
    RESULT,
    Column,
    Element,
    Function,
    Named,
    Program,
    Reduction,
    RowStep,
    Store,
    Walk,
)


def program_of(
    statements: Sequence[Typed],
    shapes: Mapping[str, tuple[str, ...]],
    row: str,
    size: int | None,
    once: bool,
    online: bool,
    parts: Collection[str] = (),
    fast: bool = False,
) -> Program:
    """The walks of typed statements over rows of the mode `row`, whose size is `size` if that is fixed.

    `shapes` has the modes of each tensor, and `parts` those that the row's own is made of, if any. With `once` each
    element's values stay where they were computed first; else every walk computes again what it needs of them. With
    `online` a sum of exponentials above a row's largest value is found in the walk that finds that value, and a sum of
    squares around a row's mean in the walk that finds the mean. With `fast` elements are divided by a sum of
    exponentials as products with its reciprocal.
    """
    return _Planner(statements, shapes, row, size, online, parts, fast).program(once)


@dataclass(frozen=True)
class _Item:
    """A step before it is put into a walk: `level` is the number of walks that must have ended."""

    step: Named | Element | Reduction | Store | Column
    level: int
    along: bool  # the row: it is one of each element


class _Planner:
    def __init__(
        self,
        statements: Sequence[Typed],
        shapes: Mapping[str, tuple[str, ...]],
        row: str,
        size: int | None,
        online: bool,
        parts: Collection[str],
        fast: bool,
    ) -> None:
        self.statements, self.row, self.size, self.online, self.fast = statements, row, size, online, fast
        self.shapes, self.parts = shapes, frozenset(parts)
        self.spans = {name: frozenset(shape) for name, shape in shapes.items()}
        self.levels: dict[str, int] = {}
        self.items: list[_Item] = []
        self.known: dict[Expr, Local] = {}  # what has a name already
        self.taken = {*shapes, *(typed.target for typed in statements)}
        self.taken |= {node.id for typed in statements for node in walk(typed.value) if isinstance(node, Name)}

    def program(self, once: bool) -> Program:
        later = {node.id for typed in self.statements for node in walk(typed.value) if isinstance(node, Local)}
        for typed in self.statements:
            self._statement(typed, typed.target in later)
        ends = [
            i for i in self.items if isinstance(i.step, Reduction | Column) or isinstance(i.step, Store) and i.along
        ]
        count = max((item.level + 1 for item in ends), default=0)
        self._put_off_of_rows(count)
        walks = self._walks(count, once)
        while not once and self._put_off(walks):
            walks = self._walks(count, once)
        return Program(self._after(0), walks)

    def _walks(self, count: int, once: bool) -> tuple[Walk, ...]:
        done: set[str] = set()
        found = []
        for number in range(count):
            found.append(self._walk(number, done))
            if once:
                done |= {named.name for named in found[-1].elements}
        return tuple(found)

    def _put_off_of_rows(self, count: int) -> None:
        """Puts off the stores of values of a row that are read as well, to the end of the row: after all its walks.

        Every thread of the row reads the old value, and one of them writes the new one.
        """
        read = {node.id for typed in self.statements for node in walk(typed.value) if isinstance(node, Name)}
        for i, item in enumerate(self.items):
            if isinstance(item.step, Store) and not item.along and item.step.tensor in read:
                self.items[i] = replace(item, level=count)

    def _put_off(self, walks: Sequence[Walk]) -> bool:
        """Puts off the stores of tensors that a later walk still reads as they were; whether there were any."""
        last = {name: number for number, one in enumerate(walks) for name in one.reads}
        before = list(self.items)
        for i, item in enumerate(before):
            if isinstance(item.step, Store) and item.along:
                level = max(item.level, last.get(item.step.tensor, 0))
                self.items[i] = replace(item, level=level)
        return self.items != before

    def _walk(self, number: int, done: set[str]) -> Walk:
        here = [item.step for item in self.items if item.level == number]
        reductions = tuple(step for step in here if isinstance(step, Reduction))
        stores = tuple(i.step for i in self.items if i.level == number and i.along and isinstance(i.step, Store))
        columns = tuple(step for step in here if isinstance(step, Column))
        ends: tuple[Reduction | Store | Column, ...] = (*reductions, *stores, *columns)
        wanted = {node.id for step in ends for node in walk(step.value) if isinstance(node, Local)}
        elements: list[Named] = []
        for item in reversed(self.items):
            if isinstance(item.step, Named) and item.along and item.step.name in wanted - done:
                elements.insert(0, item.step)
                wanted |= {node.id for node in walk(item.step.value) if isinstance(node, Local)}
        one = Walk((), tuple(elements), stores, reductions, columns, self._after(number + 1))
        names = {node.id for value in one.values for node in walk(value) if isinstance(node, Name)}
        reads = tuple(name for name in self.shapes if name in names and self.row in self.shapes[name])
        return replace(one, reads=reads)

    def _after(self, level: int) -> tuple[RowStep, ...]:
        """The steps for values that are the same along the row and can be computed once `level` walks have ended."""
        steps = (item.step for item in self.items if item.level == level and not item.along)
        return tuple(step for step in steps if isinstance(step, Named | Element | Store))

    def _statement(self, typed: Typed, later: bool) -> None:
        stored, along = typed.stored, self._along(typed.value)
        outermost = next((node for node in walk(typed.value) if isinstance(node, Reduce)), None)
        if outermost is not None and outermost.mode != self.row:
            self._column(typed, outermost)
            return
        if isinstance(typed.value, Reduce):
            value: Expr = self._reduced(typed.value, typed.target)
        elif isinstance(typed.value, Scan):
            value = self._scanned(typed.value, typed.target)
        else:
            value = self._split(typed.value, within_row=not along)
        if (later or stored is None) and not (isinstance(value, Local) and value.id == typed.target):
            value = self._name(typed.target, value, along)
        self.spans[typed.target] = self._span(typed.value)
        if stored is None:
            return
        if stored is typed.value:
            stored = value
        elif isinstance(stored, Cast) and stored.x is typed.value:
            stored = replace(stored, x=value)
        lies_along = self.row in self.shapes[typed.tensor]
        if lies_along and not along and not isinstance(stored, Local) and not _is_constant(stored):
            stored = self._name(self._free("row_value"), stored, along=False)
        store = Store(typed.tensor, stored, typed.part.at if typed.part else ())
        self.items.append(_Item(store, self._level(stored), lies_along))

    def _column(self, typed: Typed, node: Reduce) -> None:
        """An output that is reduced over the rows; a mean over several modes is one over all of them together."""
        function, value = node.function, self._split(node.nested[-1].x, within_row=False)
        result, finish = Local(RESULT, dtype=node.dtype, place=node.place), None
        if node is not typed.value:

            def put(part: Expr) -> Expr:
                return result if part == node else rebuilt(part, put)

            assert typed.stored is not None
            finish = put(typed.stored)
        column = Column(typed.target, _combining(function), function == "mean", value, finish)
        self.items.append(_Item(column, self._level(value), True))

    def _name(self, name: str, value: Expr, along: bool, why: str = "") -> Local:
        level = self._level(value)
        self.items.append(_Item(Named(name, value, why), level, along))
        self.levels[name] = level
        local = Local(name, dtype=value.dtype, place=value.place)
        self.spans[name] = frozenset([self.row] if along else [])
        return local

    def _split(self, node: Expr, within_row: bool) -> Expr:
        """The expression with names for its reductions and, unless it is `within_row` itself, for what is the same
        along the row.
        """
        if isinstance(node, Reduce):
            return self._reduced(node)
        if isinstance(node, Scan):
            return self._scanned(node)
        if not node.children:
            return node
        if not within_row and not self._along(node) and not _is_constant(node):
            return self._once(node, "row_value")
        number = beside_place(node, self.row, self._along)
        if number is not None and not _is_constant(number):
            return in_32_bits(node, self.row, self._once(brought(number), "row_place", BROUGHT))

        def part(child: Expr) -> Expr:
            return self._split(child, within_row)

        match node:
            case Unary() | Cast():
                return replace(node, x=part(node.x))
            case Binary(op="/") if not within_row and self._is_normalised(node):
                reciprocal = self._once(replace(node, left=Literal_(1.0, dtype=node.dtype)), "row_inverse")
                return replace(node, op="*", left=part(node.left), right=reciprocal)
            case Binary():
                return replace(node, left=part(node.left), right=part(node.right))
            case Call():
                return replace(node, arguments=tuple(part(argument) for argument in node.arguments))
        raise AssertionError(node)

    def _is_normalised(self, node: Binary) -> bool:
        """Whether elements are divided by the sum of exponentials above a row's largest value, which is from 1 to the
        row's size, so that its reciprocal neither overflows nor is subnormal.
        """
        if not self.fast or node.dtype is not Dtype.f32 or not self._along(node.left) or self._along(node.right):
            return False
        total = self._split(node.right, within_row=True)
        found = next((o for o in self.seen.reductions if isinstance(total, Local) and o.name == total.id), None)
        if found is None or found.function != "sum":
            return False
        return found.above is not None or self.seen.largest_below(found.value) is not None

    def _once(self, node: Expr, wanted: str, why: str = "") -> Local:
        """The name of what is the same along the row, `wanted` or one like it; `why` is a comment."""
        if node not in self.known:
            value = self._split(node, within_row=True)
            self.known[node] = self._name(self._free(wanted), value, along=False, why=why)
        return self.known[node]

    def _reduced(self, node: Reduce, name: str | None = None) -> Local:
        """The name of a reduction's result: `name`, or a new one. A mean is a sum that is divided by the row's size."""
        if node in self.known:
            return self.known[node]
        assert node.dtype is not None
        if node.function == "mean":
            total = self._reduced(replace(node, function="sum"))
            mean = Binary("/", total, self._count(node.dtype), dtype=node.dtype, place=node.place)
            self.known[node] = self._name(name or self._free("row_mean"), mean, along=False)
            return self.known[node]
        if node.function == "var":
            return self._variance(node, name)
        function = _combining(node.function)
        value = self._split(node.x, within_row=False)
        if node.function == "sum" and (found := self._alone(value)) is not None:
            self.known[node] = self._name(name or self._free("row_element"), found, along=False)
            return self.known[node]
        name = name or self._free(f"row_{function}")
        level = self._level(value)
        reduction = Reduction(name, function, value)
        if self.online and function == "sum" and (largest := self.seen.largest_below(value)) is not None:
            reduction, level = Reduction(name, function, largest.value, largest.name), self.levels[largest.name] - 1
        elif self.online and function == "sum" and (summed := self.seen.mean_below(value)) is not None:
            around = summed.name, self._count_of(summed)
            reduction, level = Reduction(name, function, summed.value, around=around), self.levels[summed.name] - 1
        self.items.append(_Item(reduction, level, along=False))
        self.levels[name] = level + 1
        self.spans[name] = frozenset()
        self.known[node] = Local(name, dtype=node.dtype, place=node.place)
        return self.known[node]

    def _scanned(self, node: Scan, name: str | None = None) -> Local:
        """The name of what a scan makes of each element: `name`, or a new one."""
        if node not in self.known:
            whole = replace(node, x=self._split(node.x, within_row=False))
            wanted = "row_sums" if node.function == "cumsum" else "row_products"
            self.known[node] = self._name(name or self._free(wanted), whole, along=True)
        return self.known[node]

    def _alone(self, summed: Expr) -> Expr | None:
        """The value of the only element that a sum of `summed` has; None if it has others.

        Where something is stored of each element as well, what says which one it is most often is computed for all.
        """
        along = {name for name, shape in self.shapes.items() if self.row in shape}
        stored = any(typed.stored is not None and typed.tensor in along for typed in self.statements)
        one = None if stored or self.parts - {self.row} else alone_in(summed, self.seen, along, self._along)
        if one is None:
            return None
        values, level = {}, self._level(one.place)
        there = self._name(self._free("has_place"), is_there(one, self.row), along=False)
        for tensor in one.reads:
            name = self._free(f"row_{tensor.id}")
            self.items.append(_Item(Element(name, tensor.id, one.place, there), level, along=False))
            self.levels[name], self.spans[name] = level, frozenset()
            values[tensor.id] = Local(name, dtype=tensor.dtype, place=tensor.place)
        return at_place(one, self.row, values, there)

    def _count(self, dtype: Dtype, less: int = 0) -> Expr:
        """The number of a row's elements, or `less` of them, but not fewer than none."""
        if self.size is not None:
            return Literal_(float(max(0, self.size - less)), dtype=dtype)
        size: Expr = Name(self.row, dtype=Dtype.i32)
        if less:
            fewer = Binary("-", size, Literal_(less, dtype=Dtype.i32), dtype=Dtype.i32)
            size = Call("maximum", (fewer, Literal_(0, dtype=Dtype.i32)), dtype=Dtype.i32)
        return Cast(size, dtype=dtype)

    def _variance(self, node: Reduce, name: str | None) -> Local:
        """The name of the sum of the squares around the mean, divided by one less than the row's size."""
        assert node.dtype is not None
        dtype, place = node.dtype, node.place
        mean = replace(node, function="mean")
        difference = Binary("-", node.x, mean, dtype=dtype, place=place)
        squares = Binary("**", difference, Literal_(2, dtype=Dtype.i32), dtype=dtype, place=place)
        total = self._reduced(replace(node, function="sum", x=squares))
        variance = Binary("/", total, self._count(dtype, 1), dtype=dtype, place=place)
        self.known[node] = self._name(name or self._free("row_var"), variance, along=False)
        return self.known[node]

    @property
    def seen(self) -> Seen:
        """The reductions and named values made from the statements so far."""
        steps = [item.step for item in self.items]
        rows = {i.step.name: i.step.value for i in self.items if isinstance(i.step, Named) and not i.along}
        elements = {i.step.name: i.step.value for i in self.items if isinstance(i.step, Named) and i.along}
        return Seen(tuple(s for s in steps if isinstance(s, Reduction)), rows, elements, self.row, self.size)

    def _count_of(self, total: Reduction) -> str:
        """The name of how many values a sum is of, as far as it has come."""
        for item in self.items:
            if isinstance(item.step, Reduction) and item.step.around is not None and item.step.around[0] == total.name:
                return item.step.around[1]
        name = self._free("counted")
        self.items.append(
            _Item(Reduction(name, "sum", Literal_(1.0, dtype=total.dtype)), self.levels[total.name] - 1, False)
        )
        self.levels[name] = self.levels[total.name]
        self.spans[name] = frozenset()
        return name

    def _free(self, wanted: str) -> str:
        name = next(n for n in chain([wanted], (f"{wanted}_{i}" for i in count(1))) if n not in self.taken)
        self.taken.add(name)
        return name

    def _span(self, node: Expr) -> frozenset[str]:
        """The modes of an expression. One that varies along a part of the row does along the row, and once that is
        reduced along neither.
        """
        if isinstance(node, Reduce):
            return self._span(node.x) - {node.mode} - (self.parts if node.mode == self.row else frozenset())
        if node.children:
            return frozenset[str]().union(*map(self._span, node.children))
        found = span(node, self.spans)
        return found | {self.row} if found & self.parts else found

    def _along(self, node: Expr) -> bool:
        return self.row in self._span(node)

    def _level(self, node: Expr) -> int:
        return max((self.levels.get(n.id, 0) for n in walk(node) if isinstance(n, Local)), default=0)


def _combining(function: str) -> Function:
    """The function that combines two partial results; a mean is a sum that is divided at its end."""
    found: dict[str, Function] = {"max": "max", "min": "min", "prod": "prod"}
    return found.get(function, "sum")


def _is_constant(node: Expr) -> bool:
    """Whether an expression is made of numbers alone."""
    return all(isinstance(n, Literal_ | Unary | Binary | Cast | Call) for n in walk(node))
