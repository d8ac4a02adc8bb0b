"""The tensors that a contraction multiplies and stores row by row, and what is inferred of them, for every skeleton."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutegen.atoms.targets import TARGETS
from cutegen.expressions.places import parts_of
from cutegen.language.model import KernelSpec, Tensor
from cutegen.ops.walked import Walked
from cutegen.planning.report import Report
from cutegen.planning.targets import infer_targets

ACCESS = 16  # bytes that a thread copies at once, and that tensor maps start at multiples of
SWIZZLES = (128, 64, 32)  # bytes
UNIT = 16  # of the summed mode and of columns: what one product takes
MOST_DEPTH = 256


def operands_of(spec: KernelSpec, found: Walked) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The tensors of the scores, the one that is multiplied after them, and the output with columns."""
    outer = found.outer[0]
    assert outer.product is not None
    output = next(t for t in spec.outputs if found.columns in t.shape)
    left, right, values = (spec.tensor(name) for name in (found.scores.a, found.scores.b, outer.product.b))
    return left, right, values, output


def more_than_one(found: Walked, outputs: Sequence[Tensor]) -> str | None:
    """The part of statements that there is more than one of, as text: products, modes that are walked, outputs with
    columns, or uses of a tensor. None where they have one product of two tensors, one with what is computed of it, and
    one output of that.
    """
    if len(found.products) > 1:
        return f"{len(found.products)} products of two tensors"
    if len(found.outer) > 1:
        return f"{len(found.outer)} products along {found.walked}"
    if found.around:
        return f"sums along {' and '.join((found.walked, *found.around))}"
    product = found.outer[0].product
    if product is not None and product.b == found.scores.b:
        return f"two products with `{product.b}`"
    columns = [t.name for t in outputs if found.columns in t.modes]
    return None if len(columns) < 2 else f"{len(columns)} outputs of rows along {found.columns}"


def stored_with_columns(spec: KernelSpec, found: Walked) -> tuple[tuple[Tensor, str], ...]:
    """The outputs with columns and the modes of these, in the order of the outer products that they follow from."""
    pairs = []
    for one in found.outer:
        column = found.columns_of(one)
        of_it = (t for t in spec.outputs if column in t.shape and found.outer_of(t.name) is one)
        pairs += [(tensor, column) for tensor in of_it]
    return tuple(pairs)


def multiplied(found: Walked) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the tensors whose rows a block keeps, and of those of which it walks tiles."""
    lefts = dict.fromkeys(one.a for one in found.products)
    outer = (one.product.b for one in found.outer if one.product is not None)
    return (*lefts,), (*dict.fromkeys((*(one.b for one in found.products), *outer)),)


def vectors_of(spec: KernelSpec, found: Walked) -> tuple[Tensor, ...]:
    """The tensors of which a tile reads one vector along the walked mode, the same for all of its rows."""
    moved, others = moved_in_tiles(spec, found), {*found.rows, *found.every_columns}
    read = (tensor for tensor in spec.inputs if tensor.name not in moved)
    return tuple(x for x in read if found.walked in x.shape and others.isdisjoint(x.shape))


def taken_places(spec: KernelSpec, found: Walked) -> dict[str, str]:
    """The outputs whose tiles can take the places of tiles of left tensors at the end, each with that tensor: its rows
    have as many bytes.
    """
    depths, taken = moved_in_tiles(spec, found), dict[str, str]()
    lefts, _ = multiplied(found)
    for output, column in stored_with_columns(spec, found):
        size = spec.static[column] * output.dtype.bytes
        alike = (x for x in lefts if spec.static[depths[x]] * spec.tensor(x).dtype.bytes == size)
        if (left := next((x for x in alike if x not in taken.values()), None)) is not None:
            taken[output.name] = left
    return taken


def moved_in_tiles(spec: KernelSpec, found: Walked) -> dict[str, str]:
    """The tensors that are multiplied, and the outputs with columns, by their names: each with its contiguous mode."""
    depths = {name: one.mode for one in found.products for name in (one.a, one.b)}
    for one in found.outer:
        assert one.product is not None
        depths.setdefault(one.product.b, found.columns_of(one))
    return depths | {tensor.name: column for tensor, column in stored_with_columns(spec, found)}


def with_tensors(spec: KernelSpec, found: Walked, report: Report) -> KernelSpec:
    """The spec with majornesses, alignments and targets filled in."""
    moved = moved_in_tiles(spec, found)
    tensors = []
    for tensor in spec.tensors:
        if tensor.major is None and tensor.modes:
            major = moved.get(tensor.name, tensor.contiguous)
            tensor = replace(tensor, major=major)
            report.infer("rows are copied whole" if tensor.name in moved else "the last mode", *_at(tensor, "major"))
        if tensor.align is None:
            align = ACCESS if tensor.name in moved else tensor.dtype.bytes
            tensor = replace(tensor, align=align)
            report.infer("one 128-bit access" if tensor.name in moved else "one element", *_at(tensor, "align"))
        tensors.append(tensor)
    return infer_targets(replace(spec, tensors=tuple(tensors)), report)


def _at(tensor: Tensor, field: str) -> tuple[str, ...]:
    return ("tensors", tensor.name, field)


def extents(spec: KernelSpec, found: Walked) -> tuple[int, int]:
    """Rows and walked elements of a tile."""
    tiler = spec.schedule.tiler
    assert tiler is not None
    return tiler[rows_key(tiler, found)], tiler[found.walked]


def rows_key(tiler: Mapping[str, int], found: Walked) -> str:
    """The key of a tiler for the rows of a tile: their mode, or several as one by `joined`."""
    return next((key for key in tiler if parts_of(key)[0] == found.rows[0]), found.rows[0])


def least_room(spec: KernelSpec) -> tuple[str, int]:
    """The target with the least shared memory of a block, and how much that is."""
    target = min((TARGETS[name] for name in spec.targets if name in TARGETS), key=lambda one: one.smem_per_block)
    return target.name, target.smem_per_block


def swizzle_of(depth: int, width: int) -> int:
    """The bytes of rows in shared memory, of tensors with rows of so many elements of `width` bytes."""
    return next(one for one in SWIZZLES if depth * width % one == 0)


def is_fixed(spec: KernelSpec, found: Walked) -> bool:
    """Whether rows have sizes that products and registers take."""
    sizes = [spec.static.get(mode, 0) for mode in found.depths]
    return all(size % UNIT == 0 and 2 * UNIT <= size <= MOST_DEPTH for size in sizes)
