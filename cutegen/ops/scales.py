"""Scales of a matrix product's operands, one for each block of them: `(A * sA) @ (B * sB).T`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import MatMul, Name, Place, walk
from cutegen.expressions.tree import Compute
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.model import KernelSpec, Tensor

if TYPE_CHECKING:
    from cutegen.codegen.variables import Variables

CODE = "CG146"


def check_scales(ctx: Context, product: MatMul, number: int, tensors: Mapping[str, Tensor]) -> None:
    """Says to `ctx` which scales are none of their operands: the statement of that `number` has the product."""
    k = tensors[product.a].shape[-1]
    sides = ((product.a, product.a_scale, product.a_scale_place), (product.b, product.b_scale, product.b_scale_place))
    found: list[Tensor] = []
    for name, scale, place in sides:
        if scale is None:
            continue
        if scale not in tensors:
            say(ctx, CODE, f"`{scale}` is not a tensor, as a scale of `{name}` must be", number, place, _outside(scale))
        elif not _is_scale(ctx, tensors[name], tensors[scale], k, number, place):
            return
        else:
            found.append(tensors[scale])
    sizes = {block.size for tensor in found for block in tensor.blocks if block.of == k}
    if len(sizes) > 1:
        text = " and ".join(map(str, sorted(sizes)))
        message = f"the scales have blocks of {text} along `{k}`, and a kernel sums one block at a time"
        say(ctx, CODE, message, number, product.place, "give both scales the same mode of blocks")


def _is_scale(ctx: Context, operand: Tensor, scale: Tensor, k: str, number: int, place: Place) -> bool:
    """Whether a tensor has a scale for each block of an operand along k, and for rows or blocks of rows."""
    shape = f"`{scale.name}` is [{', '.join(scale.shape)}]"
    blocks = next((block for block in scale.blocks if block.of == k), None)
    if blocks is None:
        message = f"{shape}, and has no blocks of `{k}`, along which `{operand.name}` is summed"
        say(ctx, CODE, message, number, place, _outside(scale.name))
        return False
    if [mode for mode in operand.shape if mode in scale.spread] != list(scale.spread):
        notes = f"{operand.name} is [{', '.join(operand.shape)}]"
        wanted = ", ".join(blocks.mode if mode == k else mode for mode in operand.shape)
        message = f"{shape}, whose modes are none of `{operand.name}` and their blocks in that order; {notes}"
        say(ctx, CODE, message, number, place, f"write `shape: [{wanted}]`, or blocks of these modes")
        return False
    if scale.dtype is not Dtype.f32:
        message = f"`{scale.name}` is {scale.dtype.value}, and a product's scales are f32"
        ctx.say(CODE, message, "tensors", scale.name, "dtype", help="write `dtype: f32`")
        return False
    return True


def _outside(scale: str) -> str:
    """Where a factor stands that is the same along what is summed."""
    return f"write it after the product, as `(A @ B.T) * {scale}`"


def refuse_outside(ctx: Context, compute: Compute, tensor: Tensor) -> None:
    """Says to `ctx` that the epilogue reads a tensor with blocks, which scale operands only."""
    for number, value in enumerate(compute.values):
        for node in walk(value):
            if isinstance(node, Name) and node.id == tensor.name:
                of = tensor.blocks[0].of
                message = f"`{tensor.name}` has blocks of `{of}`; tensors of the epilogue have the output's modes"
                help = f"multiply the operand that it scales, as in `(A * {tensor.name}) @ B.T`"
                say(ctx, CODE, message, number, node.place, help)
                return


def scaled_lines(spec: KernelSpec, product: MatMul, summed: str, variables: Variables) -> list[str]:
    """The torch statements that sum, in `summed`, a product whose operands are scaled: block by block, since an operand
    times its scale may overflow where the sum times both scales does not.
    """
    from cutegen.codegen.formatting import chain

    dtype = product.dtype
    assert dtype is not None
    number, part, scale = variables.free("block"), variables.free("part"), variables.free("scale")
    sides = ((product.a, product.a_scale), (product.b, product.b_scale))
    k = spec.tensor(product.a).shape[-1]
    factors, operands, first = [], [], None
    for letter, (name, own) in zip("AB", sides, strict=True):
        operand, scales = spec.tensor(name), spec.tensor(own) if own else None
        operands.append(f"{operand.argument}[..., {part}].to(torch.{dtype.torch})")
        if scales is not None:
            first = first or scales
            factors.append(_of_block(scales, operand, number, letter))
    assert first is not None
    depth = first.unit(k)
    return [
        f"{summed} = torch.zeros((), device=device)",
        f"for {number} in range({first.argument}.shape[{first.spread.index(k)}]):",
        f"    {part} = slice({depth} * {number}, {depth} * {number} + {depth})",
        "    " + chain(f"{scale} = ", factors, " * ", 8),
        "    " + chain(f"{summed} = ", [summed, f"({operands[0]} @ {operands[1]}.mT) * {scale}"], " + ", 8),
    ]


def _of_block(scale: Tensor, operand: Tensor, number: str, letter: str) -> str:
    """The scales of a block along k as torch broadcasts them to the output: those of A along its rows, of B along its
    columns.
    """
    text, index = scale.argument, list[str]()
    for mode in operand.shape[:-1]:
        if mode not in scale.spread:
            continue
        axis = scale.spread.index(mode)
        unit = scale.unit(mode)
        rows = mode == operand.shape[-2]
        if unit > 1:
            text += f".repeat_interleave({unit}, {axis})"
        index += ["None"] * (letter == "B" and rows and bool(index))
        index.append(f": {operand.argument}.shape[{operand.shape.index(mode)}]" if unit > 1 else ":")
    alike = operand.shape[-2] not in scale.spread and bool(index)  # matrices of a batch have one each
    index += [number, *["None"] * (1 + alike if letter == "A" and index else 2 * alike)]
    return f"{text}[{', '.join(index)}]"
