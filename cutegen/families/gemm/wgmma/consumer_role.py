"""The role of the warpgroups that multiply, up to their epilogues."""

from __future__ import annotations

from cutegen.families.gemm.wgmma.epilogue_role import Storing
from cutegen.families.gemm.wgmma.plan import Side
from cutegen.families.gemm.wgmma.role import BOTH, FOLDER, MULTIPLIES, STORES
from cutegen.families.gemm.wgmma.scaling_role import Scaling
from cutegen.parts.barriers import Arrive, Meet, Wait
from cutegen.parts.moving import Drain, Fragment, Multiply, Stored
from cutegen.parts.statements import Blank, Body, Code, For, If, Included, Let, Note, Region, Statement


class Multiplying(Storing, Scaling):
    """Warpgroups that share the rows of a tile, or take tiles in turn."""

    def consumers(self) -> Body:
        plan = self.plan
        what = (
            "two warpgroups take tiles in turn"
            if plan.pingpong
            else "each warpgroup has a part of the rows of every tile"
        )
        if plan.any_turns:
            what = "warpgroups share the rows of a tile, or two of them take tiles in turn"
        registers = plan.number("CONSUMER_REGISTERS", plan.consumer_registers)
        more = Code(f"cute.arch.setmaxregister_increase({registers})")
        empty = (
            Region("schedule.mma", "sums of nothing", (
                If("k_tiles == 0", (Code("acc.fill(0.0)  # K is 0: there are no products to add"),)),
            )),
        ) if plan.empty_sum and not self.scaled else ()  # fmt: skip
        own = "group * k_tiles % STAGES, group * k_tiles // STAGES % 2"
        counters = (
            *self.in_turns((Let("stage, phase", own if plan.pingpong else "cutlass.Int32(0), cutlass.Int32(0)"),)),
            *self.before_tiles(),
            *[Let("rotation", "cutlass.Int32(0)")] * self.rotates,
            *[Let("source", "cutlass.Int32(0)")] * bool(plan.sources),
            *[Let("exchange", "cutlass.Int32(0)")] * self.reused,
        )
        store = If("thr < 32", (Stored("0"),))
        last = (Note("Keep shared memory until every store has read it"), store) if plan.passing else ()
        return (
            Region("schedule.warps.registers", "registers of the consumers", (Note(f"Consumers: {what}"), more)),
            self.operands(),
            *(self.scale_registers() if self.scaled else ()),
            Included(f"{FOLDER}/consumer_ways.j2", 0),
            *self.peers(),
            *empty,
            *counters,
            *self.in_turns((*self.first_turn(), *[Let("start, step", ", ".join(self.walk))] * plan.any_turns)),
            *self.scales_of_first(),
            self.consumed_tiles(),
            *last,
        )

    def operands(self) -> Statement:
        """Which of the consumers a thread is, and what it multiplies."""
        plan, own = self.plan, self.of_all
        number = "warp_idx // 4 - 1" + " if cutlass.const_expr(CONSUMERS > 1) else 0" * plan.varies("CONSUMERS")
        body = (
            *[Let("group", number)] * (plan.several and (plan.pingpong or bool(plan.passing) or self.split)),
            Let("thr", "tidx % 128", note="within its warpgroup"),
            Code(f"thr_mma = tiled_mma.get_slice({own})"),
            *(Fragment(self.fragment(side), side.letter, f"s{self.stack(side)}") for side in plan.sides),
            *self.row_blocks(),
            Included(f"{FOLDER}/consumer_setup.j2", 0),
        )
        return Region("schedule.mma", "operands of the product", body)

    def fragment(self, side: Side) -> str:
        return f"t{self.plan.spec.output.name}r{self.stack(side)}"

    def peers(self) -> Body:
        """The blocks whose barriers this one's threads arrive at, when they have multiplied a stage."""
        plan = self.plan
        if plan.peers == 1:
            return (Let("peer", "None"),) if plan.any_peers else ()
        both = plan.a.shared_by > 1 and plan.b.shared_by > 1
        base = "share * CLUSTER_M * CLUSTER_N" if self.clustered and self.split else ""
        note = "The blocks that load into this block's stages: each of the first threads releases to one"
        row = (
            Let("other", "thr - CLUSTER_N", note="of its row"),
            Let("peer", "y * CLUSTER_M + other + cutlass.Int32(other >= x)"),
        )
        column = "x + thr * CLUSTER_M"
        place: Body = (Let("peer", column if plan.a.shared_by > 1 else "y * CLUSTER_M + thr"),)
        if both:
            place = (Let("peer", column, note="of its column"), If("thr >= CLUSTER_N", row))
        more = (Let("peer", base, "+"),) if base else ()
        return (Region("schedule.cluster", "peers", (Note(note), *place, *more)),)

    def first_turn(self) -> Body:
        """The second warpgroup lets the first one begin, where they take turns."""
        plan = self.plan
        if not plan.pingpong:
            return ()
        storing = Meet(str(STORES), BOTH, waits=False)
        first = If("group == 1", (Meet(str(MULTIPLIES), BOTH, waits=False), *[storing] * plan.in_turn))
        return (Region("schedule.scheduler", "tiles of the consumers", (first,)),)

    def consumed_tiles(self) -> Statement:
        plan = self.plan
        where = "while the other warpgroup multiplies" if plan.pingpong else (
            "while its first loads are in flight"
        )  # fmt: skip
        if plan.any_turns:
            where = "while its first loads are in flight, or the other warpgroup multiplies"
        turn = (
            self.in_turns((Note("Wait for this warpgroup's turn to multiply"), Meet(f"{MULTIPLIES} + group", BOTH)))
            if plan.pingpong
            else ()
        )
        accumulate = Code("tiled_mma.set(warpgroup.Field.ACCUMULATE, False)")
        before = Let("before", "cutlass.Int32(0)")
        start: Body = (accumulate, *[before] * bool(plan.in_flight))
        body = (
            Region("schedule.mma", "accumulators", (Code("acc.fill(0.0)"),) if self.scaled else start),
            Region("schedule.pipeline", "mainloop", self.mainloop()),
            Blank(),
            *self.scales_of_next(),
            *((self.exchange(), Blank()) if self.split else ()),
            self.epilogue(),
        )
        return self.tiles("consumers", body, turn, (Note(f"The coordinate of the tile, computed {where}"),))

    def mainloop(self) -> Body:
        """The products of a tile, stage by stage; a stage is released once they are done with it."""
        plan = self.plan
        a, b = map(self.fragment, plan.sides)
        all_but = "All products but these have completed: the previous stage is free"
        note = all_but if plan.in_flight else "They are done: the stage is free"
        products = (Multiply(a, b, "stage", self.loaded), Note(note), Drain(1 if plan.in_flight else 0))
        release = (self.release("k_tile > 0"), Let("before", "stage")) if plan.in_flight else (self.release(""),)
        ready, multiplied = Wait("full", "stage", "phase"), Region("schedule.mma", "products", products)
        step: Body = (ready, multiplied, *release, *self.advance())
        if self.scaled:
            step = (ready, *self.scaled_products(a, b, release), *self.advance())
        places = "(stage + k_tiles) % STAGES", "(phase + (stage + k_tiles) // STAGES) % 2"
        skipped = ", ".join(places)
        if plan.varies("STAGES"):  # a name that is too long for one line
            skipped = f"(\n    {places[0]},\n    {places[1]},\n)"
        skip = (
            Note("Skip the stages of the other warpgroup's tile"),
            Let("stage, phase", skipped),
            If("tile + clusters < tiles", (Meet(f"{MULTIPLIES + 1} - group", BOTH, waits=False),)),
        )
        last = (Drain(0), self.release("k_tiles > 0" if plan.empty_sum else "")) if plan.in_flight else ()
        return (
            For("k_tile", "cutlass.range(k_tiles, unroll=1)", step),
            *self.in_turns(skip[: 3 * plan.pingpong]),
            *last,
        )

    def release(self, condition: str) -> Statement:
        """The arrivals that let a stage be loaded again, in every block that loads into it, under a condition."""
        plan = self.plan
        peers = plan.peers > 1 or plan.any_peers
        mine = f"thr < {plan.number('PEERS', plan.peers)}" if peers else "thr == 0"
        arrive = Arrive("empty", "before" if plan.in_flight else "stage", "peer" if peers else "")
        return If(" and ".join(filter(None, (condition, mine))), (arrive,))
