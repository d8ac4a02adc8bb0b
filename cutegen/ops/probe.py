"""The op `probe`: one tensor moved to another by a thread-value layout, so that hardware shows what the layout does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cutegen.expressions.parsing import Name
from cutegen.expressions.tree import Compute, Place
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.layouts import mode_sizes
from cutegen.ops.modes import has_names
from cutegen.ops.op import Op

if TYPE_CHECKING:
    import torch

    from cutegen.codegen.reference import Reference
    from cutegen.peers.peer import Peer
    from cutegen.planning.plan import Plan
    from cutegen.reference.rounding import Bounded


class Probe(Op):
    """`D = A`, where D [T, V] holds what each thread reads of A as each of its values.

    Schedules of families that compute it have a `tv_layout`, (thread, value) to place in a tile of A, and a `tiler`,
    the tile's size by mode.
    """

    name = "probe"
    summary = "moves a tile by a thread-value layout, to see what a layout does"
    unmeasured = "there is one way to read a tile by a layout"
    starter = """\
summary: Writes what each thread and value of a layout reads.
op: probe
tensors:
  A: {shape: [M, N], dtype: i32, major: M}
  D: {shape: [T, V], dtype: i32, major: V, role: out}
compute: D = A
schedule:
  tv_layout: ((2,2),(2,3)):((2,12),(1,4))
  tiler: {M: 4, N: 6}
targets: [sm_80, sm_90a]
"""

    def summed(self, spec: KernelSpec) -> tuple[str, ...]:
        return ()

    def refuse_product(self, ctx: Context, statement: int, place: Place) -> None:
        say(ctx, "CG127", "a probe's compute is one tensor, like `D = A`", statement, place, "write `D = A`")

    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        assignment = compute.statements[0]
        value = assignment.value
        if not isinstance(value, Name) or value.id not in tensors or len(compute.statements) > 1:
            self.refuse_product(ctx, 0, value.place)
            return
        if value.id == assignment.target:
            say(ctx, "CG127", "a probe moves one tensor to another", 0, value.place, "write `D = A`")
        out, source = tensors[assignment.target], tensors[value.id]
        if not has_names(ctx, source) or not has_names(ctx, out):
            return
        if len(out.shape) != 2:
            message = f"a probe's output has two modes, thread and value, not {len(out.shape)}"
            ctx.say("CG129", message, "tensors", out.name, "shape", help="write `shape: [T, V]`")
        if len(source.shape) > 3:
            message = f"a probe's input has at most 3 modes, not {len(source.shape)}"
            ctx.say("CG129", message, "tensors", source.name, "shape")
        shared = [mode for mode in source.shape if mode in out.shape]
        if shared and source.name != out.name:
            message = f"`{shared[0]}` is a mode of both `{source.name}` and `{out.name}`"
            notes = ("the output's modes are thread and value, independent of the input's",)
            place = out.shape.index(shared[0])
            ctx.say("CG129", message, "tensors", out.name, "shape", place, notes=notes, help="name them T and V")

    def modes_that_follow(self, compute: Compute | None, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
        if compute is not None:
            return tensors[compute.targets[0]].shape
        return next((tensor.shape for tensor in tensors.values() if tensor.writes), ())

    def reference(self, plan: Plan) -> Reference:
        from cutegen.ops.probe_reference import reference_of_probe

        return reference_of_probe(plan.spec, plan.statements[0])

    def contracted(self, spec: KernelSpec) -> tuple[str, ...]:
        """The modes that are computed away: none, as every mode of A is gathered from."""
        return ()

    def apart(self, spec: KernelSpec) -> tuple[str, ...]:
        return ()

    def sizes(self, spec: KernelSpec) -> Mapping[str, int]:
        """The sizes of T and V: the layout's numbers of threads and of values."""
        return dict(zip(spec.output.shape, mode_sizes(spec.schedule.tv_layout), strict=True))

    def elements(self, spec: KernelSpec, tensor: Tensor, values: torch.Tensor) -> Bounded:
        """The elements [T, V] of A that the layout assigns. Its places count the tile with A's first mode fastest."""
        import torch

        from cutegen.reference.placing import exactly

        layout = spec.schedule.tv_layout
        threads, count = mode_sizes(layout)
        places = [[layout(thread, value) for value in range(count)] for thread in range(threads)]
        rest = torch.tensor(places, dtype=torch.int64, device=values.device)
        index = []
        for mode in tensor.shape:
            index.append(rest % spec.schedule.tiler[mode])
            rest = rest // spec.schedule.tiler[mode]
        return exactly(values[tuple(index)], tensor.dtype)

    def peers(self, spec: KernelSpec) -> tuple[Peer, ...]:
        return ()


PROBE = Probe()
