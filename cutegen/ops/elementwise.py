"""The op `elementwise`: each element of the outputs from the elements of other tensors at its coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cutegen.expressions.tree import Compute, Place
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.language.taken import indices
from cutegen.language.tensor import with_elements
from cutegen.ops.modes import check_alike, check_fits, has_names
from cutegen.ops.op import Op
from cutegen.ops.taking import check_taken

if TYPE_CHECKING:
    from cutegen.codegen.reference import Reference
    from cutegen.peers.peer import Peer
    from cutegen.planning.plan import Plan


class Elementwise(Op):
    """Statements on elements of one coordinate; tensors broadcast along the modes that they lack."""

    name = "elementwise"
    called = ("pointwise", "map", "unary", "binary")
    differentiable = True
    takes_blocks = True
    starter = """\
summary: Adds two matrices, element by element.
op: elementwise
tensors:
  A: {shape: [M, N], dtype: f32, major: N, align: 16}
  B: {shape: [M, N], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: N, align: 16, role: out}
compute: C = A + B
schedule:
  partition: thread_value            # or inner, inner_outer
  thread_layout: (4,64):(64,1)
  value_layout: (4,4):(4,1)
targets: [sm_80, sm_90a]
"""

    def refuse_product(self, ctx: Context, statement: int, place: Place) -> None:
        say(ctx, "CG127", "an elementwise kernel has no `@`", statement, place, "write `op: gemm`")

    def check_places(self, ctx: Context, tensors: tuple[Tensor, ...]) -> bool:
        return check_taken(ctx, tensors)

    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        for number, statement in enumerate(compute.statements):
            if statement.matmul:
                self.refuse_product(ctx, number, statement.matmul.place)
                return
        written, tensors = tensors, {tensor.name: tensor for tensor in with_elements(tuple(tensors.values()))}
        outputs = [tensors[target] for target in compute.targets if target in tensors]
        if not outputs:
            return  # of which each statement was told
        if not all(has_names(ctx, output) for output in outputs):
            return
        check_alike(ctx, outputs)
        for name in dict.fromkeys((*compute.names(), *indices(tuple(written.values())))):
            if name in tensors and tensors[name] not in outputs:
                check_fits(ctx, tensors[name], outputs[0], written)

    def lead(self, spec: KernelSpec) -> Tensor:
        return spec.by_element.output

    def reference(self, plan: Plan) -> Reference:
        from cutegen.ops.reference import meant, reference_of

        return reference_of(plan.spec, meant(plan.spec))

    def peers(self, spec: KernelSpec) -> tuple[Peer, ...]:
        from cutegen.peers.peers import arithmetic, copy

        one_call = copy(spec) or arithmetic(spec)
        return (one_call,) if one_call else super().peers(spec)


ELEMENTWISE = Elementwise()
