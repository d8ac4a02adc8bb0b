"""The peers that a kernel may be measured against, and which expressions they compute. Nothing here needs a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import Binary, Expr, Literal_, MatMul, Name, Unary
from cutegen.language.model import KernelSpec
from cutegen.peers.asked import op_of
from cutegen.peers.peer import Peer
from cutegen.planning.batches import batch_of

if TYPE_CHECKING:
    pass

FUNCTIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


def rounds_between(peer: Peer, spec: KernelSpec, scalars: Mapping[str, int | float | bool]) -> bool:
    """Whether a peer rounds on its way to the results, to types of the spec, where the kernel rounds but its results.

    Libraries compute a formula in their own way. Of a gemm torch gets the product from cuBLAS in the operands' type,
    and cuBLAS may round it before it adds a tensor; one call for the product alone rounds as we do.
    """
    if peer.kind == "library" or not spec.compute.products:
        return peer.kind == "library"
    wanted = product_of(spec, scalars)
    return peer.kind != "scaled" and (wanted is None or wanted.addend is not None)


COMPILED = Peer("torch.compile", "compile")
EAGER = Peer("torch eager", "eager")
CUBLAS = Peer("cuBLAS", "cublas")
CUBLAS_BEST = Peer("cuBLAS best layout", "cublas best")
CUBLAS_EAGER = Peer("cuBLAS, then torch", "cublas eager")
GROUPED = Peer("torch._grouped_mm", "cublas eager")
TORCH_BLOCK = 128  # elements of a block that torch._scaled_mm scales on Hopper
SCALED = Peer("torch._scaled_mm", "scaled")


@dataclass(frozen=True)
class Product:
    """A product, or a batch, as cuBLAS computes it in one call: `alpha * (A @ B.T) + beta * addend`.

    Without `addend` beta is 0.
    """

    alpha: float
    beta: float = 0.0
    addend: str | None = None


@dataclass(frozen=True)
class Scaled:
    """A product of floats of 8 bits as torch._scaled_mm computes it in one call: `number * (A @ B.T) * rows * columns`.

    `rows` and `columns` name tensors of f32, [M] and [N]; without both it takes a scale for each whole operand. Where
    they are for `blocks`, rows has one for each 128 of K in each row of A, and columns one for each 128 x 128 of B.
    """

    number: float = 1.0
    rows: str | None = None
    columns: str | None = None
    blocks: bool = False


def choose(spec: KernelSpec) -> tuple[Peer, ...]:
    """The peers of a kernel, the nearest first; no peers where it has nothing to be fast at.

    Those of libraries are there whether these are installed or not.
    """
    from cutegen.peers.libraries import library_peers

    if spec.by_view.arguments:
        return COMPILED, EAGER
    return *op_of(spec).peers(spec), *library_peers(spec)


def copy(spec: KernelSpec) -> Peer | None:
    """The peer of `D = A`, both of one shape; None for any other expression."""
    assignment = spec.compute.single
    source = _like_output(spec, assignment.value) if assignment else None
    return None if source is None else Peer("torch copy_", "copy", (source,))


def arithmetic(spec: KernelSpec) -> Peer | None:
    """The peer of `C = A + B` or another operator, all of one dtype and shape; None for any other expression."""
    assignment = spec.compute.single
    value = assignment.value if assignment else None
    if not isinstance(value, Binary) or value.op not in FUNCTIONS or not spec.output.dtype.is_float:
        return None
    names = [name for side in (value.left, value.right) if (name := _like_output(spec, side)) is not None]
    if len(names) < 2 or any(spec.tensor(name).dtype is not spec.output.dtype for name in names):
        return None
    function = FUNCTIONS[value.op]
    return Peer(f"torch.{function}", "arithmetic", tuple(names), function)


def _like_output(spec: KernelSpec, node: Expr) -> str | None:
    """The tensor that the node names, if it has the output's modes."""
    tensors = {t.name: t for t in spec.tensors}
    if isinstance(node, Name) and node.id in tensors and tensors[node.id].shape == spec.output.shape:
        return node.id
    return None


def product_of(spec: KernelSpec, scalars: Mapping[str, int | float | bool]) -> Product | None:
    """Returns the product for one call of cuBLAS that computes all of `compute`; None if no call does."""
    matmul = spec.compute.matmul
    if matmul is None or matmul.scales or spec.compute.single is None or spec.segments is not None:
        return None
    if any(tensor.at for tensor in spec.tensors):
        return None
    used = [spec.tensor(matmul.a), spec.tensor(matmul.b), spec.output]
    terms = _terms(spec.compute.values[-1], 1.0, scalars)
    if terms is None or not spec.output.dtype.is_float or any(t.dtype is not spec.output.dtype for t in used):
        return None
    products = [factor for factor, node in terms if isinstance(node, MatMul)]
    others = [(factor, node) for factor, node in terms if not isinstance(node, MatMul)]
    if len(products) != 1 or len(others) > 1:
        return None
    if not others:
        return Product(products[0])
    factor, node = others[0]
    name = _like_output(spec, node)
    if name is None or spec.tensor(name).dtype is not spec.output.dtype:
        return None
    return Product(products[0], factor, name)


def scaled_of(spec: KernelSpec, scalars: Mapping[str, int | float | bool]) -> Scaled | None:
    """Returns the product for one call of torch._scaled_mm that computes all of `compute`; None if no call does."""
    matmul, output = spec.compute.matmul, spec.output
    if matmul is None or len(spec.compute.products) > 1 or spec.compute.single is None:
        return None
    if output.dtype not in (Dtype.f32, Dtype.f16, Dtype.bf16) or any(tensor.at for tensor in spec.tensors):
        return None
    if batch_of(output) is not None or not all(spec.tensor(name).dtype.is_f8 for name in (matmul.a, matmul.b)):
        return None
    if matmul.scales:
        return _blocks_of(spec, matmul)
    number, scales = 1.0, dict[tuple[str, ...], str]()
    for factor in _factors(spec.compute.values[-1]):
        value = number_of(factor, scalars)
        if value is not None:
            number *= value
        elif isinstance(factor, Name) and spec.tensor(factor.id).dtype is Dtype.f32:
            if spec.tensor(factor.id).shape in scales:
                return None
            scales[spec.tensor(factor.id).shape] = factor.id
        elif not isinstance(factor, MatMul):
            return None
    m, n = output.shape
    rows, columns = scales.pop((m,), None), scales.pop((n,), None)
    if scales or (rows and columns and number != 1):
        return None
    return Scaled(number, rows, columns)


def _blocks_of(spec: KernelSpec, matmul: MatMul) -> Scaled | None:
    """Returns the product whose operands have scales for blocks, as torch._scaled_mm has them."""
    if matmul.a_scale is None or matmul.b_scale is None or not isinstance(spec.compute.values[-1], MatMul):
        return None
    rows, columns = spec.tensor(matmul.a_scale), spec.tensor(matmul.b_scale)
    units = [[tensor.unit(mode) for mode in tensor.spread] for tensor in (rows, columns)]
    alike = units == [[1, TORCH_BLOCK], [TORCH_BLOCK, TORCH_BLOCK]] and rows.major == spec.output.shape[0]
    return Scaled(1.0, rows.name, columns.name, blocks=True) if alike else None


def _factors(node: Expr) -> list[Expr]:
    """Returns the factors of a product; for any other expression, that expression alone."""
    if isinstance(node, Binary) and node.op == "*":
        return [*_factors(node.left), *_factors(node.right)]
    return [node]


def _terms(node: Expr, factor: float, scalars: Mapping[str, int | float | bool]) -> list[tuple[float, Expr]] | None:
    """An expression as a sum of numbers times one matrix product or tensor each; None if it is no such sum."""
    match node:
        case MatMul():
            return [(factor, node)]
        case Name() if node.id not in scalars:
            return [(factor, node)]
        case Unary(op="-"):
            return _terms(node.x, -factor, scalars)
        case Binary(op="+" | "-"):
            left = _terms(node.left, factor, scalars)
            right = _terms(node.right, factor if node.op == "+" else -factor, scalars)
            return None if left is None or right is None else left + right
        case Binary(op="*"):
            for number, rest in ((node.left, node.right), (node.right, node.left)):
                if (value := number_of(number, scalars)) is not None:
                    return _terms(rest, factor * value, scalars)
    return None


def number_of(node: Expr, scalars: Mapping[str, int | float | bool]) -> float | None:
    """The value of a literal or scalar, or of a product of those; None for anything else."""
    match node:
        case Literal_():
            return float(node.value)
        case Name() if node.id in scalars:
            return float(scalars[node.id])
        case Unary(op="-"):
            value = number_of(node.x, scalars)
            return None if value is None else -value
        case Binary(op="*"):
            left, right = number_of(node.left, scalars), number_of(node.right, scalars)
            return None if left is None or right is None else left * right
    return None
