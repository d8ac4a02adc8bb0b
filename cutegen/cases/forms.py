"""Cases whose kernels differ in constants alone: they share functions, which take those as fields of one parameter.

So do those of several forms which differ in few statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from cutegen.cases.following import following, in_place, names_in, needed, with_owner
from cutegen.cases.kernels import KernelText, inside_text, kernel_of
from cutegen.cases.merged import Merger, Told
from cutegen.cases.plan import CasesPlan
from cutegen.cases.trees import Unmergeable
from cutegen.codegen.formatting import WIDTH, call, width_of
from cutegen.codegen.merging import Definition, replaced_names
from cutegen.codegen.parts import Constant, case_parameter
from cutegen.codegen.regions import begin, end
from cutegen.codegen.variables import Variables
from cutegen.family import family_of
from cutegen.parts.acting import value_of
from cutegen.planning.plan import Plan

MOST = 0.7  # of the statements of kernels, that others share whose functions are merged with theirs


@dataclass(frozen=True)
class Form:
    """Cases that share functions.

    `parameter` is what those have for the case. `fields` are the constants in which the cases differ, of each case by
    its number from 0 on: all have those of the same names, in the same order. Of those that `formulas` have it is not
    one of the case's values, but follows from others. `type` is the class of the parameter that has them, and
    `instances` are the names of what each case gives for it.
    """

    parameter: str
    fields: Mapping[int, Sequence[Constant]]
    formulas: Mapping[str, str]
    in_place: Mapping[str, str]  # those of these that functions have instead of a field, as they have them
    unused: frozenset[str]  # constants in which they differ besides, and which none of them uses
    type: str
    instances: Mapping[int, str]
    groups: tuple[tuple[int, ...], ...]  # the cases that differ in constants alone
    told: frozenset[str] = frozenset()  # the fields by which functions tell these groups from each other
    table: str = ""  # the tuple that has the instances; empty where each one has a name
    conditions: str = ""  # of all of the table

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(self.fields)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields[self.numbers[0]])

    @property
    def in_functions(self) -> dict[str, str]:
        """Maps each field to its text in functions: an attribute of the parameter, or the formula in its place."""
        owned = {name: f"{self.parameter}.{name}" for name in self.names}
        return owned | {name: with_owner(text, self.parameter, self.names) for name, text in self.in_place.items()}

    def values(self, number: int) -> dict[str, str]:
        """The values of a case's fields by name, including those that follow from others."""
        return {field.name: field.value for field in self.fields[number]}

    @property
    def class_text(self) -> str:
        """The class of the parameter, with the marks of regions."""
        said = f'    """The parameters in which the kernels of cases {_enumerated(self.numbers)} differ."""'
        lines = ["@dataclass(frozen=True)", f"class {self.type}:", said, ""]
        of_cases = list(zip(*self.fields.values(), strict=True))
        own = [one for one in of_cases if one[0].name not in self.in_place]
        derived = [one for one in own if one[0].name in self.formulas]
        lines += chain.from_iterable(self._field(one) for one in own if one not in derived)
        lines += [""] * bool(derived) + list(chain.from_iterable(map(self._field, derived)))
        return "\n".join(lines)

    def _field(self, of_cases: Sequence[Constant]) -> Iterator[str]:
        """The lines of a field, in the regions of what each case says of it: of the first one inside of the others."""
        first = of_cases[0]
        type_ = "str" if first.value.startswith('"') else "bool" if first.value in ("True", "False") else "int"
        said = f"  # {first.comment}" if first.comment else ""
        paths = dict.fromkeys(one.path for one in reversed(of_cases))
        lines = [f"    {first.name}: {type_}{said}"]
        if first.name in self.formulas:
            formula = with_owner(self.formulas[first.name], "self", self.names)
            line = f"    {first.name} = property(lambda self: {formula})"
            lines = [line + said] if width_of(line + said) <= WIDTH else [f"    {said.strip()}", line]
        yield from chain.from_iterable(begin(path, first.name) for path in paths)
        yield from lines
        yield from chain.from_iterable(end() for _ in paths)

    @property
    def table_opens(self) -> str:
        """The lines before the instances in their table."""
        return f"# Cases {_enumerated(self.numbers)}: {self.conditions}\n{self.table} = ("

    def instance_text(self, number: int) -> str:
        """The instance that a case passes for the parameter; fields are named if those of every case fit in a line."""
        named = all(self._instance(one, True).count("\n") <= 2 for one in self.numbers)
        if not self.table:
            return self._instance(number, named)
        rows = [f"{self._instance(one, named)},  # case {one + 1}" for one in self.numbers]
        said = all("\n" not in row and width_of(row) <= WIDTH for row in rows)
        return rows[self.numbers.index(number)] if said else f"{self._instance(number, named)},"

    def _instance(self, number: int, named: bool) -> str:
        fields = [field for field in self.fields[number] if field.name not in self.formulas]
        values = [f"{field.name}={field.value}" if named else field.value for field in fields]
        if self.table:
            return "    " + call(f"{self.type}(", values, ")", 4)
        return call(f"{self.instances[number]} = {self.type}(", values, ")", 0)

    def of(self, definitions: Sequence[Definition]) -> tuple[Definition, ...]:
        """The definitions of a case's kernel, whose functions have the fields for its constants."""
        values, differing = _values(definitions), self.names | self.unused
        found = []
        for one in definitions:
            if one.constant is None:
                found.append(replace(one, text=replaced_names(one.text, self.in_functions)))
            elif one.name not in differing:
                # The cases may have the same of what differs
                constant = one.constant._replace(value=values[one.name]) if one.used & differing else one.constant
                found.append(replace(one, text=f"{one.name} = {constant.value}", constant=constant))
        return tuple(found)

    def merged(self, kernels: Mapping[int, KernelText]) -> dict[int, KernelText]:
        """The kernels of its cases, whose functions serve all of them."""
        if len(self.groups) == 1:
            return {}
        groups = [[kernels[number] for number in group] for group in self.groups]
        functions = _merger(groups, self.told, {number: self.values(number) for number in self.numbers}).functions()
        processors = next((k.parts.multiprocessors for k in kernels.values() if k.parts.multiprocessors), None)
        return {
            number: replace(
                kernel,
                device=(*(one for one in kernel.device if one.constant is not None), *functions),
                parts=replace(kernel.parts, multiprocessors=processors),
            )
            for number, kernel in kernels.items()
        }


def forms_of(plan: CasesPlan, variables: Variables, merges: bool = True) -> dict[int, Form]:
    """The forms of several cases, by the number of each of these. `variables` gives names to what forms need. With
    `merges` those that differ in few statements are one.
    """
    alike: dict[object, list[KernelText]] = {}
    for number, case in enumerate(plan.cases):
        general = family_of(case.spec).with_fields(case, None)
        if general is not None:
            kernel = kernel_of(number, general, {})
            if not kernel.host:
                alike.setdefault(_key(kernel), []).append(kernel)
    groups = _merged_groups(list(alike.values())) if merges else [_Groups((kernels,)) for kernels in alike.values()]
    several = [one for one in groups if sum(map(len, one.groups)) > 1]
    found: dict[int, Form] = {}
    for one in several:
        numbers = [kernel.number for kernel in one.groups[0]]
        form = _form(plan, one, variables, "" if len(several) == 1 else str(numbers[0] + 1))
        if form.names:  # else they share functions without a parameter
            found |= dict.fromkeys(form.numbers, form)
    return found


_Again = dict[tuple[int, frozenset[str]], KernelText]
"""Kernels that take fields for constants and are distinguished by some, by their case's number and the names of these.
"""


@dataclass(frozen=True)
class _Groups:
    """Cases in groups that differ in constants alone, whose functions are merged."""

    groups: tuple[Sequence[KernelText], ...]
    told: frozenset[str] = frozenset()


def _merged_groups(each: Sequence[Sequence[KernelText]]) -> list[_Groups]:
    """Groups of kernels whose functions can be merged: most often all, or all except the last ones."""
    found: list[_Groups] = []
    again: _Again = {}
    for most in range(len(each), 2, -1):
        first = _both(_Groups(tuple(each[: most - 1])), each[most - 1], again)
        if first is not None:
            found = [first]
            break
    for kernels in each[sum(len(one.groups) for one in found) :]:
        found = _with_group(found, kernels, again)
    return found


def _with_group(found: Sequence[_Groups], group: Sequence[KernelText], again: _Again) -> list[_Groups]:
    """Groups with one more, whose functions are merged with those of one that has most of their statements."""
    for place, one in enumerate(found):
        both = _both(one, group, again)
        if both is not None:
            return [*found[:place], both, *found[place + 1 :]]
    return [*found, _Groups((group,))]


def _both(one: _Groups, group: Sequence[KernelText], kept: _Again) -> _Groups | None:
    """Groups and another one, where their functions can be merged and have most of their statements alike."""
    groups, family = (*one.groups, group), family_of(group[0].plan.spec)
    if any(family_of(kernel.plan.spec) is not family for kernels in groups for kernel in kernels):
        return None
    tells = [kernel.plan.tells for kernels in groups for kernel in kernels]
    told = frozenset(name for name in tells[0] if len({own[name] in ("1", "False") for own in tells}) > 1)
    if not told:
        return None
    general = {kernel.number: family.with_fields(kernel.plan, None, told) for kernel in chain.from_iterable(groups)}
    if None in general.values():
        return None
    again = partial(_again, plans=general, told=told, kept=kept)
    names = [list(_values(again(kernels[0]).device)) for kernels in groups]
    if any(one != names[0] for one in names):
        return None
    told_apart = [list(map(again, kernels)) for kernels in groups]
    constants = [_values(kernel.device) for kernels in told_apart for kernel in kernels]
    fixed = set(chain.from_iterable(map(_fixed, chain.from_iterable(told_apart))))
    if any([*own] != [*constants[0]] or any(own[n] != constants[0][n] for n in fixed & {*own}) for own in constants):
        return None
    try:
        numbers = (kernel.number for kernels in told_apart for kernel in kernels)
        merger = _merger(told_apart, told, dict(zip(numbers, constants, strict=True)))
        merger.functions()
    except Unmergeable:
        return None
    return _Groups(tuple(told_apart), told) if merger.alike >= MOST else None


def _again(kernel: KernelText, plans: Mapping[int, Plan | None], told: frozenset[str], kept: _Again) -> KernelText:
    """A kernel by another plan, of those that have the numbers of cases; `told` is what that was made for."""
    found = kept.get((kernel.number, told))
    if found is None:
        plan = plans[kernel.number]
        assert plan is not None
        found = kept[kernel.number, told] = kernel_of(kernel.number, plan, {})
    return found


def _merger(
    groups: Sequence[Sequence[KernelText]], told: frozenset[str], values: Mapping[int, Mapping[str, str]]
) -> Merger:
    """The `Merger` of the functions of groups of kernels; `values` are those of the constants of each case."""
    paths: dict[int, dict[str, str]] = {}
    for kernel in chain.from_iterable(groups):
        constants = (one for one in kernel.parts.constants if one.name in told)
        paths[kernel.number] = {one.name: inside_text(one.path, kernel.number) for one in constants}
    tells = [name for name in groups[0][0].plan.tells if name in told]
    of_groups = [
        {name: frozenset(values[kernel.number][name] for kernel in group) for name in tells} for group in groups
    ]
    of_cases = [{kernel.number: kernel.device for kernel in group} for group in groups]
    return Merger(of_cases, Told(case_parameter(groups[0][0].plan.spec), of_groups, paths))


def with_all_regions(kernels: Sequence[KernelText]) -> KernelText:
    """The first kernel of a form, of whose lines the spec says something in each of its cases: in the first one's
    regions, inside of those of the others.
    """
    device = []
    for one, *others in zip(*(kernel.device for kernel in kernels), strict=True):
        lines = [(r.first_line, r.last_line) for r in one.regions]
        alike = [x.regions for x in others if [(r.first_line, r.last_line) for r in x.regions] == lines]
        regions = map(dict.fromkeys, zip(*reversed(alike), one.regions, strict=True))
        device.append(replace(one, regions=tuple(chain.from_iterable(regions))))
    return replace(kernels[0], device=tuple(device))


def _key(kernel: KernelText) -> object:
    """A key that is equal for kernels of one form: their family, functions, names of constants, and the values of those
    constants that functions without the parameter use.
    """
    functions, fixed = [one for one in kernel.device if one.constant is None], _fixed(kernel)
    constants = tuple((name, value if name in fixed else None) for name, value in _values(kernel.device).items())
    return family_of(kernel.plan.spec).name, tuple(one.text for one in functions), constants


def _fixed(kernel: KernelText) -> set[str]:
    """The names that those of a kernel's functions use which do not take the parameter."""
    case = case_parameter(kernel.plan.spec)
    functions = (one for one in kernel.device if one.constant is None and case not in one.arguments)
    return set(chain.from_iterable(one.used for one in functions))


def _form(plan: CasesPlan, of: _Groups, variables: Variables, numbered: str) -> Form:
    kernels = sorted(chain.from_iterable(of.groups), key=lambda kernel: kernel.number)
    values = [_values(kernel.device) for kernel in kernels]
    differing = {name for name in values[0] if len({own[name] for own in values}) > 1}
    formulas = following([kernel.parts.constants for kernel in kernels])
    formulas |= _repeated(values, differing - {*formulas})
    used = needed({*of.told, *chain.from_iterable(map(_used, kernels))}, formulas)
    fields = {
        kernel.number: tuple(
            one.constant._replace(value=own[one.name])
            for one in kernel.device
            if one.constant is not None and one.name in differing & used
        )
        for kernel, own in zip(kernels, values, strict=True)
    }
    formulas = {name: text for name, text in formulas.items() if name in differing & used}
    compared = all(number in plan.by_cost for number in fields)
    table = variables.free(f"CASES_{numbered}".rstrip("_")) if compared else ""
    names = [f"{table}[{place}]" if table else variables.free(f"CASE_{n + 1}") for place, n in enumerate(fields)]
    return Form(
        parameter=case_parameter(kernels[0].plan.spec),
        fields=fields,
        formulas=formulas,
        in_place=_in_place(of, formulas),
        unused=frozenset(differing - used),
        type=variables.free(f"Case{numbered}"),
        instances=dict(zip(fields, names, strict=True)),
        groups=tuple(tuple(kernel.number for kernel in group) for group in of.groups),
        told=of.told,
        table=table,
        conditions=str(plan.conditions[kernels[0].number]),
    )


def _repeated(values: Sequence[Mapping[str, str]], names: Iterable[str]) -> dict[str, str]:
    """Words that are those of another constant in every case, with the first one that has them."""
    columns = {name: tuple(own[name] for own in values) for name in values[0] if name in names}
    firsts: dict[tuple[str, ...], str] = {}
    found = {name: firsts.setdefault(column, name) for name, column in columns.items() if column[0].startswith('"')}
    return {name: first for name, first in found.items() if name != first}


def _in_place(of: _Groups, formulas: Mapping[str, str]) -> dict[str, str]:
    """The formulas that functions have instead of a field."""
    found = {}
    for name, formula in formulas.items():
        if any(name in names_in(other) for other in formulas.values()) or name in of.told:
            continue
        texts = {
            in_place(name, formula, [one for one in kernels[0].device if one.constant is None])
            for kernels in of.groups
            if name in {used for one in kernels[0].device if one.constant is None for used in one.used}
        }
        if len(texts) == 1 and None not in texts:
            found[name] = str(texts.pop())
    return found


def _used(kernel: KernelText) -> Iterator[str]:
    """The names that a kernel's functions use, and what the host asks of it."""
    yield from chain.from_iterable(one.used for one in kernel.device if one.constant is None)
    limits = (text for limit in kernel.parts.limits for text in (*limit.tiles, limit.wanted, limit.holds))
    for text in (*kernel.parts.largest.values(), *limits):
        yield from re.findall(r"\w+", text)


def _values(definitions: Iterable[Definition]) -> dict[str, str]:
    """The constants among definitions, with the text of what each one is."""
    found: dict[str, object] = {}
    for one in definitions:
        if one.constant is not None:
            found[one.name] = value_of(one.constant.value, found)
    return {name: f'"{value}"' if isinstance(value, str) else str(value) for name, value in found.items()}


def _enumerated(numbers: Sequence[int]) -> str:
    """Numbers of cases, from 1 on, as a sentence has them."""
    texts = [str(number + 1) for number in numbers]
    if len(texts) > 2 and numbers[-1] - numbers[0] == len(texts) - 1:
        return f"{texts[0]} to {texts[-1]}"
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
