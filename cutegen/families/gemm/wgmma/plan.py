"""The plan of a warp-specialised gemm: every number and choice that its templates print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.families.common.pointwise import Operand, PointwisePlan
from cutegen.families.gemm.wgmma.names import names_by_role
from cutegen.families.gemm.wgmma.product import GRANULE, ROWS, peers_of, piece_bytes, sent_bytes
from cutegen.families.gemm.wgmma.scales import Scale
from cutegen.language.model import Tensor
from cutegen.language.modes import Segments
from cutegen.planning.row_copies import RowCopies


@dataclass(frozen=True)
class Side:
    """A or B on its way from global memory to the product; of several products all that are side by side."""

    tensors: tuple[Tensor, ...]
    letter: str  # A or B: CuTe's name for it
    mode: str  # M or N, in the spec's own name
    block: int  # extent of the tile along `mode`, of each tensor
    k_major: bool
    swizzle: int  # bytes
    shared_by: int = 1  # blocks of a cluster that one load serves
    box: int | None = None  # elements of one load along `mode`; None: of the whole tile

    @property
    def tensor(self) -> Tensor:
        """The first, which the others are like."""
        return self.tensors[0]

    @property
    def box_bytes(self) -> int:
        """The bytes, for 1 along k, of one box of all tensors."""
        return (self.box or 0) * len(self.tensors) * self.tensor.dtype.bytes

    @property
    def extent(self) -> int:
        """Of the tile in shared memory along `mode`."""
        return len(self.tensors) * self.block

    @property
    def majorness(self) -> str:
        """As CuTe names it."""
        return "K" if self.k_major else "MN"


@dataclass(frozen=True)
class Passing:
    """An output on its way from registers through shared memory, from where a tensor map stores it; or a tensor that
    the epilogue reads, on its way there.
    """

    tensor: Tensor
    n_major: bool
    swizzle: int  # bytes

    @property
    def matrices(self) -> bool:
        """Whether stmatrix writes it to shared memory, and ldmatrix reads it: values of 16 bits; others are moved in
        pairs or alone.
        """
        return self.tensor.dtype.bits == 16


def is_held(operand: Operand, n: str) -> bool:
    """Whether a thread loads this operand once for all its columns along n: it is constant there."""
    dtype = operand.tensor.dtype
    whole = dtype.is_float and dtype.bits > 8  # others have registers of their own kind
    return whole and operand.read and not operand.write and n not in operand.tensor.shape


def is_by_columns(operand: Operand, m: str, n: str) -> bool:
    """Whether a thread loads this operand once for all its rows along m: it is constant there."""
    dtype, shape = operand.tensor.dtype, operand.tensor.shape
    whole = dtype.is_float and dtype.bits > 8
    return whole and operand.read and not operand.write and n in shape and m not in shape


@dataclass(frozen=True, kw_only=True)
class WarpspecializedPlan(PointwisePlan):
    """A gemm whose first warpgroup loads and whose others multiply."""

    m: str
    n: str
    k: str
    batch: str | None  # the mode of the batch, of which a tile has one matrix
    segments: Segments | None  # that rows are cut into: a tile has rows of one, which it multiplies by its matrix
    a: Side
    b: Side
    consumers: int  # warpgroups that multiply
    pingpong: bool  # whether these have tiles in turn, not parts of one
    in_turn: bool  # whether they also store in turn, through the same buffers
    cluster: tuple[int, int]  # blocks along m and n
    split: int  # blocks along k
    passing: tuple[Passing, ...]  # outputs that go through shared memory
    sources: tuple[Passing, ...]  # tensors that the epilogue reads from there, loaded by a warp of each warpgroup
    columns: int  # of the tile that are stored at a time, of those outputs, and read
    buffers: int  # of each warpgroup for that, or of all that store in turn
    source_buffers: int  # of each warpgroup for what its epilogue reads
    shares_buffers: bool  # whether these lie where a warpgroup had what other blocks of a cluster along k sent it
    persistent: bool  # whether blocks walk all tiles; else there are as many as tiles
    blocks: int | None  # that walk these, at most; None: as many as run at once on the GPU of the call
    dependent: bool  # whether blocks start before the kernel before them in the stream has ended
    band: int  # tiles of a cluster across the raster that are walked together
    producer_registers: int  # of a thread
    consumer_registers: int
    in_flight: int  # tiles along k whose products are under way when the next one is waited for
    stage_bytes: int  # that a barrier expects of the loads of one tile
    empty_sum: bool  # whether there may be no tile along k, so that accumulators are cleared
    padded: tuple[Tensor, ...]  # which calls bring to a workspace, or from there, where tensor maps do not take them
    row_copies: RowCopies | None  # the kernel that copies those
    rows_masked: bool  # whether what a thread holds of its rows is loaded under predicates of its own
    tile_order: tuple[int, int]  # modes of the output: that of the raster, then the other
    scale_a: Scale | None = None  # of A, one for each block along k
    scale_b: Scale | None = None
    chunk: int = 0  # columns of the tile that share a scale of B
    fields: frozenset[str] | None = None  # constants that its functions take as fields of one parameter, so that cases
    # which differ in these alone share them; None: it shares no functions
    told: frozenset[str] = frozenset()  # those of them that tell it from kernels of other forms, which it shares them
    # with, too

    def varies(self, *names: str) -> bool:
        """Whether one of these constants is a field of that parameter."""
        return self.fields is not None and not self.fields.isdisjoint(names)

    def number(self, name: str, value: object) -> str:
        """The text of a number in the functions: its name where it is a field of their parameter, else its value."""
        return name if self.varies(name) else str(value)

    @property
    def scaled(self) -> bool:
        """Whether operands have scales, by which the products of each step along k are multiplied."""
        return self.scale_a is not None or self.scale_b is not None

    @property
    def chunks(self) -> int:
        """How often the columns of the tile have another scale of B."""
        return self.tile[self.n] // self.chunk

    @property
    def any_consumers(self) -> bool:
        """Whether its functions serve any number of warpgroups that share a tile."""
        return not self.pingpong and self.varies("CONSUMERS")

    @property
    def tells(self) -> Mapping[str, str]:
        found = {"CLUSTER_K": str(self.split), "PEERS": str(self.peers), "PINGPONG": str(self.pingpong)}
        return found if self.products > 1 else found | {"EXCHANGED": str(self.exchanged)}

    @property
    def by_role(self) -> Mapping[str, str]:
        if not (self.any_rows and self.exchanged):
            return {}
        return names_by_role(self.spec, (self.a.tensors, self.b.tensors), (self.m, self.n))

    @property
    def any_split(self) -> bool:
        """Whether its functions serve clusters along k of one block and of several."""
        return "CLUSTER_K" in self.told

    @property
    def any_peers(self) -> bool:
        """Whether its functions serve blocks that load for each other and those that load alone."""
        return "PEERS" in self.told

    @property
    def any_turns(self) -> bool:
        """Whether its functions serve warpgroups that share a tile and those that have tiles in turn."""
        return "PINGPONG" in self.told

    @property
    def any_rows(self) -> bool:
        """Whether its functions serve rows of the product that are rows of the output and those that are columns."""
        return "EXCHANGED" in self.told

    @property
    def sharing(self) -> str:
        """The constant that counts the warpgroups which share a tile."""
        return "GROUPS" if self.any_turns else "CONSUMERS"

    @property
    def several(self) -> bool:
        """Whether its functions serve several warpgroups that multiply."""
        return self.consumers > 1 or self.any_consumers

    @property
    def of_all(self) -> str:
        """The text of a thread's number among those that share a tile."""
        if self.any_consumers or self.any_turns:
            return f"tidx - 128 if cutlass.const_expr({self.sharing} > 1) else thr"
        return "thr" if self.groups == 1 else "tidx - 128"

    @property
    def share_tiles(self) -> bool:
        """Whether its functions serve several warpgroups that share a tile."""
        return self.groups > 1 or self.any_consumers

    @property
    def exchanged(self) -> bool:
        """Whether rows of the product are columns of the output."""
        return self.m != self.spec.output.shape[-2]

    def has_batch(self, tensor: Tensor) -> bool:
        """Whether a tensor has a matrix for each one of a batch, or for each segment."""
        return (self.batch if self.segments is None else self.segments.of) in tensor.shape

    def is_cut(self, tensor: Tensor) -> bool:
        """Whether the rows of a tensor are cut into segments."""
        return self.segments is not None and self.segments.mode in tensor.shape

    @property
    def matrix_place(self) -> str:
        """The variable with the number of the matrix, of a batch or of the segments, that a tile is of."""
        return "l_tile" if self.segments is None else "segment"

    def batches(self, sizes: Mapping[str, int]) -> int:
        """Matrices of the output for the size of every mode."""
        return 1 if self.batch is None else sizes[self.batch]

    @property
    def products(self) -> int:
        """Matrix products that are made at once."""
        return len(self.a.tensors) * len(self.b.tensors)

    @property
    def groups(self) -> int:
        """Warpgroups that share the rows of a tile."""
        return 1 if self.pingpong else self.consumers

    @property
    def storing(self) -> int:
        """Warpgroups that have buffers of outputs of their own."""
        return 1 if self.in_turn else self.consumers

    @property
    def row_blocks(self) -> int:
        """Blocks of 64 rows that a warpgroup has of the tile of each product."""
        return self.tile[self.m] // (ROWS * self.groups)

    @property
    def cluster_tile(self) -> tuple[int, int]:
        """Elements along m and n of the tiles of a cluster's blocks together."""
        return self.tile[self.m] * self.cluster[0], self.tile[self.n] * self.cluster[1]

    @property
    def beyond(self) -> tuple[str, ...]:
        """The modes, of m and n, of a fixed size that one piece of a tile holds while a cluster has more of them: CuTe
        gives those beyond the coordinate of the first.
        """
        units = {self.m: [self.tile[self.m]], self.n: [self.own_columns]}
        if self.passing:
            units = {self.m: [ROWS, *units[self.m]], self.n: [self.columns, *units[self.n]]}
        extents = zip((self.m, self.n), self.cluster_tile, strict=True)
        fixed = ((mode, extent, self.spec.static[mode]) for mode, extent in extents if mode in self.spec.static)
        return tuple(mode for mode, extent, size in fixed if any(size <= unit < extent for unit in units[mode]))

    @property
    def cluster_size(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.split

    @property
    def meets_late(self) -> bool:
        """Whether blocks of a cluster need each other for nothing but their sums, once: they meet when these are made,
        and a block that has got all has no more to do with the others.
        """
        return self.split > 1 and self.peers == 1 and not self.persistent

    @property
    def sent_bytes(self) -> int:
        """Bytes that the other blocks of a cluster along k send to one, of each tile."""
        return (self.split - 1) * self.consumers * sent_bytes(self.spec)

    @property
    def own_columns(self) -> int:
        """Columns of the tile that a block stores: all, unless others of its cluster have a part of its sum."""
        return self.tile[self.n] // self.split

    @property
    def peers(self) -> int:
        """Blocks that load into the shared memory of one."""
        return peers_of(self.spec)

    def served(self, side: Side) -> int:
        """The blocks of the cluster that a load of an operand serves, as bits: those of the first block's load."""
        m, n = self.cluster
        # Blocks of a cluster are numbered along m first: those with the same rows are m apart
        return sum(1 << i * m for i in range(n)) if side.letter == "A" else (1 << m) - 1

    @property
    def parts(self) -> int:
        """Slices of the epilogue in what a warpgroup stores at a time through shared memory."""
        return self.columns // GRANULE

    @property
    def pieces(self) -> int:
        """Pieces that a warpgroup stores of its rows of a tile through shared memory."""
        return self.row_blocks * (self.own_columns // self.columns) if self.columns else 0

    @property
    def rotates(self) -> bool:
        """Whether a tile ends between buffers of its output, so that the next one begins with another buffer."""
        return bool(self.passing) and self.pieces % self.buffers > 0 and not self.in_turn

    def held(self, operand: Operand) -> bool:
        """Whether a thread loads this operand once for all its columns: it is constant there."""
        return is_held(operand, self.n)

    def by_columns(self, operand: Operand) -> bool:
        """Whether a thread loads the epilogue's operands of each piece once for all its rows."""
        return bool(self.passing) and is_by_columns(operand, self.m, self.n)

    def passes(self, tensor: Tensor) -> bool:
        """Whether an output goes through shared memory."""
        return any(x.tensor.name == tensor.name for x in self.passing)

    def comes(self, tensor: Tensor) -> bool:
        """Whether tensor maps load the epilogue's part of a tensor to shared memory."""
        return any(x.tensor.name == tensor.name for x in self.sources)

    @property
    def source_bytes(self) -> int:
        """Bytes that a barrier expects for the epilogue's operands of one piece."""
        return sum(piece_bytes(self.spec, x.tensor) for x in self.sources)

    def accessed(self, operand: Operand) -> bool:
        """Whether threads access a tensor itself, value by value, from or to their registers."""
        kept = self.held(operand) or self.by_columns(operand)
        loaded = operand.read and not kept and not self.comes(operand.tensor)
        return loaded or (operand.write and not self.passes(operand.tensor))

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b
