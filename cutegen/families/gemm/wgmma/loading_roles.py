"""The roles of warps that load: operands of the product, and what epilogues read."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.families.gemm.wgmma.names import stack_name
from cutegen.families.gemm.wgmma.plan import Side, WarpspecializedPlan
from cutegen.families.gemm.wgmma.role import PIECE, Role
from cutegen.families.gemm.wgmma.segments_text import of_segment
from cutegen.parts.barriers import Expect, Wait
from cutegen.parts.moving import ForBoxes, Load, Partition
from cutegen.parts.statements import Body, Code, Elected, For, If, Let, Note, Region, Statement


class Loading(Role):
    """Of the first warpgroup one warp that loads operands, and those that load for the epilogues."""

    def producer(self) -> Body:
        plan = self.plan
        note = "Producer: one warp starts the loads of tile after tile, as stages become free"
        kept = plan.number("PRODUCER_REGISTERS", plan.producer_registers)
        registers = Code(f"cute.arch.setmaxregister_decrease({kept})")
        every = [(side, number) for side in plan.sides for number in range(len(side.tensors))]
        partitions = tuple(self.partition(*one) for one in every if not plan.is_cut(one[0].tensor))
        of_tile = tuple(self.partition(*one) for one in every if plan.is_cut(one[0].tensor))
        loads = tuple(self.load(side, number) for side in plan.sides for number in range(len(side.tensors)))
        stage = (
            Wait("empty", "stage", "1 - phase"),
            Elected((Expect("full", "stage", "stage_bytes" if self.cut else "STAGE_BYTES"),)),
            *loads,
            *self.advance(),
        )
        k_tiles = For("k_tile", "cutlass.range(k_tiles, unroll=1)", stage)
        body = (
            *partitions,
            *self.before_tiles(),
            Note("The stage, and the phase of its barriers, which flips when the stages wrap around"),
            Let("stage, phase", "cutlass.Int32(0), cutlass.Int32(0)"),
            self.tiles("producer", (*of_tile, *self.boxes(), Region("schedule.pipeline", "loads", (k_tiles,)))),
        )
        return (
            Region("schedule.warps.registers", "registers of the producer", (Note(note), registers)),
            If("warp_idx == 0", body),
        )

    @property
    def cut(self) -> list[Side]:
        """The operands whose boxes beyond the tensor's end are not loaded."""
        return [side for side in self.plan.sides if side.box is not None]

    def boxes(self) -> Iterator[Statement]:
        """How many boxes of a tile have something of each operand, and what their loads bring."""
        for number, side in enumerate(self.cut):
            name, tile = self.stack(side), "m_tile" if side.letter == "A" else "n_tile"
            block, box = f"BLK_{side.mode.upper()}", f"BOX_{name}"
            every = "segment_rows" if self.plan.is_cut(side.tensor) else f"m{side.tensor.name}.shape[0]"
            rows = f"{every} - {tile} * {block}"
            missing = f"({block} // {box} - boxes_{name}) * BOX_BYTES_{name}"
            alone = self.plan.varies("STAGE_BYTES")  # a name that stands for too long a formula
            less = Let("stage_bytes", missing, "-")
            less = less if number or alone else Let("stage_bytes", f"STAGE_BYTES - {missing}")
            first = Let(f"first_{name}", f"{tile} * ({block} // {box})")
            body: Body = (
                *[Let("stage_bytes", "STAGE_BYTES")] * (number == 0 and alone),
                *[Note("Boxes that are out of bounds as a whole are not loaded")] * (number == 0),
                Let(f"rows_{name}", f"cutlass.max(0, cutlass.min({block}, {rows}))"),
                Let(f"boxes_{name}", f"cute.ceil_div(rows_{name}, {box})"),
                *[first] * self.plan.varies(block, box),  # names that are too long for one line
                less,
            )
            yield Region(f"schedule.copies.{side.tensor.name}.box", f"boxes of {name}", body)

    def partition(self, side: Side, number: int) -> Statement:
        """Partitions one tensor of an operand for its loads; for the last one also sets the mask of blocks that they
        serve.
        """
        plan, name, stack = self.plan, side.tensors[number].name, self.stack(side)
        mode, K = f"BLK_{side.mode.upper()}", f"BLK_{plan.k.upper()}"
        every = "(None, None, None)" if plan.has_batch(side.tensors[number]) else "(None, None)"
        beside = Code(f"s{name} = cute.local_tile(", (f"s{stack}", f"({mode}, {K}, STAGES)", f"({number}, 0, 0)"), ")")
        part = {"rank": "y", "among": "CLUSTER_N"} if side.letter == "A" else {"rank": "x", "among": "CLUSTER_M"}
        part = part if side.shared_by > 1 else {}
        names, mask = " and ".join(tensor.name for tensor in side.tensors), multicast_mask(plan, side)
        seen = of_segment(plan, side.tensor, f"m{name}")
        served = (
            Note(f"The blocks of the cluster that share {names}, as a multicast mask"),
            Let(f"mask_{stack}", mask),
        )
        extent, several = mode if side.box is None else f"BOX_{stack}", side.box is not None
        boxes = Code(f"s{name}_boxes = cute.local_tile(", (f"s{name}", f"({extent}, {K})", "(None, 0, None)"), ")")
        part |= {"boxes": f"{mode} // {extent}", "cells": f"s{name}_boxes"} if several else {}
        body = (
            Code(f"g{name} = cute.local_tile(", (seen, f"({extent}, {K})", every), ")"),
            *[beside] * (len(side.tensors) > 1),
            *[boxes] * several,
            Partition(name, f"t{name}s{name}", f"t{name}g{name}", f"g{name}", **part),
            *(served if mask and number == len(side.tensors) - 1 else ()),
        )
        return Region("schedule.tiler", f"tiles of {name}", body)

    def load(self, side: Side, number: int) -> Statement:
        """The load of one tensor of an operand, to the stage."""
        plan, tensor = self.plan, side.tensors[number]
        tile = "m_tile" if side.letter == "A" else "n_tile"
        matrix = f", {plan.matrix_place}" if plan.has_batch(tensor) else ""
        name, boxed = tensor.name, side.box is not None
        block, stack = f"BLK_{side.mode.upper()}", self.stack(side)
        count = f"{block} // BOX_{stack}"
        first = f"first_{stack}" if self.plan.varies(block, f"BOX_{stack}") else f"{tile} * ({count})"
        tile = f"{first} + box" if boxed else tile
        load = Load(
            tensor=name,
            source=f"t{name}g{name}[None, {tile}, {self.k_tile}{matrix}]",
            to=f"t{name}s{name}",
            cell="stage",
            barriers="full",
            index="stage",
            content=self.loaded,
            mask=f"mask_{stack}" if side.shared_by > 1 else "",
            box="box" if boxed else "",
            inside=f"box < boxes_{stack}" if boxed else "",
        )
        body = (ForBoxes("box", f"cutlass.range_constexpr({count})", (load,)),) if boxed else (load,)
        return Region(f"schedule.copies.{name}", f"load of {name}", body)

    def loaders(self) -> Body:
        plan = self.plan
        if not plan.sources:
            return ()
        path = f"schedule.copies.{plan.sources[0].tensor.name}"
        alone = not plan.several
        condition = "warp_idx == 1" if alone else "warp_idx >= 1 and warp_idx <= CONSUMERS"
        who = "One warp loads" if alone else "One warp for each consumer warpgroup loads"
        what = "its epilogues read" if not alone else "the epilogues read"
        loads = tuple(
            Load(
                tensor=stem,
                source=f"from_g{stem}[None, row, column{', l_tile' if plan.batch else ''}]",
                to=f"to_s{stem}",
                cell="slot",
                barriers="brought",
                index="slot",
                content=PIECE,
            )
            for stem in self.stems
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
            *[one for one in self.pieces_of_sources() if plan.segments is None],
            *self.before_tiles(),
            Let("step", "cutlass.Int32(0)"),
            self.tiles(
                "loaders",
                (
                    *own,
                    *[one for one in self.pieces_of_sources() if plan.segments],
                    For("piece", "cutlass.range(PIECES, unroll=1)", piece),
                ),
            ),
        )
        return (Region(path, "loads of what epilogues read", (If(condition, body),)),)

    def pieces_of_sources(self) -> Iterator[Statement]:
        """Partitions the tensors that epilogues read into the pieces that their loads move."""
        every = "(None, None, None)" if self.plan.batch else "(None, None)"
        for stem, x in zip(self.stems, self.plan.sources, strict=True):
            seen = f"tma_tensor_{stem}" if x.tensor.writes else f"m{stem}"
            seen = of_segment(self.plan, x.tensor, seen)
            yield Code(f"g{stem}_pieces = cute.local_tile(", (seen, "(64, COLUMNS)", every), ")")
            yield Partition(stem, f"to_s{stem}", f"from_g{stem}", f"g{stem}_pieces")


def multicast_mask(plan: WarpspecializedPlan, side: Side) -> str:
    """The blocks of the cluster that one load of an operand serves, as Python; empty where it is this one alone."""
    if side.shared_by == 1:
        return ""
    mask = plan.number(f"MASK_{stack_name(plan.spec, side.tensors)}", plan.served(side))
    place = "x" if side.letter == "A" else "y * CLUSTER_M"
    place = f"{place} + share * CLUSTER_M * CLUSTER_N" if plan.split > 1 else place
    return f"cutlass.Int16({mask}) << ({place})"
