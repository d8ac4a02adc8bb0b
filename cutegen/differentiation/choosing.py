"""Which values a backward names: outputs of the forward that it reads, the forward's locals, products that recur."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cutegen.differentiation.cost import NAME, Parts, cost, divisors, parts, reciprocals
from cutegen.differentiation.folding import Change, changes, is_condition, may_round, products
from cutegen.differentiation.rebuilding import rebuilt
from cutegen.expressions.functions import WAYS
from cutegen.expressions.reading_sums import sum_of_text
from cutegen.expressions.sums import Atom, Sum, call, factor_of, inside, named, of, total

PRODUCT = "product "  # begins the names of products, which no spec can have; they get others when they are written
MOST_PRODUCTS = 8
_KEPT_BY_TORCH = ("exp", "sigmoid", "tanh", "sqrt", "rsqrt")


@dataclass(frozen=True)
class Value:
    """A value that a statement of the forward computed; `meaning` expresses it in tensors and scalars alone."""

    name: str
    meaning: Sum
    exact: bool = True  # of an output: whether its tensor holds what was computed in no fewer bits

    @property
    def atom(self) -> Atom:
        return named(self.name, self.meaning.modes)


@dataclass(frozen=True)
class Chosen:
    """Gradients as they are to be written, by the tensors' names, and what the names in them mean.

    `kept` are outputs of the forward that are read. `meanings` are of locals and products, as far as those before them
    say; a local that is not there is what its statement says. `ways` are functions that are written in another way.
    """

    gradients: Mapping[str, Sum]
    kept: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    meanings: tuple[tuple[Atom, Sum], ...] = ()

    def changed(self, change: Change) -> Chosen:
        return replace(self, gradients={name: change(x) for name, x in self.gradients.items()})

    @property
    def cost(self) -> float:
        """Of the gradients and of the products that they use."""
        used = {atom for x in self.gradients.values() for atom in inside(x)}
        needed = []
        for atom, meaning in reversed(self.meanings):
            if atom in used:
                needed.append(meaning)
                used |= set(inside(meaning))
        return cost([*self.gradients.values(), *needed]) + NAME * sum(
            atom in used and atom.name.startswith(PRODUCT) for atom, _ in self.meanings
        )


def choose(
    gradients: Mapping[str, Sum],
    values: Sequence[Value],
    outputs: Sequence[Value],
    overwritten: Mapping[Atom, Value],
    bytes_read: Mapping[str, int],
) -> Chosen:
    """The gradients with names for what has one.

    `values` are the forward's locals in their order, `outputs` what it wrote beside its inputs, and `overwritten` what
    it left in the place of some of those; `bytes_read` says how many bytes of each tensor are read for one element of
    the widest.
    """
    chosen, change, ways = _other_ways(Chosen(gradients))
    chosen = replace(chosen, ways=ways)
    outputs, values = _changed(outputs, change), _changed(values, change)
    for before, value in overwritten.items():
        found = _with_what_was_left(chosen, before, replace(value, meaning=change(value.meaning)))
        if found is not None:
            chosen, again = found
            outputs, values = _changed(outputs, again), _changed(values, again)
    return _with_products(_with_locals(_with_outputs(chosen, outputs, bytes_read), values))


def _changed(values: Sequence[Value], change: Change) -> list[Value]:
    return [replace(value, meaning=change(value.meaning)) for value in values]


def _other_ways(chosen: Chosen) -> tuple[Chosen, Change, tuple[str, ...]]:
    """Functions as what they also are, where that takes fewer functions: with how they are changed, and which."""
    ways: list[str] = []

    def change(x: Sum, names: Sequence[str]) -> Sum:
        def other(atom: Atom) -> Sum | None:
            if atom.kind != "call" or atom.name not in names:
                return None
            return sum_of_text(WAYS[atom.name], {"x": change(atom.arguments[0], names)})

        return rebuilt(x, other)

    for name in WAYS:
        changed = chosen.changed(lambda x, name=name: change(x, [*ways, name]))  # type: ignore[misc]
        if _parts(changed).functions < _parts(chosen).functions:
            chosen = changed
            ways.append(name)
    return chosen, lambda x: change(x, ways), tuple(ways)


def _with_outputs(chosen: Chosen, outputs: Sequence[Value], bytes_read: Mapping[str, int]) -> Chosen:
    """Outputs of the forward in the place of what would be computed again, one at a time, the best first.

    One is read where it saves a reduction, or a function or bytes without costing bytes or functions.
    """
    left = [value for value in outputs if _may_be_kept(value)]
    while True:
        before, read = _parts(chosen), _bytes(chosen, bytes_read)
        found: list[tuple[float, str, Chosen]] = []
        for value in left:
            for changed in _written_with(chosen, value.atom, value.meaning):
                after, also = _parts(changed), _bytes(changed, bytes_read)
                fewer = after.functions <= before.functions and also <= read
                same = after.reductions == before.reductions
                less = after.functions < before.functions or also < read
                if after.reductions < before.reductions or (same and fewer and less):
                    found.append((changed.cost + also / 2, value.name, changed))
        if not found:
            return chosen
        _, name, best = min(found, key=lambda each: each[:2])
        chosen = replace(best, kept=(*best.kept, name))
        left = [value for value in left if value.name != name]


def _with_what_was_left(chosen: Chosen, before: Atom, value: Value) -> tuple[Chosen, Change] | None:
    """Rewrites gradients that use an overwritten input in terms of what the forward left in its place. Returns None
    where none of them uses it, or where one would still use it, since the input itself is gone.

    What was left has the bits of the tensor's type, as torch keeps it when something is computed in place.
    """
    if all(before not in inside(x) for x in chosen.gradients.values()):
        return None
    for change, rest in changes(value.atom, value.meaning):
        changed = None if rest.terms else _checked(chosen, value.atom, change, rest)
        if changed is not None and all(before not in inside(x) for x in changed.gradients.values()):
            return replace(changed, kept=(*changed.kept, value.name)), change
    return None


def _with_locals(chosen: Chosen, values: Sequence[Value]) -> Chosen:
    """Locals of the forward in the place of what they are: sums and functions always, products where it pays."""
    changes_before: list[Change] = []
    for value in values:
        meaning = value.meaning
        for change in changes_before:
            meaning = change(meaning)
        alone = meaning.atom
        if value.name in chosen.kept or meaning.number is not None or (alone is not None and alone.kind == "name"):
            continue
        is_product = len(meaning.terms) == 1 and alone is None
        best, best_way = chosen, None
        for way, rest in changes(value.atom, meaning):
            changed = _checked(chosen, value.atom, way, rest)
            if changed is None:
                continue
            changed = replace(changed, meanings=(*changed.meanings, (value.atom, meaning)))
            if changed.cost < best.cost or (best_way is None and not is_product and changed.cost <= best.cost):
                best, best_way = changed, way
        if best_way is not None:
            chosen = best
            changes_before.append(best_way)
    return chosen


def _with_products(chosen: Chosen) -> Chosen:
    """Products that recur, named as long as that takes less to compute: first those of one gradient, then of all."""
    count = 0
    for group in (*([x] for x in chosen.gradients), [*chosen.gradients]):
        while count < MOST_PRODUCTS:
            found = [chosen]
            own = () if len(group) == 1 else (meaning for _, meaning in chosen.meanings)
            for meaning in products([*(chosen.gradients[name] for name in group), *own]):
                atom = named(f"{PRODUCT}{count}", meaning.modes)
                for changed in _written_with(chosen, atom, meaning):
                    found.append(replace(changed, meanings=(*changed.meanings, (atom, meaning))))
            best = min(found, key=lambda each: each.cost)
            if best is chosen:
                break
            chosen = best
            count += 1
    return chosen


def _written_with(chosen: Chosen, value: Atom, meaning: Sum) -> Iterable[Chosen]:
    for change, rest in changes(value, meaning):
        changed = _checked(chosen, value, change, rest)
        if changed is not None:
            yield changed


def _checked(chosen: Chosen, value: Atom, change: Change, rest: Sum) -> Chosen | None:
    """The gradients after a change, if the value is in them then and nothing is worse.

    Nothing is divided by that was not divided by before, as it may be 0, and nothing is computed for the value's sake.
    No comparison has changed that a rounding could decide, as where a value was solved for. No difference of such a
    value and its own parts is left, which cancels.
    """
    changed = chosen.changed(change)
    if changed.gradients == chosen.gradients:
        return None
    before = {atom for x in chosen.gradients.values() for atom in inside(x)}
    after = {atom for x in changed.gradients.values() for atom in inside(x)}
    if value not in after:
        return None
    around = {atom for atom in inside(rest) if atom.kind in ("call", "reduce")}
    if (around & after) - before or _divides_anew(chosen, changed, value, change):
        return None
    rounded = is_condition if rest.terms else partial(may_round, change)
    if set(filter(rounded, before)) != set(filter(rounded, after)):
        return None
    if rest.terms and any(_has_both(x, value, rest) for x in _sums(changed)):
        return None
    return changed


def _divides_anew(chosen: Chosen, changed: Chosen, value: Atom, change: Change) -> bool:
    """Whether gradients divide by something that they did not divide by before a change, or more often.

    By a value they may where it takes the place of several divisors.
    """
    sums, after = chosen.gradients.values(), changed.gradients.values()
    more = reciprocals(after) - reciprocals(sums)
    rewritten = (change(of(divisor)) for divisor in divisors(sums))
    allowed = {atom for x in rewritten for atom, _ in factor_of(x).powers}  # a sum is one in parentheses
    return more > 0 or bool(divisors(after) - allowed - ({value} if more < 0 else set()))


def _sums(chosen: Chosen) -> set[Sum]:
    """The gradients, and every sum inside of them."""
    found = set(chosen.gradients.values())
    return found | {argument for x in found for atom in inside(x) for argument in atom.arguments}


def _has_both(x: Sum, value: Atom, rest: Sum) -> bool:
    """Whether a sum has a value and a part of what it is the sum of."""
    factors = {term.factors for term in x.terms}
    parts = {term.factors for term in rest.terms} if len(x.terms) > 1 else set()
    return frozenset([(value, 1)]) in factors and bool(parts & factors)


def _may_be_kept(value: Value) -> bool:
    """Whether the tensor holds what a gradient needs: all of its bits, or those from which torch makes it too.

    Torch computes the gradients of `exp`, `sigmoid`, `tanh`, `sqrt`, `rsqrt`, `1 / x`, softmax and log_softmax from
    their rounded results. A norm's factor, a function of a reduction, it keeps in 32 bits.
    """
    atom = value.meaning.atom
    if atom is not None and atom.kind == "reduce" and atom.name in ("max", "min"):  # with which elements are compared
        argument = atom.arguments[0].atom
        return value.exact and argument is not None and argument.kind == "name"
    if value.exact:
        return True
    if not any(part.kind == "reduce" for part in inside(value.meaning)):
        terms = value.meaning.terms
        divides = len(terms) == 1 and len(terms[0].powers) == 1 and terms[0].powers[0][1] == -1
        return divides or (atom is not None and atom.kind == "call" and atom.name in _KEPT_BY_TORCH)
    exponential = call("exp", [value.meaning])
    return any(total(x, mode).number == 1 for mode in value.meaning.modes for x in (value.meaning, exponential))


def _parts(chosen: Chosen) -> Parts:
    return parts(chosen.gradients.values())


def _bytes(chosen: Chosen, bytes_read: Mapping[str, int]) -> int:
    """How many bytes are read for one element of the widest tensor."""
    names = {atom.name for x in chosen.gradients.values() for atom in inside(x) if atom.kind == "name"}
    return sum(bytes_read.get(name, 0) for name in names)
