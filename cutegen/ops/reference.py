"""The text of a module's `reference`: what an op computes, in torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from cutegen.codegen.formatting import WIDTH, call
from cutegen.codegen.places import place_index
from cutegen.codegen.reference import Reference
from cutegen.codegen.segmented import LENGTHS, rows_of_segments
from cutegen.codegen.statements import Stored, print_statements, without_copy
from cutegen.codegen.torch_expressions import TorchPrinter
from cutegen.codegen.variables import Variables
from cutegen.codegen.views import view_lines
from cutegen.expressions.annotating import annotate
from cutegen.expressions.parsing import Coord, Expr, Local, Name, Typed, coords, walk
from cutegen.expressions.places import ONE
from cutegen.expressions.tree import Along
from cutegen.language.model import KernelSpec, Tensor
from cutegen.reference.asked import family_of, op_of


def meant(spec: KernelSpec) -> tuple[Typed, ...]:
    """The statements in the types of the language, independent of the kernel's types."""
    types = {t.name: t.dtype for t in spec.by_view.tensors} | {s.name: s.dtype for s in spec.scalars}
    return annotate(spec.compute, types, family_of(spec).accumulator(spec), narrowed=False)


def reference_of(
    spec: KernelSpec,
    statements: Sequence[Typed],
    multiplied: Mapping[str, str] = MappingProxyType({}),
    *,
    stable: bool = True,
    cut: bool = True,
) -> Reference:
    """The statements of `compute` on torch tensors that broadcast.

    `multiplied` has the expressions that make the matrix products, by the name of B. Unless rows are `cut`, segments
    have all of them. Unless it is `stable`, equal
    values that are kept of a row may be in any order.
    """
    written, spec = spec, spec.by_element
    variables = Variables(spec)
    names = {t.name: t.argument for t in spec.tensors} | {s.name: s.argument for s in spec.scalars}
    names |= broadcast_outputs(spec, statements, variables)
    taken = _taken(written, statements)
    rows = [t for t in _read(written, statements) if t.segments and cut]
    old = {t.name: variables.free(f"old_{t.argument}") for t in (*taken, *rows) if t.writes}
    names |= old
    tensors = frozenset(t.name for t in spec.tensors)
    modes = dict.fromkeys(c.mode for typed in statements for c in coords(typed.value))
    coordinates = {mode: variables.free(f"coord_{mode}") for mode in axes_of(spec) if mode in modes}
    products = variables.products() if multiplied else {}
    printer = TorchPrinter(
        names, tensors, products, WIDTH - 4, coordinates, axes_of(spec), sizes=spec.static, stable=stable
    )
    outputs = print_statements(spec, statements, printer, variables)
    if len(outputs) > 1:
        outputs = tuple(without_copy(stored) for stored in outputs)
    printed = [line for stored in outputs for line in stored.statements]
    read = {node.id for typed in statements for node in walk(typed.value) if isinstance(node, Name)}
    lines, sizes = view_lines(written, tuple(read))
    lines += [f"{names[t.name]} = {t.argument}[{place_index(written, t)}]" for t in taken]
    lines += segment_rows(written, statements, cut, old)
    lines += [line for t in _read(written, statements) for line in _repeated(written, t, sizes)]
    lines += [*coordinate_lines(spec, coordinates, sizes), *broadcasts(spec, statements, names)]
    lines += [*(assigned(products[b], text) for b, text in multiplied.items()), *printed]
    scalars = {
        s.argument: f"torch.tensor({s.argument}, dtype=torch.{s.dtype.torch}, device=device)" for s in spec.scalars
    }
    shaped = shaped_names(spec, statements)
    results = [f"{stored.result}{squeezed(spec, stored, shaped)}" for stored in in_order(spec, outputs)]
    return Reference(tuple(lines), tuple(results), scalars, tuple(printer.constants))


def _repeated(spec: KernelSpec, tensor: Tensor, sizes: Mapping[str, str]) -> list[str]:
    """The statements that repeat each element of a tensor along its blocks, as far as the modes go; none without.

    `sizes` has expressions of those that packed arguments have. A size that no input has is that of an output, which
    the caller then passes.
    """
    axes = {tensor.shape.index(block.mode): block for block in tensor.blocks}
    if not axes:
        return []
    index, text = list[str](), tensor.argument
    for axis, mode in enumerate(tensor.spread):
        having = next((t for t in (*spec.inputs, *spec.outputs) if mode in t.shape and t.view is None), None)
        size = str(spec.static.get(mode, sizes.get(mode)))
        size = f"{having.argument}.shape[{having.shape.index(mode)}]" if having is not None else size
        if axis in axes:
            text += f".repeat_interleave({axes[axis].size}, {axis})"
        index.append(f": {size}" if axis in axes else ":")
    return [f"{tensor.argument} = {text}", f"{tensor.argument} = {tensor.argument}[{', '.join(index)}]"]


def _taken(spec: KernelSpec, statements: Sequence[Typed]) -> list[Tensor]:
    """The tensors that are read at places."""
    return [tensor for tensor in _read(spec, statements) if tensor.at]


def _read(spec: KernelSpec, statements: Sequence[Typed]) -> list[Tensor]:
    """The tensors whose elements statements read."""
    read = {node.id for typed in statements for node in walk(typed.value) if isinstance(node, Name)}
    return [tensor for tensor in spec.tensors if tensor.name in read]


def assigned(name: str, text: str) -> str:
    """An assignment; of products that are joined over several lines where one is too long."""
    head, inner = "torch.cat(", text[len("torch.cat(") : -1]
    return call(f"{name} = {head}", [inner], ")", 4) if text.startswith(head) else f"{name} = {text}"


def segment_rows(
    spec: KernelSpec,
    statements: Sequence[Typed],
    cut: bool = True,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """The statements that take the rows of segments from tensors; none where no mode is cut into them. Where they are
    not `cut`, segments have all rows. `renamed` has other names for them, by the names of tensors.
    """
    read = {node.id for typed in statements for node in walk(typed.value) if isinstance(node, Name)}
    return [*rows_of_segments(spec, read | spec.factors, LENGTHS, cut=cut, renamed=renamed)] if spec.segments else []


def in_order(spec: KernelSpec, outputs: Sequence[Stored]) -> list[Stored]:
    """The outputs in the order in which functions return them."""
    return sorted(outputs, key=lambda stored: spec.outputs.index(stored.tensor))


def axes_of(spec: KernelSpec) -> dict[str, int]:
    """The dimension of each mode in the tensors that `broadcasts` makes."""
    return {mode: axis for axis, mode in enumerate(op_of(spec).axes(spec))}


def shaped_names(spec: KernelSpec, statements: Sequence[Typed]) -> frozenset[str]:
    """The names of tensors, and of what is computed of a tensor or of coordinates: all that has dimensions."""
    found = {tensor.name for tensor in spec.tensors if tensor.reads}
    for typed in statements:
        if _is_shaped(typed.value, found):
            found.add(typed.target)
        else:
            found.discard(typed.target)
    return frozenset(found)


def _is_shaped(value: Expr, names: Collection[str]) -> bool:
    return any(
        isinstance(node, Coord | Along) or (isinstance(node, Name | Local) and node.id in names) for node in walk(value)
    )


def squeezed(spec: KernelSpec, stored: Stored, shaped: Collection[str]) -> str:
    """The index that takes from what an output was computed as the modes that it lacks, along which that has size 1.

    `shaped` are the names of what has dimensions.
    """
    tensor = stored.tensor
    index = _index(spec, tensor, "0", "None")
    return f"[{', '.join(index)}]" if tensor.shape != (*axes_of(spec),) and _is_shaped(stored.value, shaped) else ""


def broadcast_outputs(spec: KernelSpec, statements: Sequence[Typed], variables: Variables) -> dict[str, str]:
    """The variables that stand, with a mode of size 1 for each that is lacking, for tensors that are written as well.

    The argument itself keeps its modes: results are shaped as it is.
    """
    found = {}
    for tensor in _lacking(spec, statements):
        if tensor.writes:
            found[tensor.name] = variables.free(f"old_{tensor.argument}")
    return found


def broadcasts(spec: KernelSpec, statements: Sequence[Typed], names: Mapping[str, str]) -> list[str]:
    """The lines that give tensors a mode of size 1 for each that they lack; `names` has the variables."""
    lines = []
    for tensor in _lacking(spec, statements):
        index = ", ".join(_index(spec, tensor, "None", "0"))
        lines.append(f"{names[tensor.name]} = {tensor.argument}[{index}]")
    return lines


def _lacking(spec: KernelSpec, statements: Sequence[Typed]) -> list[Tensor]:
    """The tensors that are read and lack modes of the leading one."""
    read = {node.id for typed in statements for node in walk(typed.value) if isinstance(node, Name)}
    lead = (*axes_of(spec),)
    return [t for t in spec.tensors if t.name in read and t.shape != lead and {*t.modes} <= {*lead}]


def _index(spec: KernelSpec, tensor: Tensor, lacking: str, one: str) -> list[str]:
    """An index that turns a tensor's modes into those of the leading one, or these into its own.

    `lacking` stands for a mode that the tensor lacks, and `one` for one of size 1 that only it has.
    """
    index, rest = [], list(tensor.shape)
    for mode in axes_of(spec):
        while mode in rest and rest[0] != mode:
            index += [one] * (rest.pop(0) == ONE)
        index.append(":" if mode in rest else lacking)
        rest = rest[mode in rest :]
    return index + [one] * rest.count(ONE)


def coordinate_lines(
    spec: KernelSpec, coordinates: Mapping[str, str], sizes: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """The lines that make a tensor of coordinates, which broadcasts, for each mode whose coordinates are asked for.

    `sizes` has expressions of the sizes of modes where arguments are packed.
    """
    lines, lead = [], spec.lead
    for mode, variable in coordinates.items():
        having = next((t for t in spec.inputs if mode in t.shape), lead)  # an output may be left out
        if not (having.reads and mode in having.shape) and mode in spec.static:
            size = str(spec.static[mode])
        else:
            size = f"{having.argument}.shape[{having.shape.index(mode)}]"
        size = sizes.get(mode, size)
        items = [size, "device=device"]
        index = ", ".join(":" if other == mode else "None" for other in axes_of(spec))
        lines.append(call(f"{variable} = torch.arange(", items, f")[{index}]" if len(axes_of(spec)) > 1 else ")", 4))
    return lines
