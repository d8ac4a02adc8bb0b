"""The text of what is the same along a row: what is computed of it, read of it, and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from cutegen.codegen.variables import Variables
from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Expr, Name
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.printing import ElementPrinter, RowPrinter
from cutegen.families.rowwise.schedule import Spec
from cutegen.families.rowwise.walk_parts import all_have_read
from cutegen.families.rowwise.walks import Element, Named, RowStep, Store
from cutegen.language.model import Tensor


class RowText:
    """The texts of the steps for rows. Names are given out in the order of the kernel."""

    plan: RowwisePlan
    spec: Spec
    variables: Variables
    row_coordinates: dict[str, str]  # variables, by the modes beside the row's
    row_variables: Mapping[str, str]  # by the tensors that are read for a row as a whole
    row_printer: RowPrinter
    element_printer: ElementPrinter
    width: int  # of a line
    old_are_read: bool  # whether the threads of a row have met since they read its old values

    def row_load(self, name: str) -> tuple[str, str, str]:
        """Variable, tensor and text of a value that is the same along the row."""
        tensor = self.spec.tensor(name)
        text = f"m{name}[{self._index(tensor)}]"
        if tensor.dtype is Dtype.bool:
            text += " != 0"
        if self.plan.beside in self.plan.masked:
            none = "False" if tensor.dtype is Dtype.bool else "0.0" if tensor.dtype.is_float else "0"
            text = f"{text} if has_row else cutlass.{tensor.dtype.cutlass}({none})"
        return self.row_variables[name], name, text

    def row_steps(self, steps: Sequence[RowStep]) -> list[str]:
        """The statements of what is computed and stored of a row as a whole: stores that follow each other together."""
        lines: list[str] = []
        for stores, group in groupby(steps, lambda step: isinstance(step, Store)):
            own = list(group)
            lines += self._stored([step for step in own if isinstance(step, Store)]) if stores else []
            lines += [] if stores else [line for step in own for line in self._row_step(step)]
        return lines

    def _row_step(self, step: RowStep) -> list[str]:
        """The statements of what is computed of a row as a whole, or read of it."""
        if isinstance(step, Named):
            variable = self._variable(step.name)
            lines = [*([f"# {step.why}"] if step.why else []), *self.row_printer.keep(step.value, step.name, variable)]
            self._known(step.name, self.row_printer.locals[step.name])
            self.element_printer.remember(step.name, step.value)
            return lines
        if isinstance(step, Element):
            return self._element(step)
        raise AssertionError(step)

    def _stored(self, stores: Sequence[Store]) -> list[str]:
        """The statements that store values of a row, by one of its threads, each to a place of its own."""
        plan, lines, assigned, read = self.plan, list[str](), list[str](), False
        for step in stores:
            part = "".join(f"_{i}" for _, i in step.at)
            target = self.variables.free(f"result_{step.tensor}{part}")
            lines += self.row_printer.run(step.value, target)
            held = lines[-1].removeprefix(f"{target} = ")
            if held.isidentifier():
                lines, target = lines[:-1], held
            assigned.append(f"m{step.tensor}[{self._index(self.spec.tensor(step.tensor), step.at)}] = {target}")
            read = read or step.tensor in plan.row_tensors
        terms = ["tidx % THREADS_PER_ROW == 0"] if plan.threads_per_row > 1 else []
        terms = ["tidx == 0"] if plan.fewer_threads and terms else terms
        terms += ["rank == 0"] if plan.cluster > 1 else []
        terms += ["has_row"] if plan.beside in plan.masked else []
        if read and not self.old_are_read:
            lines, self.old_are_read = [*lines, *all_have_read(plan)], True
        return [*lines, f"if {' and '.join(terms)}:", *(f"    {x}" for x in assigned)] if terms else [*lines, *assigned]

    def _element(self, step: Element) -> list[str]:
        """The statements that read one element of a tensor along the row."""
        tensor, variable = self.spec.tensor(step.tensor), self._variable(step.name)
        place, there = (self.row_printer.print(one).text for one in (step.value, step.there))
        there += " & has_row" if self.plan.beside in self.plan.masked else ""
        index = ", ".join(place if mode == self.plan.row else self.row_coordinates[mode] for mode in tensor.modes)
        self._known(step.name, variable, Name(tensor.name, dtype=tensor.dtype))
        text, zero = f"m{step.tensor}[{index}]", f"cutlass.{tensor.dtype.cutlass}(0.0)"
        line = f"{variable} = {text} if {there} else {zero}"
        return (
            [line] if len(line) <= self.width else [f"{variable} = {zero}", f"if {there}:", f"    {variable} = {text}"]
        )

    def _index(self, tensor: Tensor, at: Sequence[tuple[str, int]] = ()) -> str:
        """The place of a row's value in a tensor, `at` some coordinates; 0 in one without modes."""
        places = {**self.row_coordinates, **{mode: self.row_variables[index] for mode, index in tensor.at}}
        places |= {mode: str(i) for mode, i in at}
        return ", ".join(places.get(mode, "0") for mode in tensor.shape) or "0"

    def _variable(self, name: str) -> str:
        tensor = next((t for t in self.spec.tensors if t.name == name), None)
        return self.variables.free(f"new_{tensor.argument}" if tensor else name, f"{name}_value")

    def _known(self, name: str, variable: str, value: Expr | None = None) -> None:
        """Both printers know a value of the row by its variable, and the numbers that it can be, if given."""
        self.row_printer.locals[name] = self.element_printer.locals[name] = variable
        if value is not None:
            self.row_printer.intervals.keep(name, value)
