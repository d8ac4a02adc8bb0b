"""The interface of an op to the rest of the package; the families that compute it share one object of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Literal, cast

from cutegen.expressions.places import ONE
from cutegen.expressions.tree import Binary, Call, along, walk
from cutegen.planning.work import Work

if TYPE_CHECKING:
    import torch

    from cutegen.codegen.reference import Reference
    from cutegen.expressions.tree import Compute, Place
    from cutegen.language.context import Context
    from cutegen.language.model import KernelSpec, Scalar, Tensor
    from cutegen.language.modes import Mode
    from cutegen.ops.walked import Walked
    from cutegen.peers.peer import Peer
    from cutegen.planning.plan import Plan
    from cutegen.reference.rounding import Bounded

ELEMENTS = 8192 * 8192  # of the largest tensor, where a kernel is measured and nothing else is said


class Op(ABC):
    """One kind of computation, named by `op` in a spec: its form, then its reference, then how it is measured."""

    name: str
    summary: str = ""  # for the schema: what is special about the op's compute
    called: tuple[str, ...] = ()  # what others call it, where a spec's `op` may be meant for it
    has_product: bool = False  # whether `A @ B.T` may stand in its compute
    reserved: frozenset[str] = frozenset()  # names that the op's modules use besides those that all of them do
    has_reductions: bool = False  # whether `sum(x, N)` and the like may
    takes_segments: bool = False  # whether a mode may be cut into segments
    takes_lengths: bool = False  # whether of a mode only some elements may exist, for each place along another one
    takes_blocks: bool = False  # whether tensors may have modes of blocks, along which they broadcast
    has_lengths: bool = False  # whether `len(N)`, the size of a mode, may
    differentiable: bool = False  # whether `cutegen grad` takes its statements, and may write a backward as this op
    walks: bool = False  # whether its statements walk a mode, as `walk` has them
    unmeasured: str | None = (
        None  # why there is nothing to be fast at, so that `bench` and `tune` refuse; None: there is
    )
    rate: Literal["TFLOP/s", "GB/s"] = "GB/s"  # what bounds it, so that its speed is said in that
    starter: str = ""  # the rest of the spec that `cutegen init` writes, after its name; empty: it writes none

    @abstractmethod
    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        """Says to `ctx` what keeps the statements, whose names are known to be declared, from having the op's form."""

    def check_places(self, ctx: Context, tensors: tuple[Tensor, ...]) -> bool:
        """Whether what the tensors say of `at` is right; says to `ctx` what is wrong. By default none may say any, and
        none is a view.
        """
        taken = [tensor for tensor in tensors if tensor.at]
        for tensor in taken:
            message = f"`{tensor.name}` has `at`, and `op: {self.name}` cannot gather or scatter"
            help = "gather or scatter in an elementwise or a row kernel, before or after this one"
            ctx.say("CG143", message, "tensors", tensor.name, "at", key=True, help=help)
        return self.refuse_views(ctx, tensors) and not taken

    def refuse_views(self, ctx: Context, tensors: tuple[Tensor, ...]) -> bool:
        """Whether no tensor is a view; says to `ctx` which are."""
        viewed = [tensor for tensor in tensors if tensor.view is not None]
        for tensor in viewed:
            message = f"`{tensor.name}` is a view, and `op: {self.name}` has no views"
            help = "declare it as an argument, and pass a torch view such as `x[:, :n]`, which is not copied"
            ctx.say("CG145", message, "tensors", tensor.name, "view", key=True, help=help)
        return not viewed

    def check_lengths(self, ctx: Context, modes: tuple[Mode, ...], tensors: tuple[Tensor, ...]) -> bool:
        """Whether modes have lengths as they can; says to `ctx` what is wrong."""
        from cutegen.ops.lengths import check_lengths

        return check_lengths(ctx, self, modes, tensors)

    def check_blocks(self, ctx: Context, modes: tuple[Mode, ...], tensors: tuple[Tensor, ...]) -> bool:
        """Whether declared blocks and the tensors that have them are right; says to `ctx` what is wrong."""
        from cutegen.ops.blocks import check_blocks

        return check_blocks(ctx, self, modes, tensors)

    def refuse_product(self, ctx: Context, statement: int, place: Place) -> None:
        """Says to `ctx` that the statement of that number has an `@` at a place, and the op none."""
        from cutegen.language.computing import say

        say(ctx, "CG127", f"a {self.name} kernel has no `@`", statement, place, "write `op: gemm`")

    def modes_that_may_be_empty(self, compute: Compute, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
        """Modes whose size may be 0 in shapes to verify on: those that are summed over."""
        return ()

    def without_reference(self, spec: KernelSpec) -> tuple[str, ...]:
        """Modes whose size 0 torch rejects, so that no reference exists."""
        return ()

    def modes_that_follow(self, compute: Compute | None, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
        """Modes whose sizes follow from the schedule, so that no shape may list them."""
        return ()

    def walk(self, spec: KernelSpec) -> Walked:
        """The statements of a kernel as a walk along one mode, where the op `walks`."""
        raise NotImplementedError(f"{self.name} walks no mode")

    @abstractmethod
    def reference(self, plan: Plan) -> Reference:
        """The text of a torch function that computes what the kernel of a plan does."""

    def eager(self, plan: Plan) -> Reference:
        """The same as eager code has it, which is measured beside the kernel: it may round more often."""
        return self.reference(plan)

    # --------------------------------------------------------------------------------------------------- reference

    def lead(self, spec: KernelSpec) -> Tensor:
        """The tensor whose modes are those that the kernel walks, in their order; its majorness leads."""
        return spec.output

    def contracted(self, spec: KernelSpec) -> tuple[str, ...]:
        """Modes that are computed away, as by a sum: those that no output has."""
        kept = {mode for tensor in spec.by_element.outputs for mode in tensor.shape} | {ONE, *spec.taken}
        kept |= {spec.segments.of} if spec.segments else set()
        return tuple(mode for mode in spec.modes if mode not in kept)

    def summed(self, spec: KernelSpec) -> tuple[str, ...]:
        """Modes along which one NaN or infinity fills a result, so that data have few of them there."""
        return self.contracted(spec)

    def largest_whole(self, spec: KernelSpec, tensor: Tensor) -> int | None:
        """The largest whole number of a tensor in cases with exact results; None where it follows for any op."""
        return None

    def computed_modes(self, spec: KernelSpec) -> tuple[str, ...]:
        """The modes of the values that statements compute, beside products: an estimate of how long they take."""
        return spec.lead.shape

    def raised(self, spec: KernelSpec, tensor: Tensor) -> str | None:
        """The mode along which the first element of an input is large in calls most of whose elements are zeros, if
        zeros then count for nothing in results that they would count in.
        """
        return None

    def reduced_together(self, spec: KernelSpec) -> tuple[str, ...]:
        """Modes that a kernel reduces along all at once only, and not along some of them."""
        return ()

    def apart(self, spec: KernelSpec) -> tuple[str, ...]:
        """Modes that all outputs have and along which no element is computed from others than those of its own
        coordinate: the reference takes some coordinates at a time.
        """
        if spec.compute.products:
            return ()
        together = {one.mode for value in spec.compute.values for one in along(value)} | {ONE}
        kept = set(spec.lead.shape).intersection(*(tensor.shape for tensor in spec.by_view.outputs)) - together
        return tuple(mode for mode in spec.lead.shape if mode in kept)

    def scaled_late(self, spec: KernelSpec) -> str | None:
        """The statement `s = x * c` of which kernels with fast functions may compute exp(s - max(s)) as a power of
        x * c' - max(x) * c', each of whose products is rounded on its own; None: there is none.
        """
        return None

    def multiply_adds(self, spec: KernelSpec, sizes: Mapping[str, int]) -> int:
        """The number of multiply-adds of a matrix product, which may be far more than its tensors have elements."""
        modes = self.product_modes(spec)
        return prod(sizes[mode] for mode in modes) if modes else 0

    def product_modes(self, spec: KernelSpec) -> tuple[str, ...]:
        """The modes with a multiply-add for every combination of their coordinates; none where there is no product."""
        return ()

    def product_widths(self, spec: KernelSpec) -> tuple[str, ...]:
        """Modes whose sizes together count the multiply-adds for each of these combinations; none where that is one."""
        return ()

    def sizes(self, spec: KernelSpec) -> Mapping[str, int]:
        """Sizes of modes that follow from what is computed, for specs whose `static` does not have them yet."""
        return {}

    def sizes_of_calls(self, spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
        """Small sizes of a call that is differentiated, changed where elements would be NaN, or a call take long."""
        return dict(sizes)

    def axes(self, spec: KernelSpec) -> tuple[str, ...]:
        """The modes of what a reference computes with, in their order: values have size 1 along those they lack."""
        return spec.lead.shape

    def elements(self, spec: KernelSpec, tensor: Tensor, values: torch.Tensor) -> Bounded:
        """The value of a tensor's name in `compute`, for each element of the leading tensor, to whose shape it is
        broadcast.

        `values` is the whole tensor, as float64 or int64. Its elements keep their coordinates.
        """
        from cutegen.reference.placing import exactly, placed

        values = values.reshape([n for n, mode in zip(values.shape, tensor.shape, strict=True) if mode != ONE])
        return exactly(placed(values, tensor.modes, self.axes(spec)), tensor.dtype)

    # --------------------------------------------------------------------------------------------------- measuring

    def peers(self, spec: KernelSpec) -> tuple[Peer, ...]:
        """The implementations that a kernel is measured against, the nearest first: torch, compiled and eager."""
        from cutegen.peers.peers import COMPILED, EAGER

        return COMPILED, EAGER

    def bench_shapes(self, spec: KernelSpec) -> Sequence[Mapping[str, int]]:
        """Sizes of all modes to measure at where the spec lists none, before what is fixed or promised changes them.

        One shape: powers of two that come to about `ELEMENTS` with the sizes that are fixed, the last modes the
        largest.
        """
        free = [mode for mode in spec.modes if mode not in spec.static]
        left = max(1, ELEMENTS // prod(spec.static.get(mode, 1) for mode in spec.modes)).bit_length() - 1
        sizes = dict.fromkeys(spec.modes, 1)
        for number, mode in enumerate(free):
            share = left // (len(free) - number)
            sizes[mode], left = 1 << min(share, 30), left - share
        return [sizes]

    # --------------------------------------------------------------------------------------------------- analysis

    def work(self, spec: KernelSpec, sizes: Mapping[str, int]) -> Work:
        """The work of a kernel for the size of every mode. Raises KeyError for a mode that is left out.

        For each element of the leading tensor every function and every operator with two sides is one operation, in all
        statements together. Each tensor is moved once for reading and once for writing it: of one taken at places the
        elements there, of one that has blocks or segments an element for each of them.
        """
        count = prod(sizes[mode] for mode in spec.lead.shape)
        nodes = (node for value in spec.compute.values for node in walk(value))
        operations = count * sum(isinstance(node, (Binary, Call)) for node in nodes)
        elements = {t.name: t for t in spec.by_element.tensors}
        moved = [elements[t.name] if t.at else t for t in spec.by_view.tensors]
        return Work(operations, sum(prod(t.extents(sizes)) * t.dtype.bytes * (t.reads + t.writes) for t in moved))


def op_of(spec: KernelSpec) -> Op:
    """The op that a spec computes."""
    return cast(Op, spec.operation)


if TYPE_CHECKING:
    import cutegen.analysis.asked
    import cutegen.codegen.asked
    import cutegen.language.asked
    import cutegen.measuring.asked
    import cutegen.reference.asked
    import cutegen.verification.asked

    def _answers_all(op: Op) -> None:
        """mypy sees here that an op answers what each room asks."""
        _by_language: cutegen.language.asked.Op = op
        _by_reference: cutegen.reference.asked.Op = op
        _by_analysis: cutegen.analysis.asked.Op = op
        _by_codegen: cutegen.codegen.asked.Op = op
        _by_verification: cutegen.verification.asked.Op = op
        _by_measuring: cutegen.measuring.asked.Op = op
