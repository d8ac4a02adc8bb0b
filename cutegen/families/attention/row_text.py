"""The computation of a thread on its part of rows at the end of a walk, as text: what follows from the sums, and its
stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cutegen.expressions.tree import Call, Expr, Local, Typed, walk
from cutegen.families.attention.operands import stored_with_columns
from cutegen.families.attention.plan import suffix_of
from cutegen.families.attention.row_printers import VectorPrinter
from cutegen.families.attention.tile_text import MINUS_INFINITY, TileText
from cutegen.families.common.row_printing import NumberedPrinter


@dataclass
class RowText(TileText):
    """Prints the statements of a plan's rows: of each tile, and at the end."""

    shared: bool = True  # whether four lanes have a row together

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
            lines.append("# A row whose scores are all -inf gives NaN; one without scores does not")
            exist = [f"{self.names.sizes[mode]} > 0" for mode in (self.walked.walked, *self.walked.around)]
            lines.append(f"is_lowest = {self.held[name]}[row] == {MINUS_INFINITY} and {' and '.join(exist)}")
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
        inverses = self.inverses(rows.locals)
        lines += [f"{inverse} = 1.0 / {rows.locals[name]}" for name, inverse in inverses.items()]
        printers: dict[str, VectorPrinter] = {}
        for number, one in enumerate(self.walked.outer):
            suffix, column = suffix_of(number), self.walked.columns_of(one)
            printers[one.name] = vectors = self.vector_printer(numbers, column, f"sums{suffix}")
            vectors.inverses = inverses
            lines.append(f"sums{suffix} = acc_mn{suffix}[row, None].load()" + " + undefined" * (one.above is not None))
            vectors.locals[one.name] = f"sums{suffix}"
            vectors.tensor_locals.add(one.name)
        for typed in self.walked.ends:
            printer: NumberedPrinter = rows
            if vectors_of_it := self.along_columns(typed.target, printers):
                printer = vectors_of_it
                fresh = {name: text for name, text in rows.locals.items() if name not in vectors_of_it.locals}
                vectors_of_it.locals |= fresh
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

    def along_columns(self, name: str, printers: Mapping[str, VectorPrinter]) -> VectorPrinter | None:
        """The printer of a statement at the end that has elements along the columns of an output; None of another."""
        if (outer := self.walked.outer_of(name)) is not None:
            return printers[outer.name]
        own = (one for one in self.walked.outer if self.walked.columns_of(one) in self.walked.spans[name])
        return next((printers[one.name] for one in own), None)

    def inverses(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Variables for the inverses of sums of exponentials, at least 1 each, which results of 16 bits are divided by:
        a product with one is off by 2 ulp of f32 at most.
        """
        wide = [tensor for tensor, _ in stored_with_columns(self.spec, self.walked)]
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
        wide = [one.name for one, _ in stored_with_columns(self.spec, self.walked)]
        if tensor.name in wide:
            fragments = f"tOrO{suffix_of(wide.index(tensor.name))}_mn"
            return [*printer.run(stored, "result"), f"{fragments}[row, None].store(result)"]
        index = ", ".join(self.names.places[mode] for mode in tensor.shape)
        lines = printer.run(stored, "result")
        rows = self.walked.rows[0]
        inside = f"tidx % 4 == 0 and {self.names.places[rows]} < {self.names.sizes[rows]}"
        return [*lines, f"if {inside if self.shared else 'tidx == 0'}:", f"    m{tensor.name}[{index}] = result"]
