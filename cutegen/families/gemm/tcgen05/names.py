"""Names that the kernel of a gemm on Blackwell's tensor cores has already, besides what every kernel has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cutegen.language.model import Tensor
from cutegen.language.names import reserved_made_of

LOCALS = frozenset(
    {
        *("acc", "empty", "fragment", "from_columns", "full", "grid_l", "grid_m", "grid_n", "held", "k_block"),
        *("k_tile", "k_tiles", "l_tile", "load_atom", "m_tile", "n_tile", "op", "part", "phase", "pieces", "places"),
        *("ready", "stage", "stages", "sums", "thr_load", "thr_mma", "tidx", "tiled_load", "tiled_mma"),
        *("tmem", "vector", "warp_idx"),
    }
)
"""Variables of the kernel, which no scalar may be called, as it keeps its name there."""

_MADE = (local[1:] for local in (*LOCALS, "smem", "slices") if local[0] in "gms")
TAKEN = frozenset(name for name in _MADE if reserved_made_of(name) is None)
"""Tensors whose names would make the kernel's own with a letter before, besides those of every module."""

CONSTANTS = frozenset({"COLUMNS", "LOADER", "MULTIPLIER", "STAGE_BYTES"})
"""Constants of the module besides those that every kernel has."""

_OF_TENSORS = ("tma_{}", "tma_tensor_{}", "s{}_layout", "s{}", "g{}", "c{}", "acc_{}", "sums_{}", "from_columns_{}")

IMPORTS = ("OperandMajorMode", "cpasync", "make_tiled_tma_atom_A", "make_tiled_tma_atom_B", "tcgen05")
"""Names that the module imports besides those of every module, and that the kernel refers to."""


def own_names(tensors: Iterable[Tensor]) -> set[str]:
    """All names that the kernel has, with tensors of these names."""
    return {*LOCALS, *IMPORTS, *CONSTANTS, *made_of(tensors)}


def made_of(tensors: Iterable[Tensor]) -> Iterator[str]:
    """The kernel's names for values derived from tensors."""
    return (pattern.format(t.name) for t in tensors for pattern in _OF_TENSORS)
