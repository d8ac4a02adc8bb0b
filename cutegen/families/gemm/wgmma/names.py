"""Names that the kernel of a warp-specialised gemm has already, besides what every kernel has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cutegen.codegen.variables import Variables
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.names import reserved_made_of

LOCALS = frozenset(
    {
        "acc",
        "before",
        "bits",
        "brought",
        "buffer",
        "by_band",
        "by_last",
        "by_matrix",
        "box",
        "clusters",
        "column",
        "empty",
        "every_column",
        "every_row",
        "exchange",
        "first",
        "full",
        "group",
        "i",
        "k_block",
        "k_first",
        "k_tile",
        "k_tiles",
        "m_tile",
        "multiprocessors",
        "n_tile",
        "op",
        "other",
        "own",
        "part",
        "part_mma",
        "parts",
        "peer",
        "phase",
        "piece",
        "place",
        "places",
        "read",
        "rotation",
        "row",
        "rows",
        "sent",
        "share",
        "slot",
        "source",
        "stage",
        "stage_bytes",
        "stages",
        "step",
        "sums",
        "theirs",
        "thr",
        "thr_columns",
        "thr_mma",
        "thr_tile",
        "tidx",
        "tile",
        "tile_coordinate",
        "tile_mma",
        "tiled_mma",
        "tiles",
        "tiles_m",
        "tiles_n",
        "turn",
        "used",
        "vector",
        "warp",
        "warp_idx",
        "words",
        "x",
        "y",
        "z",
    }
)
"""Variables of the kernel, which no scalar may be called, as it keeps its name there."""

_MADE = (local[1:] for local in (*LOCALS, "smem", "slices") if local[0] in "gms")
TAKEN = frozenset(name for name in _MADE if reserved_made_of(name) is None)
"""Tensors whose names would make the kernel's own with a letter before, such as slot, besides those of every module."""

BATCH_LOCALS = frozenset({"l_tile", "tiles_l"})
"""Those besides of a kernel with a batch."""

SEGMENT_LOCALS = frozenset(
    {
        *("count_tiles", "end", "ends", "find_segment", "first_row", "in_rows", "segment", "segment_edges"),
        *("segment_rows", "start", "tiles_before", "to_rows"),
    }
)
"""Those besides of a kernel whose rows are cut into segments."""

SCALE_LOCALS = frozenset(
    {
        *("CHUNK", "acc_block", "added", "chunk", "count", "found", "k", "l_next", "layout", "m_next", "n_next"),
        *("next_A", "next_B", "products", "row_block", "scales", "thr_rows", "add_scaled", "load_scales_A"),
        *("load_scales_B", "multiply_scales", "tile_places"),
    }
)
"""Those besides of a kernel whose operands have scales."""

CONSTANTS = frozenset(
    {
        "BAND",
        "BLOCKS",
        "BUFFERS",
        "CLUSTERS",
        "CLUSTER_K",
        "CLUSTER_M",
        "CLUSTER_N",
        "COLUMNS",
        "CONSUMERS",
        "MOST_TILES",
        "PARTS",
        "PIECES",
        "PRODUCTS",
        "SENT_BYTES",
        "SOURCES",
        "SOURCE_BYTES",
        "STAGE_BYTES",
    }
)
"""Constants of the module besides those that every kernel has."""

_OF_TENSORS = (
    *("tma_{}", "tma_tensor_{}", "parts_{}", "mask_{}", "from_s{}", "to_g{}", "g{}_pieces", "s{}_layout"),
    *("thr_store_{}", "tiled_store_{}", "thr_load_{}", "tiled_load_{}", "to_s{}", "from_g{}", "of_columns_{}"),
    *("cut_store_{}", "thr_cut_{}", "from_cut_{}", "places_{}", "g{}_piece"),
    *("s{}", "g{}", "boxes_{}", "first_{}", "rows_{}", "s{}_boxes", "BOX_{}", "BOX_BYTES_{}"),
)

IMPORTS = ("OperandMajorMode", "cpasync", "warp", "warpgroup")
"""Names that the module imports besides those of every module, and that the kernel refers to."""


def own_names(
    tensors: Iterable[Tensor],
    modes: Iterable[str],
    stacked: Iterable[str],
    batched: bool,
    cut: bool = False,
    scaled: bool = False,
) -> set[str]:
    """All names that the kernel has, with tensors, modes of these names, and operands that are side by side, of a
    batch, of rows that are cut into segments, or of operands with scales.
    """
    columns = {f"OWN_{mode.upper()}" for mode in modes}
    more = {*(BATCH_LOCALS if batched else ()), *(SEGMENT_LOCALS if cut else ()), *(SCALE_LOCALS if scaled else ())}
    return {*LOCALS, *IMPORTS, *more, *CONSTANTS, *made_of(tensors), *columns, "_".join(stacked)}


def made_of(tensors: Iterable[Tensor]) -> Iterator[str]:
    """Yields the kernel's names for values derived from tensors: two sets for an output that is also read."""
    stems = (stem for t in tensors for stem in (t.name, *[f"{t.name}_in"] * (t.reads and t.writes)))
    return (pattern.format(stem) for stem in stems for pattern in _OF_TENSORS)


def stack_name(spec: KernelSpec, tensors: Sequence[Tensor]) -> str:
    """The kernel's name for the shared memory of an operand: its tensor's, or joined from all that lie side by side."""
    names = [tensor.name for tensor in tensors]
    return names[0] if len(names) == 1 else Variables(spec).free("_".join(names))


def source_name(tensor: Tensor) -> str:
    """The stem of the kernel's names for a tensor that the epilogue reads: its name, for an output with `_in` added."""
    return f"{tensor.name}_in" if tensor.writes else tensor.name


def names_by_role(
    spec: KernelSpec, operands: tuple[Sequence[Tensor], Sequence[Tensor]], modes: tuple[str, str]
) -> dict[str, str]:
    """Maps names in the kernel's text so that A and B, M and N are those of the product: the names of each operand and
    mode become the other's, as do the letters in comments. `operands` and `modes` are those of the product.
    """
    (a, b), output = (stack_name(spec, tensors) for tensors in operands), spec.output.name
    patterns = ("{}", *_OF_TENSORS, "m{}", "t{}s{}", "t{}g{}", f"t{output}r{{}}", "MASK_{}", "KIND_{}")
    pairs = [(p.replace("{}", a), p.replace("{}", b)) for p in patterns]
    m, n = (mode.upper() for mode in modes)
    pairs += [(p.format(m), p.format(n)) for p in ("{}", "BLK_{}", "OWN_{}")]
    return dict(pairs) | {other: one for one, other in pairs}
