"""The plan of a row kernel: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tensor_layouts import Layout

from cutegen.families.common.pointwise import WORD, Operand
from cutegen.families.rowwise.flat import flat
from cutegen.families.rowwise.rows import RESIDENT, sms_for, whole_tensors
from cutegen.families.rowwise.schedule import Keep, Spec
from cutegen.families.rowwise.walks import Program
from cutegen.planning.plan import Plan

ROOMY = 256  # threads of a block, of which several run on a multiprocessor and have registers to spare
SPARE = 16  # values of a thread, of each of several tensors that broadcast
FULL = 32  # the same of threads that are a power of two, without masks: measured level with fewer values
CROWD = 8  # bytes: two registers
COLUMN_WARPS, MANY_COLUMN_WARPS, MANY_COLUMN_ROWS = 8, 32, 256


def barriers_of(program: Program, cluster: int, persistent: bool) -> tuple[int, int]:
    """How often the blocks of a cluster meet for a row, and how many barriers there are for each time: what says that
    all have arrived and, where the next row's follow, what says that all was read.
    """
    return (program.meetings, 2 if persistent else 1) if cluster > 1 else (0, 0)


@dataclass(frozen=True, kw_only=True)
class RowwisePlan(Plan):
    """A row kernel: which rows a block has, how their threads share them, and what they compute in which walk."""

    row: str  # the mode of the rows, in `flat`
    beside: str | None  # the mode along which a block has several rows
    cluster: int  # thread blocks that share a row
    keep: Keep
    kept: tuple[str, ...]  # the tensors whose part of a row waits in shared memory
    slots: int  # pieces of a row that shared memory has room for; 0 without
    row_stages: int  # rows that shared memory has room for: 2 where the next one is copied there meanwhile
    fewer_threads: bool  # whether a launch gives shorter rows fewer threads, and a block more rows of them
    longer: RowwisePlan | None  # that walks rows which no block holds, if this one leaves them to another kernel
    ahead: bool  # whether the next rows are loaded into registers while a block computes on its own
    tiler: tuple[int, ...]  # of the lead's modes, what one thread block has
    rows: int  # of a block
    threads_per_row: int
    values: int  # of a row that a thread holds at a time
    vector: int  # values of one access, that share a predicate
    tv_layout: Layout  # (thread, value) to a place of the tile, first mode fastest
    operands: tuple[Operand, ...]  # the tensors along the rows
    row_tensors: tuple[str, ...]  # those that are read and do not lie along the rows
    partial: tuple[str, ...]  # those that are read at some of the modes that a row is made of
    masked: tuple[str, ...]
    tile_order: tuple[int, ...]  # modes but the row's, in the order in which blocks walk them
    program: Program
    blocks: int | None  # that walk all tiles; None: one for each tile
    most_tiles: int | None  # that 32 bits can count; None if the sizes are fixed, and fewer
    any_cluster: bool = False  # whether its functions take the size of the cluster, as where cases differ in it alone

    @property
    def cluster_text(self) -> str:
        """The size of the cluster in functions; empty without one."""
        return "" if self.cluster == 1 else "CLUSTER_SIZE" if self.any_cluster else "CLUSTER"

    @property
    def results_text(self) -> str:
        """How many results the warps of a row leave in shared memory, those of all blocks of a cluster."""
        if not self.any_cluster:
            return str(self.warps_per_row * self.cluster)
        return f"{self.warps_per_row} * CLUSTER_SIZE" if self.warps_per_row > 1 else "CLUSTER_SIZE"

    @cached_property
    def flat(self) -> Spec:
        """The spec with a row of one mode: `spec` itself, where a row has no more."""
        return flat(self.spec)

    @property
    def word(self) -> int:
        """Elements of an access of 32 bits to the narrowest of the tensors that have all modes, where calls that the
        wide accesses do not fit may have such accesses; 0 where these are of one element.

        It is 0 where the size of a row is fixed, which the wide accesses fit; only addresses and strides may not.
        """
        if not self.flat.schedule.narrows or not self.fewer_threads or self.kept or self.row in self.flat.static:
            return 0
        word = WORD // min(t.dtype.bits for t in whole_tensors(self.flat))
        return word if 1 < word < self.vector else 0

    @property
    def chooses_threads(self) -> bool:
        """Whether a launch chooses how many threads of one block share a row, in blocks that end with their rows."""
        return self.fewer_threads and not self.persistent and self.cluster == 1

    @property
    def fewer_values(self) -> int:
        """Values of a thread in the launches for rows that as many threads hold with three quarters of `values`, whose
        threads would have a quarter or more of their values out of bounds; 0 where there are none.

        Kernels whose threads meet once for a row are bound by memory, and gain nothing.
        """
        if (
            not self.chooses_threads
            or self.walked
            or self.row in self.flat.static
            or self.warps_per_row == 1
            or self.program.meetings < 2
        ):
            return 0
        return self.values * 3 // 4 if self.values % (4 * self.vector) == 0 else 0

    @property
    def narrow_values(self) -> int:
        """Values of a thread where accesses are of words or of single elements: half of `values`. There are more
        addresses and predicates then, which take registers, and with half the values more threads fit a multiprocessor.

        Kernels that store nothing along the row keep all values: they wait for loads, and have more of them under way.
        """
        applies = self.flat.schedule.narrows and self.chooses_threads and any(o.write for o in self.operands)
        if not applies or self.row in self.flat.static or self.kept:
            return self.values
        if self.longer is None and not self.walked:  # for rows that so many threads would not hold
            return self.values
        return self.values // 2 if self.values % (2 * self.vector) == 0 else self.values

    @property
    def is_crowded(self) -> bool:
        """Whether what broadcasts takes `CROWD` bytes of registers and more for each value of one row.

        The compiler loads it early where it may, and then fewer threads fit a multiprocessor: a layer norm with f32
        weights took 94 registers instead of 64, and 1.1 times as long on an H200.
        """
        read = [o for o in self.operands if o.read]
        broadcast = sum(o.tensor.dtype.bytes for o in read if o.broadcast)
        held = self.chooses_threads and not self.walked and self.longer is not None
        return held and sum(not o.broadcast for o in read) == 1 and broadcast >= CROWD

    @property
    def values_differ(self) -> bool:
        """Whether launches differ in how many values a thread has."""
        return bool(self.fewer_values) or self.narrow_values != self.values

    @property
    def values_text(self) -> str:
        """The kernel's name for a thread's number of values: a constant, or a parameter where launches differ in it."""
        return "OWN_VALUES" if self.values_differ else "VALUES"

    @property
    def walked(self) -> bool:
        """Whether a row is walked in pieces."""
        return self.keep != "registers"

    @property
    def kept_once(self) -> tuple[str, ...]:
        """Those of `kept` that are the same for all rows, and are brought to shared memory once."""
        others = len(self.tiler) - 1
        fixed = {o.tensor.name for o in self.operands if others and len(o.broadcast) == others}
        return tuple(name for name in self.kept if name in fixed)

    @property
    def warps(self) -> int:
        """Of a block, at most."""
        return -(-self.threads // 32)

    @property
    def broadcasts_early(self) -> bool:
        """Whether what broadcasts is loaded with the rows themselves, by threads that have registers to spare."""
        several = sum(o.read and bool(o.broadcast) for o in self.operands) > 1
        whole = self.row not in self.masked and self.threads_per_row & (self.threads_per_row - 1) == 0
        many = several and self.values > SPARE and not (whole and self.values == FULL)
        return self.threads <= ROOMY and not (many and self.cluster == 1)

    @property
    def row_tile(self) -> int:
        """Elements of a row that the blocks which share it have at a time."""
        return self.tile[self.row] * self.cluster

    @property
    def persistent(self) -> bool:
        """Whether a block walks several tiles of rows."""
        return self.blocks is not None

    def blocks_with(self, threads: int) -> int:
        """How many blocks of so many threads walk all rows at most; where launches choose, the larger the fewer."""
        assert self.blocks is not None
        if not self.fewer_threads:
            return self.blocks
        each = sms_for(self.cluster) * max(1, RESIDENT // threads)
        return min(self.blocks, each) // self.cluster * self.cluster

    @property
    def column_warps(self) -> int:
        """Of a block that adds up what all blocks have of 32 columns."""
        return MANY_COLUMN_WARPS if self.fewer_threads and self.column_rows > MANY_COLUMN_ROWS else COLUMN_WARPS

    @property
    def column_rows(self) -> int:
        """Rows of a workspace for what is reduced over the rows: of each block or cluster, those that it sums apart."""
        return (self.blocks or self.cluster) // self.cluster * self.summed_apart

    @property
    def summed_apart(self) -> int:
        """Rows that a block sums apart; where launches choose how many it has, it adds them up itself."""
        return 1 if self.fewer_threads else self.rows

    @property
    def column_unit(self) -> int:
        """The divisor of the rows of that workspace."""
        if self.fewer_threads:
            return min(32, self.threads_per_row) * self.values * self.cluster
        return self.tile[self.row] if self.walked else self.row_tile

    @property
    def barriers(self) -> tuple[int, int]:
        """Barriers in shared memory by which the blocks of a cluster meet: how often they do, and kinds of them."""
        return barriers_of(self.program, self.cluster, self.persistent)

    @property
    def warps_per_row(self) -> int:
        """Of one block."""
        return -(-self.threads_per_row // 32)
