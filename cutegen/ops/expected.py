"""The text of a module's `expected`: what a right kernel gives, and how far rounding may take it from that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from cutegen.codegen.exactness import LARGEST, exact_targets, is_exact, near_of
from cutegen.codegen.expectation import Expected, Product
from cutegen.codegen.expected import NearPrinter
from cutegen.codegen.formatting import WIDTH, call, display
from cutegen.codegen.host import as_called, places
from cutegen.codegen.reference import device_of
from cutegen.codegen.statements import print_statements, without_copy
from cutegen.codegen.torch_expressions import TorchPrinter
from cutegen.codegen.variables import Variables
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import MatMul, Typed, coords, walk
from cutegen.expressions.reducing import without_definitions
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.ops.reference import (
    axes_of,
    broadcast_outputs,
    broadcasts,
    coordinate_lines,
    in_order,
    shaped_names,
    squeezed,
)
from cutegen.reference.asked import family_of

_PRECISION = {Dtype.f64: 53, Dtype.f32: 24, Dtype.f16: 11, Dtype.bf16: 8}  # bits of a fraction, with the leading one
_LEAST = {Dtype.f64: -1073, Dtype.f32: -149, Dtype.f16: -24, Dtype.bf16: -133}  # the smallest number, as a power of 2
_HEAD = 60  # columns that the left side of an assignment may take


def expected_of(
    spec: KernelSpec,
    statements: Sequence[Typed],
    *,
    multiplied: Mapping[str, tuple[Tensor, Tensor]] = MappingProxyType({}),
    gathered: tuple[str, tuple[str, ...]] | None = None,
) -> Expected:
    """The body of `expected` for the statements of `compute`.

    `multiplied` has the two matrices of each product, by the name of the second; `gathered` is a tensor and the lines
    that make `result` of it, which then stands for its elements.
    """
    statements = without_definitions(statements)
    stored = [typed.stored for typed in statements if typed.stored is not None]
    sure = exact_targets(statements)
    if all(is_exact(value, sure) for value in stored):
        return Expected((_of_reference(spec),), is_reference=True)
    if len(statements) == 1 and isinstance(stored[0], MatMul):
        a, b = multiplied[stored[0].b]
        numbers = _product(spec, (a, b), stored[0])
        return Expected((), product=numbers, factors=(a.argument, b.argument))

    variables = Variables(spec)
    names = {t.name: t.argument for t in spec.tensors} | {s.name: s.argument for s in spec.scalars}
    names |= broadcast_outputs(spec, statements, variables)
    if gathered:
        names[gathered[0]] = "result"
    tensors = frozenset(t.name for t in spec.tensors)
    modes = dict.fromkeys(c.mode for typed in statements for c in coords(typed.value))
    coordinates = {mode: variables.free(f"coord_{mode}") for mode in spec.lead.shape if mode in modes}
    near = near_of(statements)
    products = variables.products() if multiplied else {}
    raw = TorchPrinter(names, tensors, {}, WIDTH - 4, coordinates, axes_of(spec))
    printer = NearPrinter(names, tensors, products, WIDTH - 4, coordinates, axes_of(spec), raw=raw, near=near)
    printer.fast_math = spec.schedule.fast_math
    outputs = print_statements(spec, statements, printer, variables)
    if len(outputs) > 1:
        outputs = tuple(without_copy(output) for output in outputs)
    lines = [
        *_scalars(spec.scalars),
        *coordinate_lines(spec, coordinates),
        *(gathered[1] if gathered else broadcasts(spec, statements, names)),
    ]
    summed = None
    for node in dict.fromkeys(n for typed in statements for n in walk(typed.value) if isinstance(n, MatMul)):
        a, b = multiplied[node.b]
        summed = _product(spec, (a, b), node)
        text = f"_product({a.argument}, {b.argument})"
        lines.append(f"{products[node.b]} = {printer.object(f'*{text}', _of(node)).text}")
    lines += [*printer.raw_lines, *_lifts(printer)]
    lines += [line for output in outputs for line in output.statements]
    returned = in_order(spec, outputs)
    lines += _returned(
        [output.result for output in returned],
        [squeezed(spec, output, shaped_names(spec, statements)) for output in returned],
        ["value.double()" if near.integers and o.tensor.dtype is not Dtype.i64 else "value" for o in returned],
    )
    if any("device=device" in line for line in lines):
        lines.insert(0, device_of(spec))
    return Expected(tuple(lines), replace(near, used=frozenset(printer.used)), summed)


def _of_reference(spec: KernelSpec) -> str:
    arguments = as_called(spec, {x.argument: x.argument for x in (*places(spec), *spec.named)})
    doubles = [".double()" if tensor.dtype is not Dtype.i64 else "" for tensor in spec.outputs]
    if len(doubles) == 1:
        return call("return [(reference(", arguments, f"){doubles[0]}, torch.zeros(()))]", 4)
    each = "one.double()" if all(doubles) else "one if one.dtype is torch.int64 else one.double()"
    return "\n    ".join(
        [call("result = reference(", arguments, ")", 4), f"return [({each}, torch.zeros(())) for one in result]"]
    )


def _product(spec: KernelSpec, factors: Sequence[Tensor], node: MatMul) -> Product:
    """Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1, eq. (3.5).

    Operands that are wider than the accumulator are rounded first, which counts as two roundings more for each term.
    Of each factor `bits` of its fraction are multiplied, all if None: it may lose 2^(1 - bits) of itself.
    """
    bits = family_of(spec).factor_bits(spec)
    dtype = _of(node)
    wide = any(not factor.dtype.is_f8 and _PRECISION[factor.dtype] > _PRECISION[dtype] for factor in factors)
    units = "2**-52" if dtype is Dtype.f64 else f"2**-{_PRECISION[dtype]} + 2**-53"
    cut = "" if bits is None else f"2**{2 - bits} + 2**{2 - 2 * bits}"
    roundings, batched = 3 if wide else 1, any(len(factor.shape) > 2 for factor in factors)
    found = Product(dtype.torch, units, roundings, f"2**{_LEAST[dtype]}", LARGEST[dtype], cut, batched=batched)
    orders = family_of(spec).sum_orders(spec)
    if not orders:
        return found
    a, b = (f"2**{round(math.log2(factor.dtype.least_normal))}" for factor in factors)
    return replace(found, orders=orders, normal=(a, b))


def _scalars(scalars: Sequence[Scalar]) -> list[str]:
    """The lines that make tensors without dimensions of the scalars, those of a type in as few lines as fit."""
    lines = []
    for dtype in dict.fromkeys(s.dtype for s in scalars):
        names = [s.argument for s in scalars if s.dtype is dtype]
        for group in _groups(names, [len(name) + 2 for name in names], _HEAD):
            given = ("[", group, "]") if len(group) > 1 else group[0]
            items = [given, f"dtype=torch.{dtype.torch}", "device=device"]
            lines.append(call(f"{', '.join(group)} = torch.tensor(", items, ")", 4))
    return lines


def _lifts(printer: NearPrinter) -> list[str]:
    """The lines that make objects of `_Near` of the variables that are read."""
    lines = []
    arguments = [name for name in printer.names.values() if name in printer.lifted]
    ordered = {name: printer.lifted[name] for name in dict.fromkeys((*arguments, *printer.lifted))}
    for dtype in dict.fromkeys(ordered.values()):
        of_type = {name: printer.object(name, dtype).text for name in ordered if ordered[name] is dtype}
        widths = [len(f"{name}, {text}, ") for name, text in of_type.items()]
        for group in _groups(list(of_type), widths, WIDTH - 4):
            lines.append(f"{', '.join(group)} = {', '.join(of_type[name] for name in group)}")
    return lines


def _groups(names: Sequence[str], widths: Sequence[int], most: int) -> list[list[str]]:
    """The names in groups whose widths are no more than `most` together, or of one name."""
    groups: list[list[str]] = []
    taken = 0
    for name, width in zip(names, widths, strict=True):
        if groups and taken + width <= most:
            groups[-1].append(name)
            taken += width
        else:
            groups.append([name])
            taken = width
    return groups


def _returned(results: Sequence[str], indices: Sequence[str], values: Sequence[str]) -> list[str]:
    if len(results) == 1 or any(indices) or len(set(values)) > 1:
        pairs = [f"({x}.{value}{i}, {x}.error{i})" for x, i, value in zip(results, indices, values, strict=True)]
        return [display("return [", pairs, "]", 4)]
    each = f"(one.{values[0]}, one.error) for one in"
    flat = f"return [{each} ({', '.join(results)})]"
    if 4 + len(flat) <= WIDTH:
        return [flat]
    return [display("result = [", results, "]", 4), f"return [{each} result]"]


def _of(node: MatMul) -> Dtype:
    assert node.dtype is not None
    return node.dtype
