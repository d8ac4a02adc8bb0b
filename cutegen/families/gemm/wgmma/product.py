"""The schedule of a warp-specialised gemm, as questions that planning, lint and analysis ask of it."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tensor_layouts import Layout

from cutegen.dtypes import Dtype
from cutegen.families.gemm.wgmma.schedule import MOST_STAGES, Spec, WarpspecializedSchedule
from cutegen.families.gemm.words import MAX_EXTENT, SWIZZLES, tile_of
from cutegen.language.model import Tensor
from cutegen.language.modes import Segments
from cutegen.planning.batches import batch_of
from cutegen.planning.promises import fitting_elements, known_divisor
from cutegen.remembering import remembers

TARGET = "sm_90a"  # which has wgmma
ROWS = 64  # of one wgmma
WARPGROUP = 128  # threads
BESIDE = 26  # registers of a consumer besides its accumulators: addresses, descriptors, a slice of the epilogue
SWIZZLE_ROWS = 8  # after which a swizzle repeats
SWIZZLED = 1024  # bytes, at multiples of which swizzled tiles stand: after eight lines the swizzle repeats
COLUMNS, MOST_COLUMNS = 8, 256  # of one wgmma: a multiple of, and at most
DEPTH_BYTES = 32  # of one wgmma along k
ALIGN = 16  # bytes: of the address of what a tensor map describes, and of its rows
GRANULE = 16  # columns that one stmatrix writes of 16 rows: pieces of outputs are multiples of it
PASSING_BITS = (16, 32)  # of the elements of outputs that go through shared memory
MOST_BUFFERS = 4  # of a warpgroup for its epilogue, beyond which more gain nothing
ROLES = ("producer", "consumer")


class Product(NamedTuple):
    """The matrix product a [m, k] times b [n, k] transposed as wgmma makes it: its operands, and its modes.

    These are A and B of the spec, or B and A, where rows of the product are columns of the output. Several products of
    one A are made as one, whose tile has the tiles of every B side by side.
    """

    a: tuple[Tensor, ...]
    b: tuple[Tensor, ...]
    m: str
    n: str
    k: str
    batch: str | None = None  # the mode of the batch, if there is one
    segments: Segments | None = None  # of the rows of A, each of which is multiplied by a matrix of its own of B

    @property
    def modes(self) -> tuple[str, str, str]:
        return self.m, self.n, self.k

    @property
    def sides(self) -> tuple[tuple[Tensor, str], ...]:
        """Every operand with its mode of the output."""
        return (*((tensor, self.m) for tensor in self.a), *((tensor, self.n) for tensor in self.b))

    @property
    def stacked(self) -> tuple[Tensor, ...]:
        """The operands that are side by side, one for each product."""
        return max(self.a, self.b, key=len)

    @property
    def dtype(self) -> Dtype:
        """The type of the first operand."""
        return self.a[0].dtype


@remembers(64)
def product_of(spec: Spec) -> Product:
    """The matrix product of a spec."""
    products = spec.compute.products
    a: tuple[Tensor, ...] = (spec.tensor(products[0].a),)
    b = tuple(spec.tensor(product.b) for product in products)
    if spec.schedule.mma.rows == b[0].shape[-2]:
        a, b = b, a
    batch = batch_of(spec.output)
    return Product(a, b, a[0].shape[-2], b[0].shape[-2], a[0].shape[-1], batch, spec.segments)


def exchanged(spec: Spec) -> bool:
    """Whether A and B have exchanged their parts: rows of the product are columns of the output."""
    return product_of(spec).m != spec.output.shape[-2]


def groups_of(schedule: WarpspecializedSchedule) -> int:
    """Warpgroups that share the rows of a tile: all that multiply, or one where two take turns with whole tiles."""
    return 1 if schedule.warps.roles == "pingpong" else schedule.warps.consumers or 1


def rows_of(spec: Spec) -> int:
    """Rows of the tile that one warpgroup multiplies, of all products."""
    return len(product_of(spec).a) * tile_of(spec.schedule, product_of(spec).m) // groups_of(spec.schedule)


def columns_of(spec: Spec) -> int:
    """Columns of one wgmma: those of the tile, of all products."""
    return len(product_of(spec).b) * tile_of(spec.schedule, product_of(spec).n)


def cluster_of(spec: Spec) -> tuple[int, int]:
    """Blocks of a cluster along m and n."""
    product, cluster = product_of(spec), spec.schedule.cluster
    return cluster.get(product.m, 1), cluster.get(product.n, 1)


def split_of(spec: Spec) -> int:
    """Blocks of a cluster along k: each has a part of the sum of one tile, and stores a part of its columns."""
    return spec.schedule.cluster.get(product_of(spec).k, 1)


def size_of(spec: Spec) -> int:
    """Blocks of a cluster."""
    return prod(cluster_of(spec)) * split_of(spec)


def own_columns(spec: Spec) -> int:
    """Columns of the output's tile that a block stores: all, unless others of its cluster have a part of the sum."""
    return tile_of(spec.schedule, product_of(spec).n) // split_of(spec)


def lacked(spec: Spec, tensor: Tensor) -> str:
    """The mode of the output that an operand lacks: blocks of a cluster along it multiply the same of the operand."""
    product = product_of(spec)
    return product.n if tensor in product.a else product.m


def shared_by(spec: Spec, tensor: Tensor) -> int:
    """Blocks of a cluster that one load of an operand serves."""
    copy = spec.schedule.copies.get(tensor.name)
    multicast = copy is not None and copy.multicast == "cluster"
    return spec.schedule.cluster.get(lacked(spec, tensor), 1) if multicast else 1


def box_unit(spec: Spec, tensor: Tensor) -> int:
    """The number that divides the extent of a box: the rows after which a swizzle repeats if the operand is contiguous
    along k, else the elements that a row of the swizzle spans.
    """
    if tensor.major == product_of(spec).k:
        return SWIZZLE_ROWS
    smem = spec.schedule.smem.get(tensor.name)
    return ((smem and smem.swizzle) or 128) // tensor.dtype.bytes


def passing(spec: Spec) -> tuple[Tensor, ...]:
    """The outputs that go through shared memory and are stored by tensor maps."""
    return tuple(t for t in spec.assigned if (copy := spec.schedule.copies.get(t.name)) and copy.through == "smem")


def read_beside(spec: Spec) -> tuple[Tensor, ...]:
    """The tensors that the epilogue reads, with what is read of the outputs."""
    operands = [tensor for tensor, _ in product_of(spec).sides]
    operands += [spec.tensor(name) for product in spec.compute.products for name, _ in product.scales]
    return tuple(t for t in spec.tensors if t.reads and t not in operands)


def sources(spec: Spec) -> tuple[Tensor, ...]:
    """The tensors that the epilogue reads from shared memory, where tensor maps bring them; of outputs those that pass
    it and are read before.
    """
    copies = spec.schedule.copies
    return tuple(t for t in read_beside(spec) if (copy := copies.get(t.name)) and copy.through == "smem")


def peers_of(spec: Spec) -> int:
    """Blocks that load into the shared memory of one."""
    product = product_of(spec)
    return shared_by(spec, product.a[0]) + shared_by(spec, product.b[0]) - 1


def stands_anywhere(spec: Spec, tensor: Tensor) -> bool:
    """Whether a call brings a tensor to a workspace, or from there, where it does not stand as tensor maps take it."""
    copy = spec.schedule.copies.get(tensor.name)
    return copy is not None and copy.misaligned == "workspace"


def pieces(spec: Spec) -> int:
    """Pieces that a warpgroup stores of its rows of a tile through shared memory."""
    rows = tile_of(spec.schedule, product_of(spec).m) // (ROWS * groups_of(spec.schedule))
    columns = piece_columns(spec)
    return rows * (own_columns(spec) // columns) if columns else 0


def piece_columns(spec: Spec) -> int:
    """Columns that a warpgroup stores at a time of the outputs that go through shared memory, and reads of other
    tensors.
    """
    return max((spec.schedule.copies[t.name].columns or 0 for t in passing(spec)), default=0)


def piece_bytes(spec: Spec, tensor: Tensor) -> int:
    """Bytes of shared memory of what a warpgroup stores, or reads, at a time of a tensor."""
    return ROWS * piece_columns(spec) * tensor.dtype.bytes


def piece_swizzle(tensor: Tensor, n: str, columns: int) -> int | None:
    """The widest swizzle, in bytes, that divides the rows of a tensor's piece in shared memory."""
    extent = (columns if tensor.major == n else ROWS) * tensor.dtype.bytes
    return next((width for width in SWIZZLES if extent % width == 0), None)


def threads_of(schedule: WarpspecializedSchedule) -> int:
    """Threads of a block: a warpgroup that loads, and those that multiply."""
    return WARPGROUP * (1 + (schedule.warps.consumers or 0))


def swizzle_of(schedule: WarpspecializedSchedule, tensor: Tensor) -> int:
    found = schedule.smem[tensor.name].swizzle
    assert found is not None
    return found


def contiguous_bytes(spec: Spec, tensor: Tensor, mode: str) -> int:
    """Bytes of an operand's tile along the mode in which it is contiguous; `mode` is that which it shares with the
    output.
    """
    along = product_of(spec).k if tensor.major == product_of(spec).k else mode
    return tile_of(spec.schedule, along) * tensor.dtype.bytes


def in_turn(spec: Spec) -> bool:
    """Whether warpgroups take turns with their epilogues, too, and so share the buffers of outputs."""
    return spec.schedule.warps.turns == "all"


def source_buffers(spec: Spec) -> int:
    """Buffers of each warpgroup for what its epilogue reads: as many as the output has if it is read, and few
    otherwise, unless other tensors set the number.
    """
    found = {t: spec.schedule.copies[t.name].stages or 1 for t in sources(spec)}
    own = [stages for tensor, stages in found.items() if not tensor.writes]
    return max(own or [min(MOST_BUFFERS, stages) for stages in found.values()], default=0)


def sent_bytes(spec: Spec) -> int:
    """Bytes that a warpgroup sends to one other block of a cluster along k, of each tile."""
    return accumulators(spec) // split_of(spec) * WARPGROUP * Dtype.f32.bytes


def shared_buffers(spec: Spec) -> int | None:
    """Buffers of an output that lie where a warpgroup had what other blocks sent it; None where they cannot.

    A cluster that takes one tile needs that no more once it is added; one that takes another is sent the next.
    """
    through = passing(spec)
    if split_of(spec) == 1 or len(through) != 1 or spec.schedule.scheduler.kind != "grid":
        return None
    piece = piece_bytes(spec, through[0])
    sent = (split_of(spec) - 1) * sent_bytes(spec)
    return sent // piece if piece and sent % piece == 0 and sent // piece <= MOST_STAGES else None


def shares_buffers(spec: Spec) -> bool:
    """Whether buffers of the output lie where what other blocks sent was: all of these, in each warpgroup's part."""
    buffers = shared_buffers(spec)
    return buffers is not None and spec.schedule.copies[passing(spec)[0].name].stages == buffers


def accumulators(spec: Spec) -> int:
    """Accumulators of a thread: its part of the rows of its warpgroup, of all products."""
    return rows_of(spec) * columns_of(spec) // WARPGROUP


def most_vector(spec: Spec) -> int:
    """Elements of the output that a thread may store at once: it has pairs of neighbours along n.

    One that goes through shared memory is not stored by threads, which load other tensors as they would store it.
    """
    output, n = spec.output, product_of(spec).n
    paired = output.major == n and known_divisor(spec, n) % 2 == 0
    return (2 if output in passing(spec) else min(2, fitting_elements(spec, output))) if paired else 1


def vector_of(spec: Spec) -> int:
    """Elements of one access to the output."""
    bits = spec.schedule.copies[spec.output.name].bits
    assert bits is not None
    return max(1, bits // spec.output.dtype.bits)


def accumulator_layout(groups: int, columns: int, strides: tuple[int, int], blocks: int = 1) -> Layout:
    """(thread, value) of the warpgroups that share a tile of (64 groups blocks, columns) to its places, of those
    strides.

    A thread has rows lane / 4 and 8 below of its warp's 16, and pairs of columns (PTX ISA 9.1, section 9.7.15.5.1.1);
    the `blocks` of 64 rows of a warpgroup lie as far apart as the groups have rows together.
    """
    m, n = strides
    sizes, steps = (2, 2, columns // 8), (n, 8 * m, 8 * n)
    more, apart = ((blocks,), (ROWS * groups * m,)) if blocks > 1 else ((), ())
    return Layout(((4, 8, 4 * groups), (*sizes, *more)), ((2 * n, m, 16 * m), (*steps, *apart)))


def row_layout(groups: int, stride: int, blocks: int = 1) -> Layout:
    """(thread, value) of the same warpgroups to their threads' rows, which are `stride` apart."""
    rows, apart = ((2, blocks), (8 * stride, ROWS * groups * stride)) if blocks > 1 else ((2,), (8 * stride,))
    return Layout(((4, 8, 4 * groups), rows), ((0, stride, 16 * stride), apart))


def column_layout(groups: int, columns: int, stride: int, blocks: int = 1) -> Layout:
    """(thread, value) of the same warpgroups to their threads' columns, which are `stride` apart, for each of the
    `blocks` of rows again.
    """
    again, apart = ((blocks,), (0,)) if blocks > 1 else ((), ())
    return Layout(((4, 8, 4 * groups), (2, columns // 8, *again)), ((2 * stride, 0, 0), (stride, 8 * stride, *apart)))


def is_sound(spec: Spec) -> bool:
    """Whether the tile is one that warpgroups can make; what is not filled in yet passes."""
    schedule, product = spec.schedule, product_of(spec)
    tiler, consumers = schedule.tiler or {}, schedule.warps.consumers
    if max(tiler.values(), default=0) > MAX_EXTENT:
        return False
    m, n, k = (tiler.get(mode) for mode in (product.m, product.n, product.k))
    unit = DEPTH_BYTES // product.dtype.bytes
    fits_m = m is None or m % (ROWS * groups_of(schedule)) == 0
    fits_n = n is None or (n % (COLUMNS * split_of(spec)) == 0 and n * len(product.b) <= MOST_COLUMNS)
    paired = schedule.warps.roles != "pingpong" or consumers in (None, 2)
    return fits_m and fits_n and paired and (k is None or k % unit == 0)


def is_finished(spec: Spec) -> bool:
    """Whether planning could fill in everything."""
    schedule, product = spec.schedule, product_of(spec)
    known = all(t.name in schedule.smem and schedule.smem[t.name].swizzle for t in (*product.a, *product.b))
    return is_sound(spec) and known and schedule.pipeline.stages is not None and pieces_fit(spec)


def pieces_fit(spec: Spec) -> bool:
    """Whether the tile is whole pieces of the outputs that go through shared memory, all of as many columns."""
    columns = {spec.schedule.copies[t.name].columns for t in passing(spec)}
    tile = own_columns(spec)
    return len(columns) < 2 and all(c and c % GRANULE == 0 and tile % c == 0 for c in columns)
