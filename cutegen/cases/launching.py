"""How the `launch` of a module chooses among the launches of its cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from cutegen.cases.forms import Form
from cutegen.cases.kernels import KernelText
from cutegen.cases.known_text import KnownText, promised
from cutegen.cases.plan import CasesPlan
from cutegen.codegen import formatting
from cutegen.codegen.formatting import WIDTH, Item, call, python_tuple
from cutegen.codegen.regions import begin, end
from cutegen.language.cases import Conditions
from cutegen.language.model import KernelSpec


@dataclass(frozen=True)
class TargetText:
    """The cases that some targets have."""

    when: str  # empty where all targets have the same
    known: list[str]  # statements that name tensors with what all cases compared by cost know of them
    common: str  # the statement that finds out whether what several cases ask holds; empty if there is none
    choices: list[str]  # statements that launch a case or several, with the marks of regions


@dataclass(frozen=True)
class Launching:
    """The inputs from which `launch` is printed.

    `target` is the name of the parameter for the target; empty where all targets have the same cases. `by_cost` names
    two parameters: the number of the kernel with the least cost, and the numbers of those that are compiled. `known`
    has names for tensors with what all cases compared by cost know of them; other cases share functions for that:
    `promises`. `in_common` is the variable for whether the conditions that several cases share hold. `in_loop` is the
    variable for the number of a case in a loop over cases.
    """

    plan: CasesPlan
    kernels: Sequence[KernelText]
    forms: Mapping[int, Form]
    target: str
    by_cost: tuple[str, str]
    known: Mapping[str, str]
    promises: Mapping[int, KnownText]
    in_common: str
    in_loop: str

    @property
    def width(self) -> int:
        """The columns of a line for the cases of a target: four fewer where they are indented under its condition."""
        return WIDTH - 4 * bool(self.target)

    def targets(self) -> list[TargetText]:
        """The choice for each group of targets that have the same cases."""
        plan = self.plan
        groups: dict[tuple[int, ...], list[str]] = {}
        for target in plan.spec.targets:
            groups.setdefault(cases_of(plan, target), []).append(target)
        found = []
        for i, (numbers, targets) in enumerate(groups.items()):
            quoted = [f'"{target}"' for target in targets]
            one_of = f"== {quoted[0]}" if len(quoted) == 1 else f"in {python_tuple(quoted)}"
            condition = f"if cutlass.const_expr({self.target} {one_of}):"
            when = "else:" if i + 1 == len(groups) else condition if i == 0 else f"el{condition}"
            asked = [
                _terms(plan, plan.conditions[n]) for n in numbers if not plan.conditions[n].by_cost and n != numbers[-1]
            ]
            shared = [term for term in asked[0] if all(term in terms for terms in asked)] if len(asked) > 1 else []
            shared = shared if len(shared) > 1 or any(term.startswith("_") for term in shared) else []
            common = formatting.chain(f"{self.in_common} = ", list(map(_inner, shared)), " & ", 4, "", self.width)
            compared = next((plan.cases[n].spec for n in numbers if plan.conditions[n].by_cost), None)
            named = []
            for tensor in plan.spec.tensors:
                if compared is None or tensor.name not in self.known:
                    continue
                item = promised(plan.spec, compared, tensor)
                assert not isinstance(item, str)
                named.append(call(f"{self.known[tensor.name]} = {item[0]}", item[1], item[2], 4, self.width))
            choices = ["\n".join(choice) for choice in self._choices(numbers, shared)]
            found.append(TargetText(when if self.target else "", named, common if shared else "", choices))
        return found

    def _choices(self, numbers: Sequence[int], shared: Sequence[str]) -> Iterator[list[str]]:
        """The statements that launch the cases of a target; several cases read the `shared` values."""
        first = next((i for i, n in enumerate(numbers) if self.plan.conditions[n].by_cost), len(numbers))
        compared = numbers[first:]
        tables = self._tables(compared)
        looped = bool(tables) and all(self.plan.conditions[n].by_cost for n in compared)
        for number in numbers[:first] if looped else numbers:
            yield self._choice(number, numbers, shared)
        if not looped:
            return
        if first:
            yield ["    else:"]
        others = len(self.plan.by_cost) if self.plan.told_by_sizes else None
        yield self._compared(compared, tables, others, 4 + 4 * bool(first))

    def _tables(self, numbers: Sequence[int]) -> dict[int, str]:
        """The tables that have some compared cases and no others, one after the other and called alike."""
        found = {}
        for number in numbers:
            form = self.forms.get(number)
            if form is None or not form.table:
                continue
            arguments = [self._arguments(self.kernels[n], self.known)[:-1] for n in form.numbers]
            places = [self.plan.by_cost.index(n) for n in form.numbers]
            in_order = places == [*range(places[0], places[0] + len(places))] and {*form.numbers} <= {*numbers}
            if in_order and all(one == arguments[0] for one in arguments):
                found[number] = form.table
        return found

    def _compared(
        self, numbers: Sequence[int], tables: Mapping[int, str], others: int | None, column: int
    ) -> list[str]:
        """The statements that launch those of some compared cases that are compiled and chosen. `others` is the number
        that stands for all that are not compared.
        """
        number, (chosen, compiled) = self.in_loop, self.by_cost
        over = compiled if others is None else f"{{*{compiled}}} - {{{others}}}"
        lines = [f"for {number} in {over}:", f"    if {chosen} == {number}:"]
        launches = [list(several) for _, several in groupby(numbers, key=lambda n: tables.get(n, str(n)))]
        for place, several in enumerate(launches):
            indent, kernel = 8 + 4 * (len(launches) > 1), self.kernels[several[0]]
            first, table = self.plan.by_cost.index(several[0]), tables.get(several[0])
            arguments = self._arguments(kernel, self.known)
            if table is not None:
                index = f"{table}[{number}{f' - {first}' if first else ''}]"
                arguments = [index if item == kernel.passed[-1] else item for item in arguments]
            if len(launches) > 1:
                last = place == len(launches) - 1
                when = f"{'el' * (place > 0)}if cutlass.const_expr({number} < {first + len(several)}):"
                lines.append(" " * 8 + ("else:" if last else when))
            launched = call(f"{kernel.launch}(", arguments, ")", column + indent, self.width)
            lines += [" " * indent + line if k == 0 else line[column:] for k, line in enumerate(launched.split("\n"))]
        lines = [" " * column + line for line in lines]
        return [*chain.from_iterable(map(self._begin, reversed(numbers))), *lines, *end() * len(numbers)]

    def _begin(self, number: int) -> tuple[str, ...]:
        path = f"schedule.{number}" + ".for" * (not self.plan.conditions[number].always)
        return begin(path, f"case {number + 1}")

    def _choice(self, case: int, beside: Sequence[int], shared: Sequence[str]) -> list[str]:
        """The statement that launches a case among those of a target, whose numbers are `beside`."""
        plan, kernel, conditions = self.plan, self.kernels[case], self.plan.conditions[case]
        terms, within = _terms(plan, conditions), ""
        first, last = case == beside[0], case == beside[-1]
        if conditions.by_cost:
            (chosen, compiled), place = self.by_cost, plan.by_cost.index(case)
            terms, within = [f"{chosen} == {place}"], f"if cutlass.const_expr({place} in {compiled}):"
        elif case in plan.told_by_sizes and set(plan.by_cost) & set(beside):
            within = f"if cutlass.const_expr({len(plan.by_cost)} in {self.by_cost[1]}):"
        if shared and not conditions.by_cost and not last:
            terms = [self.in_common, *(term for term in terms if term not in shared)]
        when = ("" if first else "else:") if last else ""
        if not last:
            asked = [_inner(term) for term in terms] if len(terms) > 1 else terms
            when = formatting.chain("if " if first else "elif ", asked, " & ", 4, ":", self.width)
        heads = [*[when] * bool(when), *[within] * bool(within)]
        indent = 4 + 4 * len(heads)
        arguments = self._arguments(kernel, self.known if conditions.by_cost else {}, self.promises.get(case))
        launched = call(f"{kernel.launch}(", arguments, ")", indent, self.width)
        lines = [" " * (4 + 4 * depth) + line for depth, line in enumerate((*heads, launched))]
        return [*self._begin(case), *lines, *end()]

    def _arguments(self, kernel: KernelText, known: Mapping[str, str], promise: KnownText | None = None) -> list[Item]:
        """The arguments of a case's launch; `known` has variables for tensors with what the case knows of them."""
        spec, own = self.plan.spec, kernel.plan.spec
        tensors: list[Item] = [known.get(tensor.name) or promised(spec, own, tensor) for tensor in spec.tensors]
        return [
            *([promise.called] if promise else tensors),
            *(scalar.name for scalar in spec.scalars),
            *kernel.spaces,
            "stream",
            *["multiprocessors"] * bool(kernel.parts.multiprocessors),
            *kernel.passed,
        ]


def cases_of(plan: CasesPlan, target: str) -> tuple[int, ...]:
    """The numbers of the cases that a target has, up to the first that takes every call."""
    found = []
    for number, one in enumerate(plan.conditions):
        if one.takes_target(target):
            found.append(number)
            if not one.by_cost and not _terms(plan, one):
                break
    last = next(
        (n for n in reversed(found) if plan.conditions[n].by_cost and not _terms(plan, plan.conditions[n])), None
    )
    return tuple(n for n in found if last is None or n <= last)  # what follows those is never taken


def _inner(term: str) -> str:
    """A term as an operand of `&`."""
    return f"({term})" if " " in term and not term.startswith("_") else term


def _terms(plan: CasesPlan, conditions: Conditions) -> list[str]:
    """The conditions of a case that depend on the call, as expressions of the parameters of `launch`."""
    spec, found = plan.spec, []
    for mode, several in conditions.sizes.items():
        if mode not in spec.static:
            found += [one.text(_size(spec, mode)) for one in several]
    if conditions.align > 1:
        names = ", ".join(f"m{tensor.name}" for tensor in spec.tensors)
        found.append(f"_stand({conditions.align}, {names})")
    return found


def _size(spec: KernelSpec, mode: str) -> str:
    """The size of a mode, of the parameters of `launch`."""
    tensor = next(t for t in spec.tensors if mode in t.shape)
    return f"m{tensor.name}.shape[{tensor.shape.index(mode)}]"
