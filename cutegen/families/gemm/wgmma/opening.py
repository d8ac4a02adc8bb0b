"""The statements that all threads of a gemm execute before they take roles: allocation, initialisation of barriers, and
counts of steps and tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.families.gemm.wgmma import allocation
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.parts.barriers import ClusterArrive, ClusterWait
from cutegen.parts.declared import Barriers, Buffer
from cutegen.parts.opening import Allocate, AllocateBarriers, FenceInitialised, Initialise, Overlay, SyncThreads
from cutegen.parts.statements import Body, Code, For, If, Let, Note, Region, Statement


class Opening:
    """The statements before the roles, of a plan."""

    def __init__(self, plan: WarpspecializedPlan) -> None:
        self.plan, spec = plan, plan.spec
        self.sources = allocation.source_barriers(spec)
        self.sums = allocation.sum_barriers(spec, plan.any_consumers)
        self.stages = allocation.stage_barriers(
            spec, plan.any_consumers or plan.any_turns, plan.varies("PEERS"), plan.sharing, plan.any_peers
        )

    def body(self) -> Body:
        barriers = (*self.barriers(), self.initialised(), *self.met(), *self.dependent(), *self.counts())
        return (self.buffers(), Region("schedule.pipeline.stages", "barriers", barriers))

    def buffers(self) -> Statement:
        spec, K = self.plan.spec, self.plan.k.upper()
        own, early = allocation.outputs(spec), not self.plan.shares_buffers
        sums = allocation.sums(spec, self.plan.any_consumers)
        memory = (*allocation.operands(spec), *own[: len(own) * early], *allocation.brought(spec))
        sent = (
            Note(f"The partial sums of this block's columns from each other block along {K}"),
            *map(Allocate, sums),
            *self.overlaid(own[len(own) * early :]),
        )
        shared = Region("schedule.cluster", "shared memory for what others send", sent)
        allocator = Code("smem = cutlass.memory.SmemAllocator()")
        return Region("schedule.smem", "shared memory", (allocator, *map(Allocate, memory), *[shared] * bool(sums)))

    def overlaid(self, outputs: Sequence[Buffer]) -> Body:
        found: list[Statement] = []
        for one in outputs:
            note = f"{one.title} reuses this memory once a warpgroup has added its partial sums"
            found += [Note(note), Overlay(one)]
        return tuple(found)

    def barriers(self) -> Body:
        stages = "Two barriers per stage: its loads have completed; all consumers have read it"
        loaded = "Two barriers per buffer of the epilogue: its loads have completed; all have read it"
        sent = "One barrier: all partial sums have arrived"
        read = "; one: all have read this block's" * (len(self.sums) > 1)
        return (
            *_allocated(stages, self.stages),
            *self.of_sources(_allocated(loaded, self.sources)),
            *self.of_sums(_allocated(sent + read, self.sums)),
        )

    def initialised(self) -> Statement:
        """By one thread."""
        return If("tidx == 0", (
            _each("stage", "STAGES", self.stages),
            *self.of_sources((_each("slot", "CONSUMERS * SOURCES", self.sources),)),
            *self.of_sums(tuple(Initialise(one, "0") for one in self.sums)),
            FenceInitialised(),
        ))  # fmt: skip

    def of_sources(self, body: Body) -> Body:
        if not self.sources:
            return ()
        path = f"schedule.copies.{self.plan.sources[0].tensor.name}"
        return (Region(path, "barriers of what epilogues read", body),)

    def of_sums(self, body: Body) -> Body:
        return (Region("schedule.cluster", "barriers of what others send", body),) if self.sums else ()

    def met(self) -> Body:
        """Where all come together that use the barriers: a block, or a cluster."""
        if self.plan.meets_late:
            late = "Blocks wait for each other's barriers where they exchange sums, before the first use"
            return (Note(late), ClusterArrive(relaxed=True), SyncThreads())
        return (ClusterArrive(relaxed=True), ClusterWait()) if self.plan.cluster_size > 1 else (SyncThreads(),)

    def dependent(self) -> Body:
        body = (
            Note("Programmatic dependent launch: let dependents start, wait for prerequisites"),
            Code("cute.arch.griddepcontrol_launch_dependents()"),
            Code("cute.arch.griddepcontrol_wait()"),
        )
        region = Region("schedule.scheduler.launch", "kernels before and after", body)
        return (region,) if self.plan.dependent else ()

    def counts(self) -> Body:
        """Steps along k that this block multiplies of every tile, and tiles of all clusters."""
        plan = self.plan
        steps = Let("k_tiles", f"cute.ceil_div(m{plan.a.tensor.name}.shape[1], BLK_{plan.k.upper()})")
        shared = (
            Note("This block's share of the tiles along K"),
            Let("k_first", "k_tiles * share // CLUSTER_K"),
            Let("k_tiles", "k_tiles * (share + 1) // CLUSTER_K - k_first"),
        )
        tiles: Statement = Let("tiles", " * ".join(tile_counts(plan)))
        if plan.segments is not None:
            rows = f"m{plan.spec.output.name}.shape[0]"
            tiles = Code("tiles = count_tiles(", (f"m{plan.segments.ends}", rows, "tiles_n"), ")")
        every = (Let("k_first", "0"),) if plan.any_split else ()
        return (steps, *(shared if plan.split > 1 else every), tiles)


def tile_counts(plan: WarpspecializedPlan) -> tuple[str, ...]:
    """The variables that count the tiles of clusters along each mode of the output, and the matrices of a batch."""
    return ("tiles_m", "tiles_n", *["tiles_l"] * (plan.batch is not None))


def _allocated(note: str, barriers: Sequence[Barriers]) -> Body:
    return (Note(note), *map(AllocateBarriers, barriers))


def _each(variable: str, length: str, barriers: Sequence[Barriers]) -> Statement:
    """All barriers of arrays of one length."""
    return For(variable, f"cutlass.range_constexpr({length})", tuple(Initialise(one, variable) for one in barriers))
