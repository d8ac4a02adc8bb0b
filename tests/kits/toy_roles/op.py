"""The op `best`: the largest score of each row of A among the rows of B."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from cutegen.codegen.reference import Reference
from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Compute, MatMul, Reduce
from cutegen.language.context import Context
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.ops.op import Op
from cutegen.planning.plan import Plan
from cutegen.planning.work import Work


class Best(Op):
    """`Y = max(A @ B.T, N)`."""

    name = "best"
    summary = "the largest score of each row, max(A @ B.T, N), of A [M,K] and B [N,K]"
    has_product = has_reductions = True
    rate = "TFLOP/s"
    reserved = frozenset(("best", "full", "empty", "phase", "row", "smem", "stage", "thr_mma", "tiled_mma"))
    starter = """\
summary: The largest score of every row.
op: best
tensors:
  A: {shape: [M, K], dtype: f16}
  B: {shape: [N, K], dtype: f16}
  Y: {shape: [M], dtype: f32, role: out}
compute: Y = max(A @ B.T, N)
static: {N: 32, K: 128}
schedule: {columns: 16, stages: 2}
"""

    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        single, (output, a, b) = compute.single, (tensors.get(name) for name in names(compute))
        largest = single.value if single and isinstance(single.value, Reduce) else None
        form = largest is not None and largest.function == "max" and isinstance(largest.x, MatMul)
        if largest is None or not form or a is None or b is None or output is None:
            ctx.say("CG127", "it computes the largest of a product", "compute", help="write `Y = max(A @ B.T, N)`")
        elif (a.shape, b.shape) != ((output.shape[0], a.shape[-1]), (largest.mode, a.shape[-1])) or output.shape[1:]:
            ctx.say("CG130", "the shapes are not those of a product and its rows", "tensors", help="A [M,K], B [N,K]")
        elif a.dtype is not b.dtype or a.dtype not in (Dtype.f16, Dtype.bf16) or output.dtype is not Dtype.f32:
            ctx.say("CG118", "it multiplies f16 or bf16, and gives f32", "tensors", help="write `dtype: f16`")

    def lead(self, spec: KernelSpec) -> Tensor:
        """A matrix of the scores, which is nowhere in memory."""
        output, _, b = (spec.tensor(name) for name in names(spec.compute))
        return replace(output, shape=(*output.shape, b.shape[0]), major=b.shape[0])

    def reference(self, plan: Plan) -> Reference:
        _, a, b = (plan.spec.tensor(name).argument for name in names(plan.spec.compute))
        return Reference((f"result = ({a}.to(torch.float32) @ {b}.to(torch.float32).T).amax(1)",))

    def product_modes(self, spec: KernelSpec) -> tuple[str, ...]:
        return spec.modes

    def work(self, spec: KernelSpec, sizes: Mapping[str, int]) -> Work:
        return replace(super().work(spec, sizes), operations=2 * prod(sizes[mode] for mode in spec.modes))


def names(compute: Compute) -> tuple[str, str, str]:
    """Of the output, A and B; empty where there is no product."""
    product = compute.matmul or MatMul("", "")
    return compute.targets[0], product.a, product.b


BEST = Best()
