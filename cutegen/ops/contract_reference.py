"""The text of a contraction's `reference`: sums of products as einsum has them, all else on tensors that broadcast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cutegen.codegen.formatting import WIDTH, call
from cutegen.codegen.reference import Reference
from cutegen.codegen.statements import print_statements, without_copy
from cutegen.codegen.texts import Text
from cutegen.codegen.torch_expressions import TorchPrinter
from cutegen.codegen.variables import Variables
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import coords
from cutegen.expressions.spans import Spans, span, spans_of
from cutegen.expressions.tree import Binary, Cast, Expr, Len, Name, Reduce, lengths
from cutegen.language.lengths import lengths_of
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.modes import Lengths
from cutegen.ops.lengths import exists, of_existing
from cutegen.ops.reading_walks import without_widening
from cutegen.ops.reference import axes_of, in_order, meant
from cutegen.reference.contractions import is_contraction


@dataclass
class EinsumPrinter(TorchPrinter):
    """Prints sums of products as einsum. `modes` are those of all values, in the order of their dimensions, each with
    the letter that einsum has for it; `spans` and `tensors_of` those of names, and of tensors as they are.
    """

    letters: Mapping[str, str] = field(default_factory=dict)
    tensor_lengths: frozenset[str] = frozenset()  # the modes whose `len` is a tensor; that of others is a number
    spans: Spans = field(default_factory=dict)
    declared: Mapping[str, Tensor] = field(default_factory=dict)

    def print(self, node: Expr) -> Text:
        if isinstance(node, Reduce) and is_contraction(node, self.spans):
            return self.contraction(node)
        return super().print(node)

    def cast(self, node: Cast, x: Text) -> Text:
        return self.sized(x, _dtype_of(node)) if self.is_size(node.x) else super().cast(node, x)

    def tensor(self, node: Expr, printed: Text) -> str:
        return self.sized(printed, _dtype_of(node)).text if self.is_size(node) else super().tensor(node, printed)

    def is_size(self, node: Expr) -> bool:
        """Whether an expression prints as a size of Python's."""
        return isinstance(node, Len) and node.mode not in self.tensor_lengths

    def sized(self, x: Text, dtype: Dtype) -> Text:
        """A size as a tensor."""
        return Text(f"torch.full((), {x.text}, dtype=torch.{dtype.torch}, device=device)")

    def contraction(self, node: Reduce) -> Text:
        product = node.nested[-1].x
        assert isinstance(product, Binary)
        factors = [self.factor(side) for side in product.children]
        summed = {reduction.mode for reduction in node.nested}
        every = frozenset().union(*(span(side, self.spans) for side in product.children)) - summed
        kept = [mode for mode in self.letters if mode in every]
        subscripts = ",".join(letters for letters, _ in factors)
        subscripts = f'"{subscripts}->{"".join(self.letters[mode] for mode in kept)}"'
        x, y = (text for _, text in factors)
        found = self.name(Text(f"torch.einsum({subscripts}, {x}, {y})"))
        index = ", ".join(":" if mode in kept else "None" for mode in self.letters)
        return Text(f"{found.text}[{index}]")

    def factor(self, node: Expr) -> tuple[str, str]:
        """The letters of a factor's modes, and its text in f32 with these modes alone."""
        bare = without_widening(node)
        if isinstance(bare, Name) and bare.id in self.declared:
            tensor = self.declared[bare.id]
            return "".join(self.letters[mode] for mode in tensor.shape), f"{tensor.argument}.float()"
        own = span(node, self.spans)
        index = ", ".join(":" if mode in own else "0" for mode in self.letters)
        text = self.name(Text(f"{self.name(self.print(node)).text}[{index}]"))
        return "".join(letter for mode, letter in self.letters.items() if mode in own), text.text


def reference_of_contraction(spec: KernelSpec) -> Reference:
    """The statements of `compute` in torch."""
    lengths_along = lengths_of(spec.tensors)
    statements = of_existing(meant(spec), lengths_along)
    variables, lead = Variables(spec), spec.lead.shape
    letters = dict(zip(lead, "abcdefghijklmnopqrstuvwxyz", strict=False))
    own = [mode.lower() for mode in lead]
    if all(len(letter) == 1 for letter in own) and len(set(own)) == len(own):
        letters = dict(zip(lead, own, strict=True))
    names = {t.name: t.argument for t in spec.tensors} | {s.name: s.argument for s in spec.scalars}
    spans = spans_of(spec.compute, {t.name: t.modes for t in spec.tensors})
    factors = {node.id for typed in statements for node in _factors(typed.value, spans)}
    broadcast = [t for t in spec.inputs if t.name not in factors]
    lines = [*_without_the_rest(spec, lengths_along)] if lengths_along else []
    for tensor in broadcast:
        names[tensor.name] = variables.free(f"wide_{tensor.argument}")
        order = [tensor.shape.index(mode) for mode in lead if mode in tensor.shape]
        turned = "" if order == sorted(order) else f".permute({', '.join(map(str, order))})"
        index = ", ".join(":" if mode in tensor.shape else "None" for mode in lead)
        lines.append(f"{names[tensor.name]} = {tensor.argument}{turned}[{index}]")
    asked = dict.fromkeys(c.mode for typed in statements for c in coords(typed.value))
    sized = dict.fromkeys(one.mode for typed in statements for one in lengths(typed.value))
    sizes = {mode: _size(spec, mode) for mode in (*asked, *sized)}
    coordinates = {mode: variables.free(f"coord_{mode}") for mode in asked}
    for mode, variable in coordinates.items():
        index = ", ".join(":" if other == mode else "None" for other in lead)
        lines.append(f"{variable} = torch.arange({sizes[mode]}, device=device)[{index}]")
    if lengths_along is not None and lengths_along.mode in sized:
        lines.append(f"{(variable := variables.free('length'))} = {_length(spec, lengths_along)}")
        sizes[lengths_along.mode] = variable
    printer = EinsumPrinter(
        names, frozenset(t.name for t in spec.tensors), {}, WIDTH - 4, coordinates, axes_of(spec),
        lengths={mode: sizes[mode] for mode in sized}, letters=letters,
        tensor_lengths=frozenset([lengths_along.mode] if lengths_along else []),
        spans=spans, declared={t.name: t for t in spec.tensors},
    )  # fmt: skip
    outputs = print_statements(spec, statements, printer, variables)
    if len(outputs) > 1:
        outputs = tuple(without_copy(stored) for stored in outputs)
    lines += [line for stored in outputs for line in stored.statements]
    results = []
    for stored in in_order(spec, outputs):
        shape = stored.tensor.shape
        index = ", ".join(":" if mode in shape else "0" for mode in lead)
        kept = [mode for mode in lead if mode in shape]
        places = ", ".join(str(kept.index(mode)) for mode in shape)
        turned = "" if list(shape) == kept else f".permute({places})"
        results.append(f"{stored.result}[{index}]{turned}")
    scalars = {
        s.argument: f"torch.tensor({s.argument}, dtype=torch.{s.dtype.torch}, device=device)" for s in spec.scalars
    }
    return Reference(tuple(lines), tuple(results), scalars, tuple(printer.constants))


def _dtype_of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype


def _without_the_rest(spec: KernelSpec, lengths: Lengths) -> Iterator[str]:
    """The statements that put zeros in the place of what does not exist, NaN or not, of each tensor that is read."""
    used, size = spec.tensor(lengths.used).argument, _size(spec, lengths.mode)
    for tensor in spec.inputs:
        if lengths.mode in tensor.shape and lengths.of in tensor.shape:
            name = tensor.argument
            yield call(f"{name} = torch.where(", [exists(lengths, tensor, used, size), name, "0"], ")", 4)


def _length(spec: KernelSpec, lengths: Lengths) -> str:
    """The lengths as `len` has them, with all modes."""
    index = ", ".join(":" if mode == lengths.of else "None" for mode in spec.lead.shape)
    return f"{spec.tensor(lengths.used).argument}.clamp(0, {_size(spec, lengths.mode)})[{index}]"


def _factors(value: Expr, spans: Spans) -> list[Name]:
    """The tensors that are factors of sums of products which are printed as einsum."""
    found = []
    for node in _walk(value):
        if isinstance(node, Reduce) and is_contraction(node, spans):
            found += [bare for side in node.x.children if isinstance(bare := without_widening(side), Name)]
    return found


def _walk(node: Expr) -> list[Expr]:
    return [node, *(inner for child in node.children for inner in _walk(child))]


def _size(spec: KernelSpec, mode: str) -> str:
    tensor = next(t for t in (*spec.inputs, *spec.outputs) if mode in t.shape)
    return f"{tensor.argument}.shape[{tensor.shape.index(mode)}]"
