"""The roles of warps that load: operands of the product, and what epilogues read."""

from __future__ import annotations

from cutegen.families.gemm_warpspecialized.plan import Side, WarpspecializedPlan
from cutegen.families.gemm_warpspecialized.product import piece_bytes
from cutegen.families.gemm_warpspecialized.role import FOLDER, PIECE, Role
from cutegen.parts.barriers import Expect, Wait
from cutegen.parts.moving import Load
from cutegen.parts.statements import Body, Code, Elected, For, If, Included, Let, Note, Region, Statement


class Loading(Role):
    """Of the first warpgroup one warp that loads operands, and those that load for the epilogues."""

    def producer(self) -> Body:
        plan = self.plan
        note = "Producer: one warp starts the loads of tile after tile, as stages become free"
        registers = Code(f"cute.arch.setmaxregister_decrease({plan.producer_registers})")
        masks = tuple(
            Let(f"mask_{self.stack(side)}", mask) for side in plan.sides if (mask := multicast_mask(plan, side))
        )
        loads = tuple(self.load(side, number) for side in plan.sides for number in range(len(side.tensors)))
        stage = (
            Wait("empty", "stage", "1 - phase"),
            Elected((Expect("full", "stage", "STAGE_BYTES"),)),
            *loads,
            *self.advance(),
        )
        k_tiles = For("k_tile", "cutlass.range(k_tiles, unroll=1)", stage)
        body = (
            Included(f"{FOLDER}/producer_setup.j2", 0, masks),
            Note("The next stage, and the phase of its barriers, which changes with each round of all stages"),
            Let("stage, phase", "cutlass.Int32(0), cutlass.Int32(0)"),
            self.tiles("producer", (Region("schedule.pipeline", "loads", (k_tiles,)),)),
        )
        return (
            Region("schedule.warps.registers", "registers of the producer", (Note(note), registers)),
            If("warp_idx == 0", body),
        )

    def load(self, side: Side, number: int) -> Statement:
        """The load of one tensor of an operand, to the stage."""
        plan, tensor = self.plan, side.tensors[number]
        tile = "m_tile" if side.letter == "A" else "n_tile"
        matrix = ", l_tile" if plan.has_batch(tensor) else ""
        name, shared = tensor.name, side.shared_by > 1
        part = ("y" if side.letter == "A" else "x") if shared else "0"
        load = Load(
            tensor=name,
            source=f"t{name}g{name}[None, {tile}, {self.k_tile}{matrix}]",
            way=f"t{name}",
            barriers="full",
            index="stage",
            to=name,
            cell="stage",
            bytes=side.block * plan.tile[plan.k] * tensor.dtype.bytes // side.shared_by,
            content=self.loaded,
            mask=f"mask_{self.stack(side)}" if shared else "",
            part=part,
        )
        return Region(f"schedule.copies.{name}", f"load of {name}", (load,))

    def loaders(self) -> Body:
        plan = self.plan
        if not plan.sources:
            return ()
        path = f"schedule.copies.{plan.sources[0].tensor.name}"
        alone = plan.consumers == 1
        condition = "warp_idx == 1" if alone else "warp_idx >= 1 and warp_idx <= CONSUMERS"
        who = "One warp loads" if alone else "A warp for each warpgroup of consumers loads"
        what = "its epilogues read" if not alone else "the epilogues read"
        loads = tuple(
            Load(
                tensor=stem,
                source=f"from_g{stem}[None, row, column{', l_tile' if plan.batch else ''}]",
                way="to_",
                barriers="brought",
                index="slot",
                to=stem,
                cell="slot",
                bytes=piece_bytes(plan.spec, x.tensor),
                content=PIECE,
            )
            for stem, x in zip(self.stems, plan.sources, strict=True)
        )
        piece = (
            Let("slot, turn", "group * SOURCES + step % SOURCES, step // SOURCES"),
            Let("step", "1", "+"),
            Wait("used", "slot", "(turn + 1) % 2"),
            Elected((Expect("brought", "slot", "SOURCE_BYTES"),)),
            *self.place_of_piece(),
            *loads,
        )
        own = (Code(f"n_tile = {self.own_tile}"),) if self.split else ()
        body = (
            Note(f"{who} what {what}, piece by piece"),
            Let("group", "warp_idx - 1"),
            Included(f"{FOLDER}/sources_setup.j2", 8),
            Let("step", "cutlass.Int32(0)"),
            self.tiles("loaders", (*own, For("piece", "cutlass.range(PIECES, unroll=1)", piece))),
        )
        return (Region(path, "loads of what epilogues read", (If(condition, body),)),)


def multicast_mask(plan: WarpspecializedPlan, side: Side) -> str:
    """The blocks of the cluster that one load of an operand serves, as Python; empty where it is this one alone."""
    if side.shared_by == 1:
        return ""
    m, n = plan.cluster
    # Blocks of a cluster are numbered along m first: those with the same rows are m apart
    mask = sum(1 << i * m for i in range(n)) if side.letter == "A" else (1 << m) - 1
    place = "x" if side.letter == "A" else "y * CLUSTER_M"
    place = f"{place} + share * CLUSTER_M * CLUSTER_N" if plan.split > 1 else place
    return f"cutlass.Int16({mask}) << ({place})"
