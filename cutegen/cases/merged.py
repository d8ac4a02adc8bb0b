"""Functions of several forms as one, which tells by fields of the case what only some of them have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, zip_longest

from cutegen.cases.layout import further_in
from cutegen.cases.trees import Line, Node, Stacks, Unmergeable, merged_bodies, shared, tree_of
from cutegen.codegen.formatting import call
from cutegen.codegen.merging import Definition
from cutegen.codegen.regions import Region

NAME = "what only some cases have"  # of the region of a condition
Definitions = Mapping[int, Sequence[Definition]]  # of the kernels of a form, by the numbers of their cases


@dataclass(frozen=True)
class Told:
    """Of what tells forms from each other: each field's values in the cases of every form, and its key in the spec."""

    parameter: str
    values: Sequence[Mapping[str, frozenset[str]]]  # by the number of a form
    paths: Mapping[int, Mapping[str, str]]  # by the number of a case

    def condition(self, some: frozenset[int], among: frozenset[int], of: frozenset[str]) -> tuple[str, str]:
        """A condition that holds for the forms `some` and for no others of `among`, and the first field in it. Of
        single fields that suffice, one whose key is in `of`, the keys of the statements, comes first. Raises
        Unmergeable where there is no such condition.
        """
        terms, outside = list(self._terms(among)), among - some
        single = [one for one in terms if some <= one.always and outside <= one.never]
        if single:
            found = next((one for one in single if not of.isdisjoint(self.keys(one.field))), single[0])
            return found.text, found.field
        pairs = [(one, two) for one, two in combinations(terms, 2) if one.field != two.field]
        for one, two in pairs:
            if some <= one.always & two.always and outside <= one.never | two.never:
                return f"{one.text} and {two.text}", one.field
        for one, two in pairs:
            if some <= one.always | two.always and outside <= one.never & two.never:
                return f"{one.text} or {two.text}", one.field
        raise Unmergeable("no field tells some forms from the others")

    def keys(self, name: str) -> frozenset[str]:
        """Where in the spec a field is."""
        return frozenset(paths[name] for paths in self.paths.values() if name in paths)

    def _terms(self, among: frozenset[int]) -> Iterator[_Term]:
        """The conditions on single fields, each with the forms of `among` for which it always and never holds."""
        for name in self.values[0]:
            field = f"{self.parameter}.{name}"
            of_forms = {number: self.values[number][name] for number in among}
            if all(value in ("True", "False") for values in of_forms.values() for value in values):
                asked = {field: {"True"}, f"not {field}": {"False"}}
            elif all(value.isdecimal() and int(value) > 0 for values in of_forms.values() for value in values):
                more = {value for values in of_forms.values() for value in values} - {"1"}
                asked = {f"{field} > 1": more, f"{field} == 1": {"1"}}
            else:
                continue
            for text, holds in asked.items():
                always = frozenset(number for number, values in of_forms.items() if values <= holds)
                never = frozenset(number for number, values in of_forms.items() if values.isdisjoint(holds))
                yield _Term(text, name, always, never)


@dataclass(frozen=True)
class _Term:
    """A condition on one field: the forms for all of whose cases it holds, and those for none of whose it does."""

    text: str
    field: str
    always: frozenset[int]
    never: frozenset[int]


@dataclass(frozen=True)
class _Printed(Line):
    """A line of a merged function at its column."""

    own: bool = True  # whether it is a line of some case, and not a condition that was added


class Merger:
    """Makes one of the functions of several forms."""

    def __init__(self, forms: Sequence[Definitions], told: Told) -> None:
        self._forms, self._told = forms, told
        self._all = frozenset(range(len(forms)))
        by_name: dict[str, dict[int, dict[int, Definition]]] = {}
        for number, form in enumerate(forms):
            for case, definitions in form.items():
                for one in definitions:
                    if one.constant is None:
                        by_name.setdefault(one.name, {}).setdefault(number, {})[case] = one
        self._trees = {
            name: {number: tree_of(of_cases, number) for number, of_cases in found.items()}
            for name, found in by_name.items()
        }
        self._called = {
            used
            for of_forms in by_name.values()
            for of_cases in of_forms.values()
            for one in of_cases.values()
            for used in one.used - {one.name}
        }

    @property
    def alike(self) -> float:
        """The part of the statements of the functions that all forms have, in those which one form has."""
        least = sum(min(tree.size for tree in trees.values()) for trees in self._trees.values())
        same = 0
        for trees in self._trees.values():
            bodies = combinations((tree.branches[0].body for tree in trees.values()), 2)
            same += min(1 + shared(one, two) for one, two in bodies) if len(trees) == len(self._all) else 0
        return same / least

    def functions(self) -> tuple[Definition, ...]:
        """The functions of all. Raises Unmergeable where they cannot be one."""
        return tuple(self._function(name, list(trees.values())) for name, trees in self._trees.items())

    def _function(self, name: str, trees: Sequence[Node]) -> Definition:
        first, *others = trees
        body, of = first.branches[0].body, first.of
        for other in others:
            body, of = merged_bodies(body, other.branches[0].body), of | other.of
        heads = [tree.branches[0].head for tree in trees]
        if name in self._called and any(_parameters_of(head) != _parameters_of(heads[0]) for head in heads):
            raise Unmergeable(f"`{name}` is called with other arguments")
        lines = [_Printed(line.text, line.stacks) for line in _signature(heads)]
        lines += self._body(body, of, 4)
        if not all(line.own for line in lines) and self._told.parameter not in _parameters(_text(lines)):
            raise Unmergeable(f"`{name}` does not know the case")
        return Definition(name, _text(lines), tuple(_regions(_enclosed(lines))))

    def _body(self, body: Sequence[Node], among: frozenset[int], column: int) -> list[_Printed]:
        found: list[_Printed] = []
        some: list[Node] = []
        for node in body:
            if node.of < among:
                some.append(node)
                continue
            found += self._some(some, among, column)
            found += self._node(node, column)
            some = []
        return found + self._some(some, among, column)

    def _node(self, node: Node, column: int) -> list[_Printed]:
        found = _placed(node.notes, column)
        for branch in node.branches:
            found += _placed(branch.head, column)
            found += self._body(branch.body, node.of, column + 4)
        return found

    def _some(self, nodes: Sequence[Node], among: frozenset[int], column: int) -> list[_Printed]:
        """Statements of some forms only, under conditions."""
        found: list[_Printed] = []
        for alternatives in _alternatives(nodes, [self._preferred(node, among) for node in nodes]):
            left = among
            keys = frozenset(chain.from_iterable(_keys(node) for _, inner in alternatives for node in inner))
            if len(alternatives) > 1 and frozenset(chain.from_iterable(of for of, _ in alternatives)) == among:
                alternatives = sorted(alternatives, key=lambda one: self._negative(one[0], among, keys))
            for number, (of, inner) in enumerate(alternatives):
                (condition, name) = self._told.condition(of, left, keys) if of != left else ("", "")
                text = f"if cutlass.const_expr({condition}):" if condition else "else:"
                blank = [line for line in inner[0].notes[:1] if not line.text]
                inner[0] = replace(inner[0], notes=inner[0].notes[len(blank) :])
                found += _placed(blank[: number == 0], column)
                added = {case: (self._region(case, name),) for one in left for case in self._forms[one]} if name else {}
                found.append(
                    _Printed(f"{' ' * column}{'el' * (number > 0 and bool(condition))}{text}", added, own=False)
                )
                found += self._body(inner, of, column + 4)
                left -= of
        return found

    def _preferred(self, node: Node, among: frozenset[int]) -> str:
        """The field whose key is that of a statement, of those that tell the forms which have it."""
        try:
            return self._told.condition(node.of, among, _keys(node))[1]
        except Unmergeable:
            return ""

    def _negative(self, of: frozenset[int], among: frozenset[int], keys: frozenset[str]) -> bool:
        try:
            text, _ = self._told.condition(of, among, keys)
        except Unmergeable:
            return True
        return "not " in text or "==" in text

    def _region(self, case: int, name: str) -> Region:
        steps = self._told.paths[case][name].split(".")
        return Region(0, 0, tuple(int(step) if step.isdecimal() else step for step in steps), NAME)


def _keys(node: Node) -> frozenset[str]:
    """Where in the spec that is which a statement says."""
    stacks = (stack for line in node.branches[0].head for stack in line.stacks.values())
    return frozenset(region.key for region in chain.from_iterable(stacks))


def _alternatives(nodes: Sequence[Node], fields: Sequence[str]) -> Iterator[list[tuple[frozenset[int], list[Node]]]]:
    """The statements in groups of blocks with one field; at most one block of a group is for any form."""
    blocks: list[tuple[frozenset[int], str, list[Node]]] = []
    for node, field in zip(nodes, fields, strict=True):
        same = next((inner for of, told, inner in blocks if (of, told) == (node.of, field)), None)
        if same is not None:
            same.append(node)
        elif any(of & node.of for of, _, _ in blocks):
            yield [(of, inner) for of, _, inner in blocks]
            blocks = [(node.of, field, [node])]
        else:
            blocks.append((node.of, field, [node]))
    if blocks:
        yield [(of, inner) for of, _, inner in blocks]


def _signature(heads: Sequence[tuple[Line, ...]]) -> tuple[Line, ...]:
    """The first lines of a function, with the parameters of all."""
    stacks: Stacks = {case: stack for head in heads for case, stack in head[-1].stacks.items()}
    parameters = list(map(_parameters_of, heads))
    if all(one == parameters[0] for one in parameters):
        return tuple(replace(line, stacks=stacks) for line in heads[0])
    found: list[str] = list(parameters[0].values())
    for others in parameters[1:]:
        place = 0
        for one in others.values():
            if one not in found:
                found.insert(place, one)
            place = found.index(one) + 1
    before, rest = _text(heads[0]).split("def ", 1)
    text = before + call(f"def {rest.split('(')[0]}(", found, "):", 0)
    return tuple(Line(line, stacks) for line in text.split("\n"))


def _parameters_of(head: Sequence[Line]) -> dict[str, str]:
    return _parameters(f"{_text(head)} pass")


def _parameters(text: str) -> dict[str, str]:
    """The parameters of a function by their names, each as it is written."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    return {one.arg: ast.unparse(one) for one in function.args.args}


def _placed(lines: Sequence[Line], column: int) -> list[_Printed]:
    """Lines of a statement or comment at a column."""
    if not lines:
        return []
    texts = [line.text for line in lines]
    if lines[0].column == column:
        texts = [" " * column + text if text else "" for text in texts]
    else:
        texts = further_in(texts, column)
    stacks = [x.stacks for x in lines] if len(texts) == len(lines) else [lines[0].stacks] * len(texts)
    return [_Printed(text, stack) for text, stack in zip(texts, stacks, strict=True)]


def _text(lines: Iterable[Line]) -> str:
    return "\n".join(line.text for line in lines)


# -------------------------------------------------------------------------------------------------------------- regions


def _enclosed(lines: Sequence[_Printed]) -> list[list[tuple[Region, ...]]]:
    """Of each line the regions of every case, in the order in which they are nested: those of the first case that has
    it, inside of others; and where a case does not have it, those that enclose it.
    """
    cases = sorted({case for line in lines for case in line.stacks}, reverse=True)
    stacks: dict[int, list[tuple[Region, ...]]] = {case: _stacks(lines, case) for case in cases}
    found = []
    for row, line in enumerate(lines):
        own = [stacks[case][row] for case in cases]
        levels = [[one for one in level if one is not None] for level in zip_longest(*own)]
        owner = min((case for case in line.stacks if line.stacks[case]), default=None)
        if owner is not None and levels and stacks[owner][row][-1] != levels[-1][-1]:
            innermost = stacks[owner][row][-1]
            levels = [*([one for one in level if one != innermost] for level in levels), [innermost]]
        found.append([tuple(level) for level in levels])
    return found


def _stacks(lines: Sequence[_Printed], case: int) -> list[tuple[Region, ...]]:
    rows = [row for row, line in enumerate(lines) if line.own and case in line.stacks]
    found: list[tuple[Region, ...]] = []
    before: tuple[Region, ...] = ()
    following = iter(rows)
    row_after = next(following, None)
    for row, line in enumerate(lines):
        if row == row_after:
            before = line.stacks[case]
            row_after = next(following, None)
            found.append(before)
            continue
        after = lines[row_after].stacks[case] if row_after is not None else ()
        common = tuple(one for n, one in enumerate(before) if before[: n + 1] == after[: n + 1])
        found.append((*common, *line.stacks.get(case, ())))
    return found


def _regions(levels: Sequence[Sequence[tuple[Region, ...]]]) -> list[Region]:
    """The regions of lines, for each line those that contain it, outer ones first."""
    open_: list[tuple[int, Region]] = []  # places in `found`, and what stands there without its lines
    found: list[tuple[int, Region]] = []  # with the first line of each
    last: list[int] = []
    for row, of_line in enumerate(levels, 1):
        stack = list(chain.from_iterable(of_line))
        kept = 0
        while kept < min(len(open_), len(stack)) and open_[kept][1] == stack[kept]:
            kept += 1
        del open_[kept:]
        for region in stack[kept:]:
            open_.append((len(found), region))
            found.append((row, region))
            last.append(row)
        for place, _ in open_:
            last[place] = row
    return [Region(first, end, one.path, one.name) for (first, one), end in zip(found, last, strict=True)]
