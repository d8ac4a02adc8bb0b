"""The op `fill`: each element of a matrix from its coordinates and from scalars; no tensor is read."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.codegen.reference import Reference
from cutegen.expressions.tree import Compute
from cutegen.language.context import Context
from cutegen.language.model import Scalar, Tensor
from cutegen.ops.op import Op
from cutegen.ops.reference import reference_of
from cutegen.planning.plan import Plan


class Fill(Op):
    """`Y = coord(M) * 1000 + coord(N)`."""

    name = "fill"
    summary = "what the coordinates of a matrix say"
    starter = """\
summary: Numbers the places of a matrix.
op: fill
tensors:
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = coord(M) * 1000 + coord(N)
schedule: {threads: 64}
targets: [sm_90a]
"""

    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        if len(tensors) > 1 or any(len(tensor.shape) != 2 for tensor in tensors.values()):
            ctx.say("CG129", "a fill has one tensor, of two modes", "tensors", help="write `Y: {shape: [M, N], ...}`")

    def reference(self, plan: Plan) -> Reference:
        return reference_of(plan.spec, plan.statements)


FILL = Fill()
