"""The parts that all roles of a gemm's warps share: the walk over tiles, the ring of stages, and printed names."""

from __future__ import annotations

from math import prod

from cutegen.families.gemm.wgmma.block_text import own_columns
from cutegen.families.gemm.wgmma.names import source_name, stack_name
from cutegen.families.gemm.wgmma.plan import Side, WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import WARPGROUP
from cutegen.families.gemm.wgmma.segments_text import rows_of_cluster
from cutegen.parts.statements import Body, Code, For, If, Let, Region

FOLDER = "gemm_wgmma"
PIECE = "(tile, piece)"  # what a buffer of the epilogue holds
# Named barriers: 0 is `sync_threads`; from these numbers on each warpgroup has one
MULTIPLIES, STORES_OWN, STORES = 1, 3, 5
BOTH = 2 * WARPGROUP  # threads of two warpgroups that take turns


class Role:
    """The statements of a role; of a plan what several of them need to know, as the text that is printed.

    `finders` are the arguments of the function that finds a tile by its number.
    """

    def __init__(self, plan: WarpspecializedPlan, finders: list[str]) -> None:
        self.plan, self.finders = plan, finders
        several = plan.several
        self.clustered, self.split = prod(plan.cluster) > 1, plan.split > 1
        self.group = "group" if several else "0"
        # A thread's number among those that share a tile
        self.of_all = plan.of_all
        self.M, self.own_n = plan.m.upper(), own_columns(plan)
        self.of_group = "group * BUFFERS + " if several and not plan.in_turn else ""
        self.own_barrier = f"{STORES_OWN} + {self.group}" if several else str(STORES_OWN)
        self.rotates = plan.rotates or plan.varies("ROTATES")
        self.own_tile = "n_tile * CLUSTER_K + share" if self.split else "n_tile"
        self.reused = self.split and plan.persistent
        self.k_tile = "k_first + k_tile" if self.split or plan.any_split else "k_tile"
        self.loaded = f"(tile, {self.k_tile})"  # what a stage holds
        # A warpgroup has buffers of its own, or both have the same
        self.stems = tuple(source_name(x.tensor) for x in plan.sources)

    def tiles(self, what: str, body: Body, head: Body = (), notes: Body = ()) -> For:
        """The loop over the tiles of this block; with warpgroups that take tiles in turn, over those of one."""
        first, step = ("first", "clusters") if what == "producer" else self.walk
        if self.plan.any_turns and what == "consumers":
            first, step = "start", "step"
        over = f"cutlass.range({first}, tiles, {step}, unroll=1)"
        key = None if what == "loaders" else ("schedule.scheduler", f"tiles of the {what}")
        return For("tile", over, body, (*notes, *self.coordinates(), *head), key)

    def in_turns(self, body: Body) -> Body:
        """Statements that are other ones where warpgroups take turns."""
        return (Region("schedule.warps.roles", "turns", body),) if body and self.plan.any_turns else body

    @property
    def walk(self) -> tuple[str, str]:
        """The first tile of a consumer, and how far the next ones are."""
        return ("first + group * clusters", "2 * clusters") if self.plan.pingpong else ("first", "clusters")

    def before_tiles(self) -> Body:
        """The start of a walk over tiles: at the first segment, where rows are cut into segments."""
        if self.plan.segments is None:
            return ()
        return (Let("segment, tiles_before", "cutlass.Int32(0), cutlass.Int32(0)"),)

    def coordinates(self) -> Body:
        """Where a tile is."""
        if self.plan.segments is not None:
            return self.in_segment()
        names = "m_tile, n_tile, l_tile" if self.plan.batch is not None else "m_tile, n_tile"
        in_cluster = Code("m_tile, n_tile = m_tile * CLUSTER_M + x, n_tile * CLUSTER_N + y")
        return (Code(f"{names} = tile_coordinate(", tuple(self.finders), ")"), *[in_cluster] * self.clustered)

    def in_segment(self) -> Body:
        """Of which segment a tile is, and where in it."""
        plan = self.plan
        assert plan.segments is not None
        rows = f"m{plan.spec.output.name}.shape[0]"
        found = ("tile", "segment", "tiles_before", f"m{plan.segments.ends}", rows, "tiles_n")
        place = tuple(one.format(block=rows_of_cluster(plan)) for one in self.finders)
        in_cluster = Code("m_tile, n_tile = m_tile * CLUSTER_M + x, n_tile * CLUSTER_N + y")
        body = (
            Code("segment, tiles_before, first_row, segment_rows = find_segment(", found, ")"),
            Code("m_tile, n_tile = tile_coordinate(", place, ")"),
            *[in_cluster] * self.clustered,
        )
        return (Region(f"modes.{plan.segments.mode}", "segment of a tile", body),)

    def advance(self) -> Body:
        """To the next stage, and after the last one to the next phase."""
        return (
            Let("stage", "1", "+"),
            If("stage == STAGES", (Let("stage, phase", "cutlass.Int32(0), 1 - phase"),)),
        )

    def stack(self, side: Side) -> str:
        return stack_name(self.plan.spec, side.tensors)

    def place_of_piece(self) -> Body:
        """Where a piece of 64 rows and COLUMNS columns is, in pieces."""
        columns = f"({self.own_n} // COLUMNS)"
        row = "row * CONSUMERS + group" if self.plan.share_tiles else "row"
        both: Body = (Let("row, column", f"piece // {columns}, piece % {columns}"),)
        if self.plan.varies(self.own_n, "COLUMNS"):  # names that are too long for one line
            both = (Let("row", f"piece // {columns}"), Let("column", f"piece % {columns}"))
        return (
            *both,
            *self.in_turns((Let("row", f"m_tile * (BLK_{self.M} // 64) + {row}"),)),
            Let("column", f"n_tile * {columns} + column"),
        )
