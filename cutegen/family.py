"""The interface of a kernel family: one kernel skeleton, with everything that any room has to know about it.

A family's folder holds its schedule's keys, inference, plan, rules with their pages, templates, accesses, claims,
pictures and tuning. The rooms (language, planning, lint, codegen, analysis, verification, drawing, tuning) are drivers:
each asks the family of a spec for what the protocol in its `asked` lists, and knows no family itself. This class
implements all of these protocols, by the methods below. Optional methods have a default.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from cutegen.atoms.gpus import CUDA_F32, CUDA_F64, Arithmetic
from cutegen.dtypes import Dtype
from cutegen.language.model import KernelSpec, Schedule
from cutegen.planning.plan import Plan

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from tensor_layouts import Layout

    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer, Scratch
    from cutegen.analysis.claim import Claim
    from cutegen.analysis.cost import Cost, Moved
    from cutegen.analysis.tiles import Tiles
    from cutegen.atoms.mma import SumOrder
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.asked import Op as AskedOp
    from cutegen.language.cases import Case
    from cutegen.language.context import Context
    from cutegen.language.kinds import Path
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import NoteRule, PerformanceRule, Rule
    from cutegen.ops.op import Op
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice
    from cutegen.verification.case_request import CaseRequest

S = TypeVar("S", bound=Schedule)
P = TypeVar("P", bound=Plan)


class Family(ABC, Generic[S, P]):
    """One kernel skeleton. `S` is the class of its schedules, `P` that of its plans."""

    name: ClassVar[str]  # of its folder
    op: ClassVar[Op]  # what it computes
    schedule: ClassVar[type[Schedule]]  # a dataclass whose fields are keys
    atoms: ClassVar[tuple[str, ...]] = ()  # of the mma that its schedules name, where several families share the op
    starter: ClassVar[str] = ""  # as that of an op, which stands for its first family; empty: the op's
    only_targets: ClassVar[tuple[str, ...]] = ()  # where it has no kernels for others; empty: for any that there are
    caution: ClassVar[str] = ""  # what is to be known of all its kernels, where they are chosen and described
    estimated: ClassVar[bool] = False  # whether `cost` has an estimate of its kernels

    def __init__(self) -> None:
        """Makes the family known to its class of schedules, from which `spec.family` takes it."""
        self.schedule.family = self

    def op_of(self, spec: KernelSpec[S]) -> Op:
        """The op that a spec of the family computes."""
        return self.op

    @property
    def folder(self) -> Traversable:
        """Where the family's files are: `pages` of its rules and `templates` among them."""
        return files(sys.modules[type(self).__module__].__package__ or type(self).__module__)

    # --------------------------------------------------------------------------------------------------- language

    def check_schedule(self, ctx: Context, schedule: S, tensors: Mapping[str, Tensor], compute: Compute | None) -> None:
        """Says to `ctx` what is wrong with a schedule that the schema allows.

        That is: modes and tensors that there are not, and keys that would have no effect. Without `compute`, which was
        unusable, what depends on it is left unchecked.
        """

    def unmeant(self, schedule: S, tensors: Mapping[str, Tensor], compute: Compute) -> str | None:
        """Why a schedule that names no mma atom, and has the words of this family, is not meant for it; None where it
        may be. It is asked of families that share their op.
        """
        return None

    # --------------------------------------------------------------------------------------------------- planning

    def cases(self, spec: KernelSpec[S]) -> tuple[Case, ...]:
        """The cases that a spec gets whose schedule is none; empty where one schedule is for all calls.

        The spec has its targets. Each case is inferred further as one that was written.
        """
        return ()

    @abstractmethod
    def resolve(self, spec: KernelSpec[S], report: Report) -> KernelSpec[S]:
        """Fills in every field of a kernel that applies; reports what cannot be inferred. It is idempotent: the result,
        written out and read again, resolves to itself.
        """

    def is_sound(self, spec: KernelSpec[S]) -> bool:
        """Whether ranks agree and nothing is too large to count through; what is not filled in yet passes.

        Inference leaves what is unsound as it was written, and the family's `basic` rules must say why.
        """
        return True

    def is_finished(self, spec: KernelSpec[S]) -> bool:
        """Whether `resolve` could fill in everything, so that all rules can be asked and a plan be made."""
        return self.is_sound(spec)

    def kernels(self, spec: KernelSpec[S], report: Report) -> tuple[tuple[KernelSpec, Report], ...]:
        """The kernels that a resolved spec stands for, each with a report on what was inferred of it: the spec itself,
        or of a schedule of several cases each of them as a spec of its own.
        """
        return ((spec, report),)

    def kernel_names(self, spec: KernelSpec[S]) -> tuple[str, ...]:
        """The names of these kernels in diagnostics; a single kernel has an empty one."""
        return ("",)

    def with_kernel(self, spec: KernelSpec[S], number: int, changed: KernelSpec) -> KernelSpec:
        """The whole spec with the kernel of that number changed as one of its own was."""
        return changed

    @abstractmethod
    def plan(self, spec: KernelSpec[S]) -> P:
        """The plan of a resolved spec that passed its checks."""

    def variants(self, plan: P) -> tuple[P, ...]:
        """The ways in which a kernel runs, each as a plan of its own; of several, what a call fits decides which.

        The spec of each promises what it relies on; that of the kernel, what all calls must keep. The first is the one
        that the schedule speaks of.
        """
        return (plan,)

    # ------------------------------------------------------------------------------------------------------- lint

    def rules(self) -> tuple[Rule, ...]:
        """The family's rules for correctness, in the order of their codes. Their pages are in its folder `pages`."""
        return ()

    def common_rules(self, op: AskedOp) -> tuple[Rule, ...]:
        """The rules for correctness of the specs of any family that compute an op, in the order of their codes."""
        from cutegen.lint.common import common_rules

        return common_rules(op)

    def performance_rules(self) -> tuple[PerformanceRule, ...]:
        """The rules on what can slow down a correct kernel of the family, in the order of their codes."""
        return ()

    def note_rules(self) -> tuple[NoteRule, ...]:
        """The rules for notes on a correct kernel's speed where no change of it helps, in the order of their codes."""
        return ()

    def numbered_layouts(self, spec: KernelSpec[S]) -> Iterator[tuple[Path, Layout, int]]:
        """Every layout of the schedule that must number its places 0, 1, 2, ... once each.

        Each comes with where it stands and the most places that are counted through.
        """
        return iter(())

    def unreported_cost(self, plan: P, made: Sequence[Access]) -> float:
        """The excess that no rule reports, as a multiple of what would do; advice adds it to that of the findings."""
        return 0.0

    # --------------------------------------------------------------------------------------------------- analysis

    def accesses(self, plan: P) -> tuple[Access, ...]:
        """The accesses that a warp's threads make together, in the order in which the kernel does.

        Every tensor that is stored is among them.
        """
        return ()

    @abstractmethod
    def claims(self, plan: P) -> Iterator[Claim]:
        """The claims that are proved of the plan by counting: coverage of every stored tensor first, then bounds."""

    def buffers(self, plan: P) -> Iterator[Buffer]:
        """The tensors' parts of shared memory."""
        return iter(())

    def scratch(self, plan: P) -> Iterator[Scratch]:
        """The global memory that a call allocates besides its tensors."""
        return iter(())

    def blocks(self, plan: P, sizes: Mapping[str, int]) -> int:
        """The number of thread blocks that the kernel is launched with for the size of every mode.

        It is one for each tile of the leading tensor, where the family says nothing else.
        """
        lead = plan.spec.lead
        return prod(-(-sizes[mode] // plan.tile[mode]) for mode in lead.shape if mode in plan.tile)

    def tiles(self, plan: P, sizes: Mapping[str, int]) -> Tiles | None:
        """The tiles that the kernel's blocks take one after the other; None where a block has one tile, or is not to be
        told by them."""
        return None

    def place_of(self, plan: P, sizes: Mapping[str, int], start: Mapping[str, int]) -> int | None:
        """The place, counted from 0, of the tile of the output that begins at `start`, in the order in which blocks, or
        clusters of them, take tiles of an output of these sizes; None where the family says nothing of it.
        """
        return None

    def band(self, plan: P) -> tuple[str, int] | None:
        """The mode of the output whose tiles are walked in bands, all of a band's before the next tile along the other
        mode, and how many tiles those are; None where there are no bands."""
        return None

    def largest(self, plan: P, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        """The largest sizes that the kernel's grids can count, by mode, where a tensor may have larger ones. `beside`
        has the sizes of the other modes, which else have one tile each."""
        return {}

    def arithmetic(self, spec: KernelSpec[S]) -> Arithmetic:
        """The kind of arithmetic whose rate bounds a resolved kernel: f64 where a tensor is, else f32, on the CUDA
        cores."""
        return CUDA_F64 if any(tensor.dtype is Dtype.f64 for tensor in spec.tensors) else CUDA_F32

    # ---------------------------------------------------------------------------------------------------- codegen

    @property
    def templates(self) -> Mapping[str, Traversable]:
        """Where templates of a prefix are: `include "NAME/part.j2"` finds `part.j2` of the folder of NAME.

        The family's own, in its folder `templates`, have its name for a prefix; `module` is the prefix of those of all
        modules.
        """
        return {self.name: self.folder / "templates"}

    @abstractmethod
    def kernel_parts(self, plan: P) -> KernelParts:
        """The parts of a module's text that other kernels do not have: its template, with what that prints."""

    # ----------------------------------------------------------------------------------------------- verification

    def accumulator(self, spec: KernelSpec[S]) -> Dtype | None:
        """The type that a matrix product is summed in; None: the one that its operands are computed in."""
        return None

    def factor_bits(self, spec: KernelSpec[S]) -> int | None:
        """How many bits of a fraction, the leading one included, a matrix product takes of its operands; None: all."""
        return None

    def sum_orders(self, spec: KernelSpec[S]) -> tuple[SumOrder, ...]:
        """How a matrix product is summed where its accumulators keep fewer bits than their type has.

        Several ways are those of several kernels of a module, each of which may be the one that runs. None: as
        arithmetic of the accumulator's type sums, in any order.
        """
        return ()

    def additions(self, plan: P, sizes: Mapping[str, int], modes: Sequence[str]) -> int | None:
        """The most additions, one after another, that a term of a sum over `modes` goes through; None where nothing is
        known of their order: then there may be as many as terms."""
        return None

    def covered(self, plan: P) -> dict[str, int]:
        """How many elements along each mode a thread block covers. Modes that the plan's tile lacks count as 1."""
        return {mode: max(1, plan.tile.get(mode, 1)) for mode in plan.spec.modes}

    def reached(self, plan: P, sizes: Mapping[str, int]) -> Mapping[str, int]:
        """How many elements along each mode a thread block goes through for the size of every mode; at the least 1 of
        those that the plan's tile lacks. It is what it covers, unless it walks several tiles.
        """
        return {mode: size if sizes[mode] else 0 for mode, size in self.covered(plan).items()}

    def value_seconds(self, plan: P, sizes: Mapping[str, int]) -> float:
        """About how many seconds the emulator takes for results of these sizes, besides what the expressions tell."""
        return 0.0

    def threads_beside(self, plan: P, sizes: Mapping[str, int]) -> int:
        """How many threads a call starts for the size of every mode, besides those of the plan's kernel."""
        return 0

    def requests(self, plan: P, tiles: Mapping[str, int]) -> Iterator[CaseRequest] | None:
        """The cases that the kernel is verified on, in their order, instead of those that follow for any family:
        None for the latter. `tiles` is what a block covers, and the size itself of a mode whose size is fixed.
        """
        return None

    def compared(self, spec: KernelSpec[S]) -> Iterable[S]:
        """The schedules among which calls choose by their cost where a spec names none."""
        return ()

    def cost(self, plan: P) -> tuple[Cost, Moved] | None:
        """The estimate of a call, and what all kernels of its spec move alike; None where there is no estimate."""
        return None

    def form(self, plan: P) -> object | None:
        """The form of a kernel, apart from its numbers: kernels of one form have the same statements, loops, barriers
        and copies, except for what follows from their counts. None: no other kernel has its form."""
        return None

    def verified_form(self, plan: P) -> object | None:
        """Its form where one kernel of each is verified on what others of it need not be verified on again."""
        return self.form(plan)

    def of_form(self, plan: P) -> P:
        """The plan of a kernel of a form that its module has others of: what they differ in may be its parameters."""
        return plan

    def with_fields(self, plan: P, names: frozenset[str] | None, told: frozenset[str] = frozenset()) -> P | None:
        """The plan of a kernel whose functions take the constants `names`, or if that is None all that they may, as
        fields of one parameter, to share them; those that it is merged with differ in `told`. None: they can take none.
        """
        return None

    def more_requests(self, plan: P, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        """Cases besides those that follow for any family, where this one counts or pads; `tiles` as for `requests`."""
        return iter(())

    def refused(self, spec: KernelSpec[S], sizes: Mapping[str, int]) -> str | None:
        """Why the host rejects sizes that are valid for each mode alone; None where it accepts them."""
        return None

    def accepted(self, spec: KernelSpec[S], sizes: dict[str, int]) -> dict[str, int] | None:
        """The sizes, changed as little as what `refused` asks for; None if fixed sizes leave no way."""
        return sizes

    # ---------------------------------------------------------------------------------------------------- drawing

    def figures(self, plan: P) -> tuple[Figure, ...]:
        """The kernel's pictures, in the order of its page."""
        return ()

    def facts(self, plan: P) -> list[tuple[str, str]]:
        """The facts about the plan at the head of the kernel's page: pairs of a label and a text."""
        from cutegen.drawing.kernels import plan_facts

        return plan_facts(plan)

    # ----------------------------------------------------------------------------------------------------- tuning

    def axes(self, specs: Sequence[KernelSpec[S]]) -> Iterator[tuple[str, list[Choice]]]:
        """The axes that `tune` combines where the spec names nothing: names and choices.

        The kernels are resolved and share their schedule.
        """
        return iter(())

    def refinements(self, spec: KernelSpec[S]) -> Iterator[Choice]:
        """Changes of one field each that `tune` tries around the best candidates."""
        return iter(())

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        """Which fields of the schedule are inferred, each from which others, by dotted path.

        Where `tune` changes one, planning infers anew what follows from it. `*` stands for a name, the same one on both
        sides; `@` for the output's. They are declared where they are inferred.
        """
        return {}


AnyFamily = Family[Any, Any]


def family_of(spec: KernelSpec) -> AnyFamily:
    """The family that a spec belongs to, with all that it answers."""
    return cast(AnyFamily, spec.family)


if TYPE_CHECKING:
    import cutegen.analysis.asked
    import cutegen.codegen.asked
    import cutegen.drawing.asked
    import cutegen.hostchecks.asked
    import cutegen.language.asked
    import cutegen.lint.asked
    import cutegen.measuring.asked
    import cutegen.planning.asked
    import cutegen.reference.asked
    import cutegen.tuning.asked
    import cutegen.verification.asked

    def _answers_all(family: AnyFamily) -> None:
        """mypy sees here that a family answers what each room asks."""
        _by_language: cutegen.language.asked.Family = family
        _by_planning: cutegen.planning.asked.Family = family
        _by_reference: cutegen.reference.asked.Family = family
        _by_analysis: cutegen.analysis.asked.Family = family
        _by_lint: cutegen.lint.asked.Family = family
        _by_codegen: cutegen.codegen.asked.Family = family
        _by_verification: cutegen.verification.asked.Family = family
        _by_hostchecks: cutegen.hostchecks.asked.Family = family
        _by_measuring: cutegen.measuring.asked.Family = family
        _by_drawing: cutegen.drawing.asked.Family = family
        _by_tuning: cutegen.tuning.asked.Family = family
