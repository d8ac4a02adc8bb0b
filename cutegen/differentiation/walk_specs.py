"""The backward of a kernel that walks a mode, as specs: a kernel of rows for what each row needs, and kernels that walk
the same elements again, one along the mode of the forward, and one along the rows of the forward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cutegen.differentiation.asking import (
    SUFFIX,
    Backward,
    Buildable,
    GradientNames,
    given_outputs,
    kernel_name,
    wanted_tensors,
)
from cutegen.differentiation.columns import over_rows
from cutegen.differentiation.reverse import DifferentiationError
from cutegen.differentiation.trial import error_in, tried
from cutegen.differentiation.walk_forward import WalkedForward, choices_as_factors
from cutegen.differentiation.walk_gradient import Chain, WalkGradient
from cutegen.differentiation.walk_kept import Kept, kept, refuse_missing
from cutegen.differentiation.walk_kernels import Text, Total, Writer
from cutegen.differentiation.walk_rows import (
    RowValues,
    by_weight,
    existing,
    logarithm_in,
    masked,
    of_rows_with_elements,
    outside_of_sums,
)
from cutegen.dtypes import Dtype
from cutegen.expressions.sums import NoForm, Sum, Term, named, of
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.lengths import lengths_of
from cutegen.language.model import KernelSpec, Tensor
from cutegen.ops.op import op_of
from cutegen.ops.walked import Carried

ROWS, DELTA = "rows", "delta"  # the endings of the kernel before the walks
_NAMES = {"scores": ("dS",), "weights": ("P", "weight")}  # of what each element has


def backward_of_walk(spec: KernelSpec, wrt: Sequence[str] = (), of_outputs: Sequence[str] = ()) -> Buildable:
    """The kernels of a gradient, without the gradients that none of cutegen's kernels computes.

    Raises DifferentiationError where nothing is left, where one of `wrt` is refused, and where the forward does not
    keep what its gradient needs.
    """
    kernel_name(spec)
    try:
        return _Derivation(spec, wrt, of_outputs).made()
    except NoForm as error:
        message = f"the statements of {spec.kernel} cannot be differentiated: {error}"
        raise DifferentiationError(message, "make a number that is taken to high powers a scalar of the spec") from None


@dataclass(frozen=True)
class _Place:
    """Where a gradient is summed: what each element has, the tensor that multiplies it, and whether that is `across`
    the forward, along its rows.
    """

    quantity: tuple[str, str]
    partner: str = ""
    across: bool = False


@dataclass(frozen=True)
class _Quantity:
    """A gradient that each element has: `value` times `outside`, by its name."""

    name: str
    value: Sum
    outside: Term


class _Derivation:
    def __init__(self, spec: KernelSpec, wrt: Sequence[str], of_outputs: Sequence[str]) -> None:
        self.spec, self.wrt = spec, wrt
        self.wanted = wanted_tensors(spec, wrt)
        names = GradientNames(spec)
        self.given = {name: names.of(name) for name in given_outputs(spec, of_outputs)}
        self.made_of = {tensor.name: names.of(tensor.name) for tensor in self.wanted}
        self.walked = op_of(spec).walk(spec)
        self.forward = WalkedForward(spec, self.walked)
        self.names = [*names.own, *self.walked.definitions, *self.given.values(), *self.made_of.values()]
        self.refused: dict[str, Diagnostic] = {}
        self.columns = tuple(dict.fromkeys(self.walked.columns_of(one) for one in self.walked.outer))
        self.rows = RowValues(self.forward.rows, self.columns, self.new_name)
        self.logarithm: str | None = None  # of the sums of rows, which is NaN for rows without any element

    def new_name(self, *wanted: str) -> str:
        """A name that nothing has yet: the first of the wanted ones that is free, or the last with a number."""
        taken = {name.lower() for name in self.names}
        numbered = (f"{wanted[-1]}_{number}" for number in range(2, 1000))
        self.names.append(next(name for name in (*wanted, *numbered) if name.lower() not in taken))
        return self.names[-1]

    def refuse(self, name: str, why: str, help: str | None = None) -> None:
        """Leaves the gradient of a tensor out."""
        self.refused[name] = self.spec.source.diagnostic("CG127", why, "tensors", name, key=True, help=help)

    def made(self) -> Buildable:
        """All kernels."""
        walked = self.walked
        factors = {name for one in walked.products for name in (one.a, one.b)}
        factors |= {one.product.b for one in walked.outer if one.product is not None}
        chain = Chain(self.forward, self.given, self.new_name)
        self.found = chain.run([one.name for one in walked.products])
        for name in (t.name for t in self.wanted if t.name not in factors):
            try:
                chain.of_other(name, self.found)
            except DifferentiationError as error:
                self.refuse(name, error.message, error.help)
        self.kept = self.kept_by(self.found)
        places = {t.name: self.place_of(t) for t in self.wanted if t.name not in self.found.ends}
        without = tuple(name for name, place in places.items() if place is None and name not in self.refused)
        self.refuse_constant(without)
        there = {name: place for name, place in places.items() if place is not None}
        self.quantities = {one: self.quantity(one) for one in dict.fromkeys(p.quantity for p in there.values())}
        walks = []
        for across in (False, True):
            walks += self.walks({name: place for name, place in there.items() if place.across is across})
        before = self.row_kernel({name for spec in walks for name in spec.compute.names()})
        specs = (*([] if before is None else [before]), *walks)
        if not specs or (self.wrt and self.refused):
            names = " and ".join(f"`{name}`" for name in self.refused)
            first = next(iter(self.refused.values()))
            message = f"no kernel of cutegen computes the gradients of {names}: {first.code}, {first.message}"
            able = [t.name for t in self.wanted if t.name not in (*self.refused, *without)]
            help = f"these alone are built: `--wrt {','.join(able)}`" if able else first.help
            raise DifferentiationError(message, help)
        return Buildable(Backward(specs, without), self.refused)

    def refuse_constant(self, without: Sequence[str]) -> None:
        """Refuses what nothing that is written depends on, where it is asked for or is all that there is."""
        if without and (self.wrt or len(without) == len(self.wanted)):
            names = " and ".join(f"`{name}`" for name in without)
            message = f"no float that {self.spec.kernel} writes depends on {names} in a way that has a gradient"
            help = "comparisons, whole numbers and `round`, `floor` and `ceil` have none"
            raise DifferentiationError(message, help)

    # ------------------------------------------------------------------------------------------- what is to be computed

    def kept_by(self, found: WalkGradient) -> Kept:
        """The gradients without what is carried. Raises DifferentiationError where no output keeps that."""
        needed = {f"scores {name}": x for name, x in found.scores.items()}
        needed |= {f"weights {name}": x for name, x in found.weights.items()}
        needed |= {one.tensor: one.whole for one in found.arriving.values() if one.whole is not None}
        exact = (value for value in self.forward.outputs if self.is_exact(self.spec.tensor(value.name)))
        outputs = [replace(value, meaning=choices_as_factors(value.meaning)) for value in exact]
        first = kept(needed, outputs)
        if first.missing:
            refuse_missing(self.forward, needed, outputs, first.missing)
        for kind, some in (("own", found.own), ("ends", found.ends)):
            for name, x in list(some.items()):
                more = {**needed, f"{kind} {name}": x}
                missing = kept(more, outputs).missing
                if missing:
                    what = " and ".join(f"`{one}`" for one in missing)
                    self.refuse(name, f"the gradient of `{name}` needs {what}, which no output keeps")
                    del some[name]
                else:
                    needed = more
        return kept(needed, outputs)

    def is_exact(self, tensor: Tensor) -> bool:
        """Whether a gradient may read an output. A value of a row, which stands in exponents, needs 32 bits; a row of
        16 bits is what torch's attention reads too.
        """
        return not {*tensor.modes} <= {*self.forward.rows} or tensor.dtype.bits >= 32

    def place_of(self, tensor: Tensor) -> _Place | None:
        """Where the gradient of a tensor is summed; None of one that has none."""
        name, places = tensor.name, list[_Place]()
        for one in self.walked.products:
            if one.name in self.found.scores and name in (one.a, one.b):
                partner = one.b if name == one.a else one.a
                places.append(_Place(("scores", one.name), partner, name == one.b))
        for outer in self.walked.outer:
            if outer.product is not None and outer.product.b == name and outer.name in self.found.arriving:
                places.append(_Place(("weights", outer.name), self.found.arriving[outer.name].tensor, True))
        if name in self.found.own:
            across = {*tensor.modes} == {*self.walked.batch, *self.forward.along}
            places.append(_Place(("own", name), "", across))
        places = [place for place in places if self.kept.sums[" ".join(place.quantity)].terms]  # others are 0
        if len(places) > 1:
            message = f"`{name}` is in several products: its gradient is the sum of what several kernels give"
            help = "give the kernel a tensor for each, and pass the same one: torch adds up their gradients"
            self.refuse(name, message, help)
            return None
        return places[0] if places else None

    def quantity(self, one: tuple[str, str]) -> _Quantity:
        """A gradient of each element, with names for what its row needs, and the scalars in front of it."""
        outside, rest = outside_of_sums(masked(self.kept.sums[" ".join(one)]))
        return _Quantity(self.new_name(*_NAMES.get(one[0], (f"g_{one[1]}",))), self.rows.taken_out(rest), outside)

    # ---------------------------------------------------------------------------------------------------------- kernels

    @property
    def arriving(self) -> dict[str, Sum]:
        """The tensors that a kernel before the walks computes for products, by name."""
        return {one.tensor: self.kept.sums[one.tensor] for one in self.found.arriving.values() if one.whole is not None}

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that kernels may read: gradients of outputs, those of the forward, and what rows have."""
        spec, rows = self.spec, frozenset(self.forward.rows)
        found = [replace(spec.tensor(name), name=gradient) for name, gradient in self.given.items()]
        found += spec.tensors
        wide = next((t for t in spec.outputs if not {*t.modes} <= rows), spec.outputs[0])
        order = tuple(mode for mode in wide.shape if mode in rows)
        major = self.walked.rows[0] if order[-1] != self.walked.rows[0] else None
        for one in self.found.arriving.values():
            if one.whole is not None and one.of.product is not None:
                found.append(replace(self.like(one.of), name=one.tensor, dtype=spec.tensor(one.of.product.b).dtype))
        found += [Tensor(name, order, Dtype.f32, major) for name in self.rows.values]
        return found

    def like(self, one: Carried) -> Tensor:
        """An output with the modes of a sum of products."""
        modes = {*self.forward.rows, self.walked.columns_of(one)}
        return next(t for t in self.spec.outputs if {*t.modes} == modes)

    @property
    def writer(self) -> Writer:
        return Writer(self.forward, [*self.given.values()], self.names, self.tensors)

    def walks(self, places: Mapping[str, _Place]) -> list[KernelSpec]:
        """The kernels that compute some gradients by one walk: one kernel, or several where one does not build."""
        if not places:
            return []
        whole, error = tried(self.walk(places))
        if error is None:
            return [whole]
        if len(places) == 1:
            self.refused |= dict.fromkeys(places, error)
            return []
        products = {name: place for name, place in places.items() if place.partner}
        together = products if 0 < len(products) < len(places) else {}
        found = self.walks(together)
        for name, place in places.items():
            found += self.walks({name: place} if name not in together else {})
        return found

    def walk(self, places: Mapping[str, _Place]) -> KernelSpec:
        """A kernel that computes some gradients by one walk."""
        across = next(iter(places.values())).across
        lengths = lengths_of(self.spec.tensors) if across else None
        results, totals, outputs = dict[str, Sum](), dict[str, Total](), []
        for name, place in places.items():
            tensor, quantity = self.spec.tensor(name), self.quantities[place.quantity]
            results[quantity.name] = existing(quantity.value, lengths) if lengths else quantity.value
            along = tuple(mode for mode in self.order(across) if mode not in tensor.modes)
            partner = next((t for t in self.tensors if t.name == place.partner), None)
            totals[self.made_of[name]] = Total(tensor, quantity.name, partner, along, quantity.outside)
            outputs.append(replace(tensor, name=self.made_of[name], role="out"))
        ending = ("_" * any(len(name) > 1 for name in places)).join(name.lower() for name in places)
        results = results if lengths else self.with_weights(results)  # behind a length a product may be NaN
        made = " and ".join(self.made_of[name] for name in places)
        way = f"summed along {' and '.join(dict.fromkeys(m for t in totals.values() for m in t.along))}"
        summary = f"Backward pass of {self.spec.kernel}, {made}, {way}."
        text = Text(results, totals, self.rows.products)
        return self.writer.kernel(f"{SUFFIX}_{ending}", summary, text, outputs, across)

    def with_weights(self, results: Mapping[str, Sum]) -> dict[str, Sum]:
        """The values of elements, said with the weights among them: a product with a weight is 0 where that is. What
        rows without any element have must be a number then.
        """
        found, weights = dict(results), {one.name for key, one in self.quantities.items() if key[0] == "weights"}
        for weight in (name for name in results if name in weights):
            for name in (name for name in results if name not in weights):
                said = by_weight(found[name], weight, results[weight])
                if said is not None:
                    found[name] = said
                    self.logarithm = self.logarithm or logarithm_in(results[weight])
        return found

    def order(self, across: bool) -> tuple[str, ...]:
        """The modes of elements in the order in which a walk sums them, the innermost first."""
        forward = self.forward
        if across:
            return (*self.walked.rows, *self.walked.batch, *forward.along)
        return (*reversed(forward.along), *forward.rows)

    def row_kernel(self, used: set[str]) -> KernelSpec | None:
        """The kernel that runs before the walks: values that they read, and gradients that need no walk."""
        rows = self.rows.values
        if self.logarithm is not None:
            logarithm = of(named(self.logarithm, self.forward.rows))
            rows = {name: of_rows_with_elements(x, logarithm) for name, x in rows.items()}
        values = {name: x for name, x in {**self.arriving, **rows}.items() if name in used}
        made = {name: self.ended(name) for name in self.found.ends}
        for name in made:
            alone = self.row_spec({**values, self.made_of[name]: made[name]}, [name])
            error = error_in(alone)
            if error is not None:
                self.refused[name] = error
        made = {name: x for name, x in made.items() if name not in self.refused}
        if not values and not made:
            return None
        whole, error = tried(self.row_spec(values | {self.made_of[name]: x for name, x in made.items()}, list(made)))
        if error is not None:
            message = f"no kernel of cutegen computes what each row needs: {error.code}, {error.message}"
            raise DifferentiationError(message, error.help)
        return whole

    def row_spec(self, results: Mapping[str, Sum], made: Sequence[str]) -> KernelSpec:
        by_name = {t.name: t for t in self.tensors}
        outputs = [replace(by_name[name], role="out") for name in results if name in by_name]
        outputs += [replace(self.spec.tensor(name), name=self.made_of[name], role="out") for name in made]
        ending = DELTA if self.rows.values else ROWS
        names = ", ".join(results)
        summary = f"Backward pass of {self.spec.kernel}, before the walks: {names} of each row."
        return self.writer.kernel(f"{SUFFIX}_{ending}", summary, Text(results, {}), outputs)

    def ended(self, name: str) -> Sum:
        """The gradient of a tensor that only the ends read."""
        rows = frozenset(self.forward.rows)
        modes = {*self.spec.tensor(name).modes}
        return over_rows(self.kept.sums[f"ends {name}"], rows if modes <= {*self.columns} else frozenset())
