"""One kernel of the gradient of a walk, as a spec: statements from sums, and the tensors that they use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cutegen.differentiation.asking import kernel_name
from cutegen.differentiation.choosing import PRODUCT, choose
from cutegen.differentiation.presenting import Presenter, negated, size_of
from cutegen.differentiation.reverse import DifferentiationError
from cutegen.differentiation.walk_forward import LENGTH, WalkedForward
from cutegen.differentiation.writing import Names, renamed, replaced, statements, text_of, with_ways
from cutegen.expressions.named_numbers import with_named_numbers
from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.sums import Atom, Sum, Term, inside, of
from cutegen.expressions.tree import Binary, Call, Cast, Compute, Expr, Len, Literal_, Name, Reduce, walk
from cutegen.language.lengths import lengths_of, with_lengths
from cutegen.language.model import MAX_STATEMENTS, Bench, Expect, KernelSpec, Source, Tensor, Verify
from cutegen.language.torch_key import TorchOp
from cutegen.ops.op import op_of
from cutegen.registry import families, family_of

Line = tuple[str, Expr]


@dataclass(frozen=True)
class Total:
    """A gradient that is a sum along a walk: `quantity` for each element, times the tensor `partner` if there is one,
    all of it times `outside`.
    """

    tensor: Tensor  # whose gradient it is
    quantity: str
    partner: Tensor | None
    along: tuple[str, ...]  # the modes of the sums, innermost first
    outside: Term

    def value(self, presenter: Presenter) -> Expr:
        """The sum, for a statement."""
        x: Expr = Name(self.quantity)
        if self.partner is not None:
            x = Binary("*", Cast(x, True, dtype=self.partner.dtype), Name(self.partner.name))
        for mode in self.along:
            x = Reduce("sum", x, mode)
        negative, size = self.outside.number < 0, Term(abs(self.outside.number), self.outside.powers)
        if size.powers or size.number != 1:
            x = Binary("*", x, presenter.gradient(Sum((size,))))
        return negated(negative, x)


@dataclass(frozen=True)
class Text:
    """The content of a kernel's statements: values by name, and sums of these along the walk."""

    results: Mapping[str, Sum]
    totals: Mapping[str, Total]  # by the names of gradients
    products: Mapping[str, Atom] = field(default_factory=dict)  # of two tensors, which have names


class Writer:
    """Writes the kernels of a gradient. `tensors` are all that these may use, in the order in which they stand in a
    spec, without the gradients that they make.
    """

    def __init__(self, forward: WalkedForward, given: Collection[str], taken: Sequence[str], tensors: Sequence[Tensor]):
        self.forward, self.given, self.taken, self.tensors = forward, given, taken, tensors
        self.spec = forward.spec
        self.targets = frozenset(self.spec.compute.targets)

    def kernel(
        self, ending: str, summary: str, text: Text, outputs: Sequence[Tensor], across: bool = False
    ) -> KernelSpec:
        """The spec of a kernel that writes some outputs. It walks `across` the forward where its rows are what the
        forward walked: elements that do not exist then count for nothing.
        """
        lines = self.lines(text, across)
        compute = parse_compute([text_of(*line) for line in lines])
        compute = Compute(compute.statements, listed=len(lines) > 1)
        if len(lines) > MAX_STATEMENTS:
            message = f"{self.spec.kernel}{ending} takes {len(lines)} statements, and a spec has {MAX_STATEMENTS}"
            raise DifferentiationError(message, "differentiate by fewer tensors at a time: `--wrt`")
        spec, names = self.spec, {*compute.names()}
        lengths = None if across else lengths_of(t for t in self.tensors if t.name in names)
        names |= {lengths.used} if lengths is not None else set()
        tensors = (*(replace(t, role="in") for t in self.tensors if t.name in names), *outputs)
        tensors = tensors if text.totals else _alike(tensors)
        modes = {mode for tensor in tensors for mode in tensor.shape}
        declared = () if across else tuple(mode for mode in spec.declared_modes if mode.name in modes)
        kernel = kernel_name(spec, ending)
        scalars = tuple(scalar for scalar in spec.scalars if scalar.name in names)
        named = {*(tensor.name for tensor in tensors), *(scalar.name for scalar in scalars)}
        compute = with_named_numbers(compute, named | {*compute.targets})
        measured = {s.name: spec.bench.scalars[s.name] for s in scalars if s.name in spec.bench.scalars}
        op = spec.op if text.totals else _op_of_rows(compute)
        return replace(
            spec,
            kernel=kernel,
            summary=summary,
            op=op,
            tensors=with_lengths(tensors, declared),
            arguments=(),
            declared_modes=declared,
            scalars=scalars,
            compute=compute,
            schedule=family_of(op, {}).schedule(),
            tune={},
            static={mode: size for mode, size in spec.static.items() if mode in modes},
            divisible={mode: size for mode, size in spec.divisible.items() if mode in modes},
            verify=Verify(),
            bench=Bench(scalars=measured),
            torch=TorchOp(spec.torch.op and f"{spec.torch.op}{ending}"),
            expect=Expect(),
            source=Source(),
        )

    def lines(self, text: Text, across: bool) -> list[Line]:
        """The statements."""
        forward = self.forward
        chosen = choose(text.results, forward.locals, [], {}, {})
        sums = {*chosen.gradients.values(), *(meaning for _, meaning in chosen.meanings)}
        sums |= {argument for x in tuple(sums) for atom in inside(x) for argument in atom.arguments}
        presenter = Presenter(self.spec.static, self.given, sums)
        taken = [*self.taken, *text.results, *op_of(self.spec).reserved]
        names = Names(taken, set(self.given), {t.name for t in self.tensors})
        usable = (*(value.name for value in forward.locals), *forward.products)
        values = {name: with_ways(x, chosen.ways) for name, x in forward.texts.items() if name in usable}
        values |= {name: presenter.plain(of(atom)) for name, atom in text.products.items()}
        own: dict[str, str] = {}
        for atom, meaning in chosen.meanings:
            if atom.name.startswith(PRODUCT):
                product = renamed(presenter.plain(meaning), own)
                own[atom.name] = names.of(product)
                values[own[atom.name]] = product
        results = {name: renamed(presenter.gradient(x), own) for name, x in chosen.gradients.items()}
        for x in [*results.values()]:
            condition = x.arguments[0] if isinstance(x, Call) and x.function == "where" else None
            if condition is not None and not isinstance(condition, Name) and condition not in values.values():
                values[names.new("mask")] = condition
        named = {x: Name(name) for name, x in values.items()}  # which return to their places in short statements
        results = {name: replaced(x, named.get) for name, x in results.items()}
        found = statements(results, values, names, tuple(self.targets & {*values}))
        found += [(name, total.value(presenter)) for name, total in text.totals.items()]
        found = _without_aliases(found, {total.quantity for total in text.totals.values()})
        sizes = self.sizes(across)
        return [(name, _with_sizes(x, sizes)) for name, x in found]

    def sizes(self, across: bool) -> dict[str, Expr]:
        """The sizes of modes that are not those of tensors: in a kernel across the forward, lengths."""
        lengths = lengths_of(self.spec.tensors)
        if lengths is None or not across:
            return {}
        most = Call("maximum", (Name(lengths.used), Literal_(0)))
        return {lengths.mode: Call("minimum", (most, Len(lengths.mode)))}


def _alike(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Tensors of rows whose modes are in the order of those with most, as a kernel of rows has them."""
    order = max(tensors, key=lambda tensor: len(tensor.shape)).shape
    found = []
    for tensor in tensors:
        shape = tuple(mode for mode in order if mode in tensor.shape)
        major = tensor.contiguous if tensor.shape and tensor.contiguous != shape[-1] else None
        found.append(replace(tensor, shape=shape, major=major))
    return tuple(found)


def _op_of_rows(compute: Compute) -> str:
    """The op of statements without a walk: that of rows if they reduce."""
    reduces = any(isinstance(node, Reduce) for value in compute.values for node in walk(value))
    able = (family for family in families() if family.op.differentiable and not family.op.walks)
    op: str = next(family for family in able if family.op.has_reductions == reduces).op.name
    return op


def _without_aliases(lines: Sequence[Line], names: Collection[str]) -> list[Line]:
    """Statements without those of these names that are nothing but another name."""
    other = {name: x.id for name, x in lines if name in names and isinstance(x, Name)}
    return [(name, renamed(x, other)) for name, x in lines if name not in other]


def _with_sizes(x: Expr, sizes: Mapping[str, Expr]) -> Expr:
    """An expression with sizes of modes as the language has them, or as `sizes` says."""

    def size(node: Expr) -> Expr | None:
        if isinstance(node, Name) and node.id.startswith(LENGTH):
            mode = node.id.removeprefix(LENGTH)
            return sizes.get(mode, Len(mode))
        reduction = node.left if isinstance(node, Binary) and isinstance(node.left, Reduce) else None
        if reduction is not None and node == size_of(reduction.mode):
            return sizes.get(reduction.mode, Len(reduction.mode))
        return None

    return replaced(x, size)
