"""Copy atoms: what they move, from where to where, and how wide one access may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

CopyAtomName = Literal["universal", "cp_async"]
Fallback = Literal["narrow", "refuse"]
EvictPriority = Literal["evict_normal", "evict_first", "evict_last", "evict_unchanged", "no_allocate"]  # PTX's names
WIDTHS = (8, 16, 32, 64, 128)  # bits of one access
MBARRIER = 8  # bytes in shared memory of a barrier on which asynchronous copies arrive


@dataclass(frozen=True)
class CopyAtom:
    """One copy instruction of CuTe: `bits` are the widths of one access of a thread."""

    name: CopyAtomName
    says: str
    bits: tuple[int, ...]


ATOMS: dict[CopyAtomName, CopyAtom] = {
    atom.name: atom
    for atom in (
        CopyAtom("universal", "is a load and store through registers", WIDTHS),
        CopyAtom("cp_async", "copies global to shared memory without registers", (32, 64, 128)),
    )
}
COPY_ATOMS: tuple[CopyAtomName, ...] = get_args(CopyAtomName)
FALLBACK_SAYS = (
    "Calls whose sizes, strides or addresses do not allow accesses of `bits`: `narrow`: accesses of one element, "
    "or, in a `rowwise` kernel with rows of any length, of 32 bits if aligned; `refuse`: an error. Left out: "
    "`narrow`, unless `align`, `divisible` and `static` promise that all calls fit."
)
COPY_ATOM_SAYS = f"Copy atom: {', '.join(f'`{atom.name}` {atom.says}' for atom in ATOMS.values())}."
