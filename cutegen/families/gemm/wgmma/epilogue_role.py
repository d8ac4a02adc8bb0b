"""The end of each tile in the warpgroups that multiply: they exchange sums within a cluster, compute, and store."""

from __future__ import annotations

from cutegen.families.gemm.wgmma.product import WARPGROUP
from cutegen.families.gemm.wgmma.role import BOTH, FOLDER, PIECE, STORES, Role
from cutegen.parts.barriers import Arrive, ClusterWait, Expect, Meet, Wait
from cutegen.parts.moving import Add, CommitStores, Fence, Look, Send, Store, Stored, Use, Write
from cutegen.parts.statements import Body, Code, For, If, Included, Let, Note, Region, Statement


class Storing(Role):
    """The end of each tile."""

    def exchange(self) -> Statement:
        """The sums of a tile that blocks of a cluster along k make together: each gets those of its columns."""
        plan = self.plan
        K, what = plan.k.upper(), "it sends the others theirs"
        index = "place, group" if plan.several else "place"
        turn = (Let("turn", "exchange % 2"), Let("exchange", "1", "+")) if self.reused else ()
        read = (
            (Note("The peers have read the sums sent for the previous tile"), Wait("read", "0", "(turn + 1) % 2"))
            if self.reused
            else ()
        )
        meet = (Note("The barriers of the peers are initialised"), ClusterWait()) if plan.meets_late else ()
        vectors = "PRODUCTS * VALUES // 4" if plan.products > 1 else "VALUES // 4"
        added = (
            Code("vector = cute.local_tile(own, (4,), (i,))"),
            Add("vector", "sums", "i", index, "(tile, place)"),
        )
        ranks = "x + CLUSTER_M * (y + CLUSTER_N * {})" if self.clustered else "{}"
        reader = ranks.format("(thr % 32)" if self.clustered else "thr % 32")
        done = (
            Code("cute.arch.sync_warp()"),
            If("thr % 32 < CLUSTER_K and thr % 32 != share", (Arrive("read", "0", reader),)),
        )
        body = (
            Note(f"Each block of the cluster along {K} has partial sums of all columns: {what}"),
            *turn,
            If("tidx == 128", (Expect("sent", "0", "SENT_BYTES"),)),
            *read,
            *meet,
            For("other", "cutlass.range_constexpr(CLUSTER_K)", self.sent(index, ranks.format("other"))),
            Note("Add the partial sums of the other blocks, in a fixed order"),
            Wait("sent", "0", "turn" if self.reused else "0"),
            For("place", "cutlass.range_constexpr(CLUSTER_K - 1)", (
                For("i", f"cutlass.range_constexpr({vectors})", added),
            )),
            *done[: 2 * self.reused],
            Note("This block's columns of the tile"),
            Code(f"n_tile = {self.own_tile}"),
        )  # fmt: skip
        return Region("schedule.cluster", "exchange of sums", body)

    def sent(self, index: str, to: str) -> Body:
        """A block's own sums to its registers, and those of another one's columns to that."""
        plan, several = self.plan, self.plan.products > 1
        places = "(product * CLUSTER_K + other, 0, 0)" if several else "(other, 0, 0)"
        places = "(other, product, 0)" if several and plan.exchanged else places
        tiler = f"({self.own_n} // 2, {plan.number('ROW_BLOCKS', plan.row_blocks)}, 1)"
        mine, vector = ("product * VALUES + i", "product * (VALUES // 4) + i") if several else ("i", "i")
        own = For("i", "cutlass.range_constexpr(VALUES)", (Code(f"own[{mine}] = theirs[i]"),))
        send = (
            Code("words = (bits[4 * i], bits[4 * i + 1], bits[4 * i + 2], bits[4 * i + 3])"),
            Send("sums", vector, index, "words", "sent", to, "(tile, place)"),
        )
        others = (
            Code("bits = cute.recast_tensor(theirs, cutlass.Int32)"),
            Note("The rank of this block among the senders"),
            Let("place", "share - cutlass.Int32(share > other)"),
            For("i", "cutlass.range_constexpr(VALUES // 4)", send),
        )
        body = (
            Use(),
            Code("theirs = cute.local_tile(", ("acc", tiler, places), ")"),
            If("other == share", (own,), others),
        )
        return (For("product", "cutlass.range_constexpr(PRODUCTS)", body),) if several else body

    def epilogue(self) -> Statement:
        plan = self.plan
        turn = (
            Note("Wait for this warpgroup's turn to store: the buffers are free"),
            Meet(f"{STORES} + group", BOTH),
        )
        assert plan.pointwise.slice is not None
        at_a_time = f"SLICE values of {2 * plan.pointwise.slice} columns at a time"
        body = (
            Note(f"Epilogue: every thread has pairs of neighbours along {plan.n.upper()}; {at_a_time}"),
            Included(f"{FOLDER}/epilogue_setup.j2", 8),
            *[Region("schedule.warps.turns", "turn to store", turn)] * plan.in_turn,
            *(self.pieces() if plan.passing else self.direct()),
        )
        return Region(f"schedule.copies.{plan.spec.output.name}", "epilogue", body)

    def direct(self) -> Body:
        """The epilogue where threads store what they have."""
        one = Included("common/pointwise.j2", 12, (Use(),))
        return (For("part", "cutlass.range_constexpr(VALUES // SLICE)", (one,)),)

    def pieces(self) -> Body:
        """The epilogue whose outputs go through shared memory, piece by piece."""
        plan = self.plan
        path = f"schedule.copies.{plan.passing[0].tensor.name}"
        names = tuple(x.tensor.name for x in plan.passing)
        buffer = f"{self.of_group}{'(rotation + piece)' if self.rotates else 'piece'} % BUFFERS"
        free = (
            Note("Wait until the previous store has read this buffer"),
            Let("buffer", buffer),
            If("thr < 32", (Stored("BUFFERS - 1"),)),
            Meet(self.own_barrier, WARPGROUP),
        )
        reads = (Look(self.stems, "(slot, 0)", PIECE),) if plan.sources else ()
        computed = (Use(), *reads, Write(names, "(buffer,)", PIECE))
        store = (
            Note("Make the writes visible to the async proxy, which stores them"),
            Fence(),
            Meet(self.own_barrier, WARPGROUP),
            *[If("thr == 0", (Arrive("used", "slot"),))] * bool(plan.sources),
            *(self.stores_of_segment(names) if plan.segments else ()),
            *[If("thr < 32", (*self.place_of_piece(), *self.stores(names), CommitStores()))] * (plan.segments is None),
        )
        by_columns = any(plan.by_columns(o) for o in plan.pointwise.operands)
        piece = (
            Region(path, "a free buffer", free),
            *self.brought(),
            For("part", "cutlass.range_constexpr(piece * PARTS, (piece + 1) * PARTS)", (
                *[Included(f"{FOLDER}/columns.j2", 16)] * by_columns,
                Included("common/pointwise.j2", 16, computed),
            )),
            Region(path, "store of a piece", store),
        )  # fmt: skip
        return (
            For("piece", "cutlass.range_constexpr(PIECES)", piece),
            *self.rotated(),
            *[Let("source", "PIECES", "+")] * bool(plan.sources),
            *self.next_turn(),
        )

    def rotated(self) -> Body:
        """The buffer with which the next tile begins."""
        body = (Let("rotation", "(rotation + PIECES) % BUFFERS"),) * self.rotates
        return (If("cutlass.const_expr(ROTATES)", body),) if self.plan.varies("ROTATES") else body

    def brought(self) -> Body:
        """The wait for the loads of a piece that the epilogue reads."""
        plan = self.plan
        if not plan.sources:
            return ()
        of_group = "group * SOURCES + " if plan.several else ""
        body = (
            Note("Wait for the tensors that the epilogue reads of this piece"),
            Let("slot", f"{of_group}(source + piece) % SOURCES"),
            Wait("brought", "slot", "(source + piece) // SOURCES % 2"),
        )
        return (Region(f"schedule.copies.{plan.sources[0].tensor.name}", "wait for what is read", body),)

    def stores_of_segment(self, names: tuple[str, ...]) -> Body:
        """The stores of a piece whose last rows may be those of the next segment, or of none: then threads store rows.

        The group that a warp makes is empty then, so that each piece has one.
        """
        whole = If("segment_rows >= 64 * (row + 1)", self.stores(names))
        looks = (Look(names, "(buffer,)", PIECE),)
        return (
            *self.place_of_piece(),
            If("thr < 32", (whole, CommitStores())),
            If("segment_rows < 64 * (row + 1)", (Included(f"{FOLDER}/cut_store.j2", None, looks),)),
        )

    def stores(self, names: tuple[str, ...]) -> Body:
        matrix = ", l_tile" if self.plan.batch else ""
        return tuple(Store(name, f"to_g{name}[None, row, column{matrix}]", "buffer", PIECE) for name in names)

    def next_turn(self) -> Body:
        """The other warpgroup's turn to store, where both have the same buffers."""
        if not self.plan.in_turn:
            return ()
        body = (
            Note("Pass the turn on, once the stores have read the buffers"),
            If("thr < 32", (Stored("0"),)),
            If("tile + clusters < tiles", (Meet(f"{STORES + 1} - group", BOTH, waits=False),)),
        )
        return (Region("schedule.warps.turns", "turn of the other to store", body),)
