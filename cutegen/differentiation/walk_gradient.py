"""The chain rule through a walk.

It has two steps. The statements behind the walk give the gradients of the carried sums: one value for each row, or for
each element of a row of an output. The terms of these sums then give the gradients of each element of the scores. Where
a term is multiplied with a tensor, as weights are with V, its gradient is a product of two tensors: sum(dO * V, E).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cutegen.differentiation.cost import common, without
from cutegen.differentiation.rebuilding import rebuilt
from cutegen.differentiation.reverse import DifferentiationError, gradients, vanishes
from cutegen.differentiation.walk_forward import WalkedForward
from cutegen.expressions.sums import Atom, Sum, Term, add, named, number, of, scaled, spread, times, total
from cutegen.ops.walked import Carried

ARRIVING = "g"
_ONE, _WHOLE = "one 1", "whole "  # names of no spec: a gradient of 1, and the beginning of those of wider tensors


@dataclass(frozen=True)
class Arriving:
    """The gradient of a carried sum of products: `tensor` times `factor`, which each row has one of. `whole` is the
    tensor as a sum if a kernel has to compute it, and None if it is the gradient of an output.
    """

    of: Carried
    tensor: str
    factor: Sum
    whole: Sum | None = None


@dataclass
class WalkGradient:
    """The gradients, as sums in which carried sums and maxima are atoms.

    `scores` has those of each product of two tensors, for each element. `weights` has, for each carried sum of
    products, the factor of `arriving` in the gradient of its tensor. `own` has the gradients of other tensors for each
    element, before they are summed, and `ends` those of tensors that only statements behind the walk read.
    """

    scores: dict[str, Sum] = field(default_factory=dict)
    weights: dict[str, Sum] = field(default_factory=dict)
    own: dict[str, Sum] = field(default_factory=dict)
    ends: dict[str, Sum] = field(default_factory=dict)
    arriving: dict[str, Arriving] = field(default_factory=dict)


class Chain:
    """The chain rule through the statements of one kernel. `given` maps outputs to the names of their gradients, and
    `new_name` makes names for tensors that a kernel before the walk writes.
    """

    def __init__(self, forward: WalkedForward, given: Mapping[str, str], new_name: Callable[[str], str]) -> None:
        self.forward, self.given, self.new_name = forward, given, new_name
        self.order = forward.spec.modes
        self.sums = [one for one in forward.walked.carried if one.function == "sum"]

    def run(self, products: Sequence[str]) -> WalkGradient:
        """The gradients by products of two tensors, and by the tensors that are multiplied along the walk."""
        forward, found = self.forward, WalkGradient()
        self.refuse_largest()
        carried = {one.name: forward.carried[one.name] for one in self.sums}
        of_sums = gradients(self.pairs(), list(carried.values()), self.order)
        for one in self.sums:
            gradient = of_sums.get(carried[one.name])
            if gradient is not None and one.product is not None:
                found.arriving[one.name] = self.arrives(one, gradient)
                factor = found.arriving[one.name].factor
                found.weights[one.name] = spread(forward.term(one), factor)
        self.rows = {one.name: of_sums[carried[one.name]] for one in self.sums if carried[one.name] in of_sums}
        atoms = {name: forward.products[name] for name in products}
        of_elements = gradients(self.element_pairs(found, {}), list(atoms.values()), self.order)
        found.scores = {name: of_elements[atom] for name, atom in atoms.items() if atom in of_elements}
        return found

    def of_other(self, name: str, found: WalkGradient) -> None:
        """Adds the gradient of a tensor that is no factor of a product. Raises DifferentiationError where both elements
        and statements behind the walk read it.
        """
        tensor = self.forward.spec.tensor(name)
        whole = named(f"{_WHOLE}{name}", self.forward.elements)
        pairs = self.element_pairs(found, {named(name, tensor.modes): of(whole)})
        elements = gradients(pairs, [whole], self.order).get(whole)
        ends = gradients(self.pairs(), [named(name, tensor.modes)], self.order).get(named(name, tensor.modes))
        if elements is not None and ends is not None:
            message = f"`{name}` is read for each element and at the end: its gradient has two parts, of two kernels"
            raise DifferentiationError(message, "give the kernel two tensors in its place, and pass it twice")
        if elements is not None:
            found.own[name] = rebuilt(elements, {whole: of(named(name, tensor.modes))}.get)
        elif ends is not None:
            found.ends[name] = ends

    def pairs(self) -> list[tuple[Sum, Sum]]:
        """Pairs of the gradient of an output, and the output as a sum."""
        forward, found = self.forward, []
        for value in forward.outputs:
            if value.name in self.given:
                modes = forward.spec.tensor(value.name).modes
                gradient = of(named(self.given[value.name], modes))
                for mode in reversed([mode for mode in modes if mode not in value.meaning.modes]):
                    gradient = total(gradient, mode)
                found.append((gradient, value.meaning))
        return found

    def element_pairs(self, found: WalkGradient, other: Mapping[Atom, Sum]) -> list[tuple[Sum, Sum]]:
        """Pairs of the gradient of a carried sum's terms, and the terms, with atoms replaced as `other` says."""
        pairs = []
        for one in self.sums:
            if one.name not in self.rows:
                continue
            gradient = self.rows[one.name]
            if one.product is not None:
                arrives = found.arriving[one.name]
                columns = self.forward.walked.columns_of(one)
                here = named(arrives.tensor, (*self.forward.rows, columns))
                tensor = self.forward.spec.tensor(one.product.b)
                product = total(times(of(here), of(named(tensor.name, tensor.modes))), columns)
                gradient = spread(product, arrives.factor)
            pairs.append((gradient, rebuilt(self.forward.term(one), other.get)))
        return pairs

    def arrives(self, one: Carried, gradient: Sum) -> Arriving:
        """Splits the gradient of a carried sum of products into a tensor and a factor of each row."""
        columns = self.forward.walked.columns_of(one)
        shared = gradient.terms[0] if len(gradient.terms) == 1 else common(gradient)[0]
        outside = Term(shared.number, tuple((a, p) for a, p in shared.powers if columns not in a.modes))
        rest = without(gradient, outside)
        atom, spec = rest.atom, self.forward.spec
        assert one.product is not None
        dtype = spec.tensor(one.product.b).dtype
        output = next((name for name, d in self.given.items() if atom is not None and atom.name == d), None)
        if output is not None and spec.tensor(output).dtype is dtype:
            return Arriving(one, self.given[output], Sum((outside,)))
        known = rest.modes == {*self.forward.rows, columns}
        if not known:
            rest, outside = gradient, Term(outside.number / outside.number, ())
        return Arriving(one, self.new_name(ARRIVING), Sum((outside,)), rest)

    def refuse_largest(self) -> None:
        """Refuses outputs with gradients that depend on the value of a carried maximum.

        In a softmax the maximum is subtracted from all exponents, and cancels. Then it counts as a constant. Else its
        gradient would belong to the elements that are the largest.
        """
        for one in (one for one in self.forward.walked.carried if one.function == "max"):
            for value in self.forward.outputs:
                if value.name in self.given and not self.is_free_of(value.meaning, one):
                    text = self.forward.spec.compute
                    written = next((s.text for s in text.statements if s.target == value.name), value.name)
                    message = f"{self.forward.line_of(value.name)}`{written}` changes with the maximum `{one.name}`"
                    message += " itself, whose gradient is that of the elements that are the largest"
                    others = [v.name for v in self.forward.outputs if self.is_free_of(v.meaning, one)]
                    help = f"give no gradient of it: `--of {','.join(others)}`" if others else None
                    raise DifferentiationError(message, help)

    def is_free_of(self, meaning: Sum, largest: Carried) -> bool:
        """Whether a value behind the walk does not depend on which number the maximum is.

        Its derivative is the direct one plus those through the sums. A sum whose terms are exponentials above the
        maximum has itself, negated, as its own derivative.
        """
        atom = self.forward.carried[largest.name]
        steps = {atom: number(1)}
        for one in self.sums:
            if one.above == largest.name:
                steps[self.forward.carried[one.name]] = scaled(of(self.forward.carried[one.name]), -1)
        parts = [spread(self.each(meaning, step, tuple(meaning.modes)), by) for step, by in steps.items()]
        return vanishes(add(*parts))

    def each(self, x: Sum, atom: Atom, modes: Sequence[str]) -> Sum:
        """The derivative of each element of a sum by an atom, which is taken to differ along all of these modes."""
        whole, one = named(f"{_WHOLE}{atom.name}", modes), named(_ONE)
        found = gradients([(of(one), rebuilt(x, {atom: of(whole)}.get))], [whole], self.order).get(whole, Sum(()))
        return rebuilt(found, {whole: of(atom), one: number(1)}.get)
