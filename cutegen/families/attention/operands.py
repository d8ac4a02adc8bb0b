"""The tensors that a contraction multiplies and stores row by row, and what is inferred of them, for every skeleton."""

from __future__ import annotations

from collections.abc import Mapping
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
    (outer,) = found.outer
    assert outer.product is not None
    output = next(t for t in spec.outputs if found.columns in t.shape)
    left, right, values = (spec.tensor(name) for name in (found.scores.a, found.scores.b, outer.product.b))
    return left, right, values, output


def depths(found: Walked) -> tuple[str, str, str, str]:
    """The contiguous modes of the tensors of `operands_of`."""
    return (found.scores.mode, found.scores.mode, found.columns, found.columns)


def with_tensors(spec: KernelSpec, found: Walked, report: Report) -> KernelSpec:
    """The spec with majornesses, alignments and targets filled in."""
    moved = {t.name: mode for t, mode in zip(operands_of(spec, found), depths(found), strict=True)}
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
    sizes = [spec.static.get(mode, 0) for mode in (found.scores.mode, found.columns)]
    return all(size % UNIT == 0 and 2 * UNIT <= size <= MOST_DEPTH for size in sizes)
