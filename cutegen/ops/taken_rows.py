"""Matrix products whose rows are taken at places: those of A are gathered."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute, MatMul
from cutegen.language.context import Context
from cutegen.language.tensor import Tensor, element_modes, with_elements

MATRIX = 2  # modes


def at_places(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by name, each that is taken at places with the modes of its elements there."""
    every = tuple(tensors.values())
    found = {tensor.name: tensor for tensor in with_elements(every)}
    return {tensor.name: found[tensor.name] if tensor.at else tensor for tensor in every}


def check_taken_rows(ctx: Context, compute: Compute, product: MatMul, tensors: Mapping[str, Tensor]) -> bool:
    """Whether what is taken at places are rows of the matrix on the left of `product`; says to `ctx` what else is
    (CG143).
    """
    before = len(ctx.found)
    for tensor in tensors.values():
        if tensor.at:
            _check_tensor(ctx, compute, product, tensor, tensors)
    return len(ctx.found) == before


def _check_tensor(
    ctx: Context, compute: Compute, product: MatMul, tensor: Tensor, tensors: Mapping[str, Tensor]
) -> None:
    modes, (mode, index) = ", ".join(tensor.shape), tensor.at[0]
    where, left = ("tensors", tensor.name, "at"), tensor.name == product.a
    if not left:
        what = "is written" if tensor.writes else "is read"
        message = f"`{tensor.name}` {what} at places, and a gemm takes rows of `{product.a}` at places alone"
        help = "gather or scatter it in an elementwise or a row kernel, before or after this one"
        ctx.say("CG143", message, *where, key=True, help=help)
    elif len(tensor.shape) != MATRIX or len(element_modes(tensor, tuple(tensors.values()))) != MATRIX:
        own = f"`{index}` is [{', '.join(tensors[index].shape)}]"
        message = f"`{tensor.name}` is [{modes}] and {own}: a gemm takes the rows of one matrix, each at one place"
        help = f"write `{tensor.name}: {{shape: [{mode}, K]}}` and `{index}: {{shape: [M]}}`; of several matrices "
        help += "gather in an elementwise kernel before this one"
        ctx.say("CG143", message, *where, key=True, help=help)
    elif mode != tensor.shape[0]:
        message = f"`{tensor.name}` is [{modes}], and `{mode}` is summed over: a gemm takes whole rows at places"
        help = "gather along the mode that is summed over in an elementwise kernel before this one"
        ctx.say("CG143", message, *where, mode, key=True, help=help)
    elif tensor.contiguous != tensor.shape[1]:
        message = f"`{tensor.name}` is contiguous along `{mode}`, along which its rows are taken at places"
        notes = ("neighbours in memory are then of different rows: no access could be wider than an element",)
        help = f"pass a tensor with contiguous rows, and write `major: {tensor.shape[1]}` or leave it out"
        ctx.say("CG143", message, "tensors", tensor.name, "major", notes=notes, help=help)
    elif len(compute.products) > 1:
        message = f"`{tensor.name}` is taken at places, and is multiplied by {len(compute.products)} matrices"
        help = "write a kernel for each product, or gather in an elementwise kernel before this one"
        ctx.say("CG143", message, *where, key=True, help=help)
