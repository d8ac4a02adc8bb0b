"""Matrix products whose rows are taken at places: those of A are gathered."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute, MatMul, uses
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.taken import indices
from cutegen.language.tensor import Tensor, element_modes, with_elements

MATRIX = 2  # modes


def at_places(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by name, each that is taken at places with the modes of its elements there."""
    every = tuple(tensors.values())
    found = {tensor.name: tensor for tensor in with_elements(every)}
    return {tensor.name: found[tensor.name] if tensor.at else tensor for tensor in every}


def check_taken_rows(ctx: Context, compute: Compute, product: MatMul, tensors: Mapping[str, Tensor]) -> bool:
    """Whether what is taken at places are rows, of the matrix on the left of `product` or of tensors around the
    products; says to `ctx` what else is (CG143).
    """
    before = len(ctx.found)
    for tensor in tensors.values():
        if tensor.at:
            _check_tensor(ctx, compute, product, tensor, tensors)
    _check_read(ctx, compute, tensors)
    return len(ctx.found) == before


def _check_tensor(
    ctx: Context, compute: Compute, product: MatMul, tensor: Tensor, tensors: Mapping[str, Tensor]
) -> None:
    modes, (mode, index) = ", ".join(tensor.shape), tensor.at[0]
    where, rows = ("tensors", tensor.name, "at"), tensors[index].shape
    right = next((one for one in compute.products if one.b == tensor.name), None)
    if right is not None:
        message = f"`{tensor.name}` is taken at places, and is on the right of a product: only the left may be"
        help = f"exchange the sides, `{tensor.name} @ {right.a}.T`, or gather in an elementwise kernel before this one"
        ctx.say("CG143", message, *where, key=True, help=help)
    elif len(tensor.at) > 1 or len(rows) != 1 or len(tensor.shape) > MATRIX:
        message = f"`{tensor.name}` is [{modes}] and `{index}` is [{', '.join(rows)}]"
        notes = ("a gemm takes the rows of one matrix, each at one place",)
        help = f"write `{tensor.name}: {{shape: [{mode}, {tensor.shape[-1]}]}}` and `{index}: {{shape: [M]}}`; gather "
        help += "from several matrices, or at several places, in an elementwise kernel"
        ctx.say("CG143", message, *where, key=True, notes=notes, help=help)
    elif mode != tensor.shape[0] or (tensor.name != product.a and rows != _rows_of(product, tensors)):
        message = f"`{tensor.name}` is [{modes}], and `{mode}` is no mode of the product's rows: a gemm takes whole "
        help = f"gather or scatter along `{mode}` in an elementwise kernel, before or after this one"
        ctx.say("CG143", f"{message}rows at places", *where, mode, key=True, help=help)
    elif tensor.contiguous == mode and len(tensor.shape) == MATRIX:
        message = f"`{tensor.name}` is contiguous along `{mode}`, along which its rows are taken at places"
        notes = ("neighbours in memory are then of different rows: no access could be wider than an element",)
        help = f"pass a tensor with contiguous rows, and write `major: {tensor.shape[1]}` or leave it out"
        ctx.say("CG143", message, "tensors", tensor.name, "major", notes=notes, help=help)
    elif len(compute.products) > 1:
        message = f"`{tensor.name}` is taken at places, in a kernel of {len(compute.products)} products"
        help = "write a kernel for each product, or gather in an elementwise kernel before this one"
        ctx.say("CG143", message, *where, key=True, help=help)


def _check_read(ctx: Context, compute: Compute, tensors: Mapping[str, Tensor]) -> None:
    """Says which tensors of places are read by statements, too."""
    places = indices(tuple(tensors.values()))
    for number, statement in enumerate(compute.statements):
        for name, place in uses(statement.value):
            if name in places:
                message = f"`{name}` holds places of rows, and a gemm computes nothing with these"
                say(ctx, "CG143", message, number, place, "pass their values in a tensor of another name as well")


def _rows_of(product: MatMul, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The mode of a product's rows, alone."""
    left = tensors.get(product.a)
    return element_modes(left, tuple(tensors.values()))[:1] if left is not None else ()
