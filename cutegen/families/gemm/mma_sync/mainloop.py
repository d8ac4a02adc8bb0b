"""The statements in which a multistage gemm on tensor cores differs from one on the CUDA cores."""

from __future__ import annotations

from cutegen.families.gemm.mma_sync.plan import MmaSyncPlan
from cutegen.families.gemm.staged.load_text import LoadText
from cutegen.families.gemm.staged.mainloop import FOLDER, Mainloop
from cutegen.parts.copying import Array, CpAsyncCommitGroup, ReadFragment, ReadSums, StoreSums, Summed
from cutegen.parts.opening import SyncThreads
from cutegen.parts.statements import Body, Code, If, Included, Note, Region


class MmaSyncMainloop(Mainloop[MmaSyncPlan]):
    """That of warps that multiply on tensor cores: copies start behind the reads of a step, and the accumulators go
    through shared memory, where the stages were.
    """

    operands, steps = "mma_sync_operands.j2", "K_BLOCKS"

    def read(self, x: LoadText, k: str, stage: str) -> Body:
        """Shared memory to the registers of a warp."""
        fragment = f"t{self.output}r{x.name}"
        source, view = f"t{self.output}s{x.name}", f"{fragment}_view"
        return (ReadFragment(x.name, source, view, fragment, k, stage, f"read_{x.name}"),)

    def fetches(self) -> Body:
        return self.carries()

    def fetches_within(self) -> Body:
        fetches, more = self.plan.fetches, "fetch < k_tiles"
        copies = [
            (f"cutlass.const_expr(k_block == {step})", self.fetched([self.loads[i] for i in which]))
            for step, which in fetches
        ]
        if len(fetches) > 1:
            started = If(more, tuple(If(at, body) for at, body in copies))
            return started, If(copies[-1][0], (CpAsyncCommitGroup(),))
        return tuple(If(at, (If(more, body), CpAsyncCommitGroup())) for at, body in copies)

    def epilogue(self) -> Body:
        plan, name = self.plan, self.output
        sums = ("cute.recast_ptr(", ("storage", "dtype=cutlass.Float32"), ")")
        layout = f"(BLK_{plan.m.upper()}, BLK_{plan.n.upper()}), stride={plan.staged}"
        staged = (
            Note("Epilogue: the accumulators go to shared memory, where A and B were, and come back as every thread"),
            Note(f"stores them: VECTOR neighbours along {plan.spec.lead.major} in one access"),
            SyncThreads(),
            Code(f"s{name} = cute.make_tensor(", (sums, f"cute.make_layout({layout})"), ")"),
            Array((name,), "1"),
            Summed("k_tiles", self.steps),
            StoreSums(name, tuple(x.name for x in self.loads)),
            SyncThreads(),
            Code("thr_store = tiled_store.get_slice(tidx)"),
        )
        rest = Included(f"{FOLDER}/epilogue.j2", 0, (ReadSums(name),))
        return Region(f"schedule.copies.{name}", "epilogue", staged), rest
