"""The statements that the threads of a multistage gemm execute, from the first copies to the epilogue, as a tree. The
kernel is printed from this tree, and proofs examine it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from cutegen.families.gemm.staged.load_text import LoadText, load_texts
from cutegen.families.gemm.staged.plan import GemmPlan, MultistagePlan
from cutegen.families.gemm.staged.predicate_text import predicate_text
from cutegen.parts.copying import (
    Array,
    ConvertFragment,
    CopyFromRegisters,
    CopyTile,
    CopyToRegisters,
    CpAsyncCommitGroup,
    CpAsyncWaitGroup,
    MultiplyAdd,
    ReadFragment,
    Summed,
)
from cutegen.parts.opening import SyncThreads
from cutegen.parts.statements import Blank, Body, Code, For, If, Included, Let, Note, Region, Statement

FOLDER = "gemm_staged"
PIPELINE, MMA = "schedule.pipeline", "schedule.mma"
PlanT = TypeVar("PlanT", bound=MultistagePlan)


class Mainloop(Generic[PlanT]):
    """The statements of a multistage gemm. Subclasses say how its fragments are read, and when copies are started."""

    operands: str  # the template of what fragments and accumulators are
    steps: str  # of a tile, as they are printed

    def __init__(self, plan: PlanT) -> None:
        self.plan, self.output = plan, plan.spec.lead.name
        self.loads = [LoadText(**load_texts(plan, x)) for x in (plan.a, plan.b)]
        self.copied = [x for x in self.loads if not x.plan.through_registers]
        self.carried = [x for x in self.loads if x.plan.through_registers]

    def body(self) -> Body:
        names = [x.name for x in self.loads]
        fragments = Array(tuple(f"t{self.output}r{name}{what}" for name in names for what in ("", "_in")), self.steps)
        return (
            Array(tuple(names), "STAGES"),
            Array(tuple(f"g{name}" for name in names), "k_tiles"),
            Region(PIPELINE, "prologue", self.prologue()),
            Blank(),
            Included(f"{FOLDER}/{self.operands}", 0, (fragments,)),
            Blank(),
            Region(PIPELINE, "first tile", self.first_tile()),
            Blank(),
            Region(PIPELINE, "mainloop", self.mainloop()),
            Blank(),
            *self.epilogue(),
        )

    # What is read, in the fragments of each step, and when copies of a later tile start.

    def read(self, x: LoadText, k: str, stage: str) -> Body:
        raise NotImplementedError

    def fetches(self) -> Body:
        """Before the steps of a tile."""
        raise NotImplementedError

    def fetches_within(self) -> Body:
        """Within each step, behind its reads."""
        return ()

    def epilogue(self) -> Body:
        raise NotImplementedError

    # What is the same in all.

    def first_copy(self, x: LoadText) -> Body:
        """The copy of a tile in the prologue, the first of which has the residue of k."""
        pred = f"pred_{x.name}" if x.residue else x.pred
        if x.plan.through_registers:
            return CopyToRegisters(x.name, "k_tile", pred, x.rows), CopyFromRegisters(x.name, "k_tile")
        return (CopyTile(x.name, "k_tile", "k_tile", pred, x.rows),)

    def of(self, x: LoadText, *body: Statement) -> Statement:
        return Region(f"schedule.copies.{x.name}", f"copy of {x.name}", body)

    def commit(self) -> Body:
        return (CpAsyncCommitGroup(),) * self.plan.uses_cp_async

    def wait(self) -> Body:
        """Until the oldest tile on its way is there, for all threads."""
        return (*[CpAsyncWaitGroup("STAGES - 2")] * self.plan.uses_cp_async, SyncThreads())

    def prologue(self) -> Body:
        more = ", each a group of copies to wait for" if self.plan.uses_cp_async else ""
        preds = predicate_text(self.loads)
        return (
            Note(f"Prologue: the first STAGES - 1 tiles{more}"),
            For("k_tile", "cutlass.range_constexpr(STAGES - 1)", (
                *([Let(*preds.chosen)] if preds and self.plan.residue else []),
                If("k_tile < k_tiles", tuple(self.of(x, *self.first_copy(x)) for x in self.loads)),
                *self.commit(),
            )),
        )  # fmt: skip

    def reads(self, k: str, stage: str) -> Body:
        return tuple(Region(MMA, f"fragment of {x.name}", self.read(x, k, stage)) for x in self.loads)

    def first_tile(self) -> Body:
        note = Note("Wait for the first tile; read the fragments of its first k")
        return (note, *self.wait(), *self.reads("0", "0"))

    def mainloop(self) -> Body:
        a, b = (f"t{self.output}r{x.name}" for x in self.loads)
        step = (
            Region(PIPELINE, "next tile", self.next_tile()),
            Let("k_next", f"(k_block + 1) % {self.steps}"),
            *self.reads("k_next", "stage"),
            *self.fetches_within(),
            Region(MMA, "multiply-add", (MultiplyAdd(a, b, "k_block"),)),
        )
        steps = For("k_block", f"cutlass.range_constexpr({self.steps})", step)
        tile = (
            Let("fetch", "k_tile + (STAGES - 1)"),
            *self.fetches(),
            Let("smem_next", "smem_read + 1 if smem_read + 1 < STAGES else cutlass.Int32(0)"),
            Region(f"schedule.tiler.{self.plan.k}", "one tile", (steps,)),
            Let("smem_write", "smem_read"),
            Let("smem_read", "smem_next"),
        )
        return (
            Note("Mainloop: copy the tile STAGES - 1 ahead to stage smem_write and multiply the one in stage"),
            Note("smem_read; within a tile, read the fragments of k_block + 1 before multiplying k_block."),
            Let("smem_read", "cutlass.Int32(0)"),
            Let("smem_write", "cutlass.Int32(STAGES - 1)"),
            For("k_tile", "range(k_tiles)", tile),
        )

    def fetched(self, loads: Sequence[LoadText]) -> Body:
        """The copies of a later tile that need no registers."""
        return tuple(self.of(x, CopyTile(x.name, "fetch", "smem_write", x.pred, x.rows)) for x in loads)

    def carries(self) -> Body:
        """Those of a later tile that travel through registers."""
        return tuple(self.of(x, *self.carry(x)) for x in self.carried)

    def carry(self, x: LoadText) -> Body:
        ahead, layout = (
            f"t{x.name}p{x.name}_next",
            ("cute.make_layout(", [x.predicate_shape, f"stride={x.next_strides}"], ")"),
        )
        predicate: Body = (Let(ahead, "fetch < k_tiles", index="0, 0, 0"),)
        if x.plan.masked:
            of_access = (
                Code(f"in_bounds = t{x.name}p{x.name}[rest_v, rest_mn, 0]"),
                Let("in_k", "fetch < k_tiles"),
                Let(ahead, "in_bounds and in_k", index="rest_v, rest_mn, 0"),
            )
            inner = For("rest_mn", f"cutlass.range_constexpr({x.rest_mn})", of_access)
            predicate = (For("rest_v", f"cutlass.range_constexpr({x.rest_v})", (inner,)),)
        return (
            Note("Predicates, because the compiler would sink loads inside a branch to their first use"),
            Code(f"{ahead} = cute.make_rmem_tensor(", (layout, "cutlass.Boolean"), ")"),
            *predicate,
            CopyToRegisters(x.name, "fetch", ahead, x.rows),
        )

    def next_tile(self) -> Body:
        """At the last step of a tile the next one must be there; what travels through registers is written before."""
        plan, last = self.plan, f"cutlass.const_expr(k_block == {self.steps} - 1)"
        ready = (
            Note("Wait for the next tile, and until no thread reads the oldest stage any more"),
            *self.wait(),
            Let("stage", "smem_next"),
        )
        stored = (
            Note("Past the last tile this stores a stale tile to a stage that is not read again"),
            *(self.of(x, CopyFromRegisters(x.name, "smem_write")) for x in self.carried),
        )
        what = "stores to shared memory"
        steps: Body = (If(last, ready),)
        if plan.stores_early:
            early = If(f"cutlass.const_expr(k_block == {plan.store})", stored)
            steps = (Region(f"{PIPELINE}.store", what, (early,)), *steps)
        elif plan.uses_registers:
            steps = (If(last, ready, head=stored, key=(PIPELINE, what)),)
        return (Let("stage", "smem_read"), *steps)


class ColumnMainloop(Mainloop[GemmPlan]):
    """That of a gemm on the CUDA cores: copies start before the steps of a tile."""

    operands = "operands.j2"

    def __init__(self, plan: GemmPlan) -> None:
        super().__init__(plan)
        self.steps = f"BLK_{plan.k.upper()}"

    def read(self, x: LoadText, k: str, stage: str) -> Body:
        """Shared memory to registers, through a conversion where the types differ."""
        source, fragment = f"t{self.output}s{x.name}", f"t{self.output}r{x.name}"
        if not x.plan.convert:
            return (ReadFragment(x.name, source, fragment, fragment, k, stage),)
        raw, dtype = f"{fragment}_in", self.plan.accumulator.cutlass
        return ReadFragment(x.name, source, raw, raw, k, stage), ConvertFragment(fragment, raw, k, dtype)

    def fetches(self) -> Body:
        copies = (If("fetch < k_tiles", self.fetched(self.copied)),) * bool(self.copied)
        return (*copies, *self.carries(), *self.commit())

    def epilogue(self) -> Body:
        plan = self.plan
        path, values = f"schedule.copies.{self.output}", plan.pointwise.values
        notes = (
            Note(
                f"Epilogue: every thread has {values} values, VECTOR neighbours along {plan.spec.lead.major} in one"
                " access; SLICE at a"
            ),
            Note("time, so that no more registers are needed than in the mainloop"),
        )
        summed = Summed("k_tiles", self.steps)
        return Region(path, "epilogue", notes), Included(f"{FOLDER}/epilogue.j2", 0, (summed,))
