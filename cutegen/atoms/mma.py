"""Mma atoms: the multiply-accumulate instructions that a product's schedule can name.

A new one is named here, and in the `OWN_ATOMS` of the families whose templates print it (their `schedule.py`): what a
spec may say, and what it then gets, is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cutegen.dtypes import Dtype

MmaAtomName = Literal["fma", "mma_sync", "wgmma"]


@dataclass(frozen=True)
class MmaAtom:
    """One multiply-accumulate instruction, with the types that it can sum products in."""

    name: MmaAtomName
    says: str
    accumulators: tuple[Dtype, ...]


ATOMS: Mapping[MmaAtomName, MmaAtom] = {
    atom.name: atom
    for atom in (
        MmaAtom("fma", "scalar multiply-add on the CUDA cores", (Dtype.f32, Dtype.f64)),
        MmaAtom("mma_sync", "products of single warps on tensor cores, from Ampere on", (Dtype.f32,)),
        MmaAtom("wgmma", "products of four warps on Hopper's tensor cores", (Dtype.f32,)),
    )
}
