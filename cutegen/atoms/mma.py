"""Mma atoms: the multiply-accumulate instructions that a product's schedule can name.

A new one is named here, and in the `OWN_ATOMS` of the families whose templates print it (their `schedule.py`): what a
spec may say, and what it then gets, is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from cutegen.dtypes import Dtype

MmaAtomName = Literal["fma", "mma_sync", "wgmma", "tcgen05"]


@dataclass(frozen=True)
class FusedSum:
    """How a tensor core adds products where it keeps fewer bits than the accumulator's type has.

    One instruction adds `terms` products to an accumulator. All of these are aligned to the largest one, and `bits`
    places are kept, including the leading one; lower bits of each term are truncated. Their sum is cut to as many bits,
    or to `result`, where that is given. So a sum is exact where no term and no sum has more bits, as of small integers.
    """

    terms: int
    bits: int
    result: int | None = None

    @property
    def result_bits(self) -> int:
        """The bits that the sum is cut to, including the leading one."""
        return self.bits if self.result is None else self.result

    @property
    def whole_bits(self) -> int:
        """The bits up to which sums of integers are exact, in any order."""
        return min(self.bits, self.result_bits)


HOPPER_F8 = FusedSum(terms=32, bits=14)
"""wgmma of floats of 8 bits, which PTX leaves open (PTX ISA 9.1, section 9.7.15.5.2). As tests on hardware found:

- DeepSeek-V3 Technical Report (arXiv 2412.19437), section 3.5.2: the 32 products of an instruction are shifted right to
  the largest exponent, of each the highest 14 bits are added, and the accumulator has as many;
- P. Xie et al., MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores (arXiv 2511.10909): the
  accumulator is aligned with the products, all are cut toward zero to 13 bits behind the point of the largest exponent,
  and the result is cut to a fraction of 13 bits, equal to hardware in each bit.
"""

ADA_F8 = FusedSum(terms=16, bits=14)
"""mma.sync of floats of 8 bits on sm_89, likewise left open (PTX ISA 9.1, section 9.7.14.5.14): an m16n8k32 is two such
sums, one behind the other. So found P. Xie et al. (above), whose model is equal to hardware in each bit; sums of the
later targets' mma.sync have all bits of f32 there.
"""
ADA = "sm_89"

_BLACKWELL = FusedSum(terms=32, bits=26, result=24)
_OF_4_BITS = FusedSum(terms=64, bits=36, result=24)
BLACKWELL_SUMS: Mapping[str, FusedSum] = MappingProxyType(
    {
        "f16": replace(_BLACKWELL, terms=16),
        "tf32": replace(_BLACKWELL, terms=8),
        "f8f6f4": _BLACKWELL,
        "mxf8f6f4": _BLACKWELL,
        "mxf4": _OF_4_BITS,
        "mxf4nvf4": _OF_4_BITS,
    }
)
"""The sums in f32 of tcgen05.mma, by its kind, which PTX leaves open (PTX ISA 9.1, section 9.7.16).

P. Xie et al. (above) fitted this to a B200: all products of an instruction and the accumulator are cut toward zero to
25 bits behind the point of the largest exponent, or to 35 of scaled elements of 4 bits, and their sum is cut to the 24
bits of f32. This repository has never compared it with a GPU.
"""


@dataclass(frozen=True)
class SumOrder:
    """In which order a kernel sums along k by instructions of such sums, each of as many neighbours as it has terms.

    The last instruction ends with k, if `ends_whole`, so that the first may have fewer terms; else the first begins
    with k, and the last may have fewer. Of `shares` blocks each sums a share of the tiles of `tile` elements along k,
    from zero, and what they have is added in f32: that with the number i begins at the tile i / shares of all.
    """

    fused: FusedSum
    ends_whole: bool = False
    shares: int = 1
    tile: int = 1


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
        MmaAtom(
            "tcgen05", "products of one thread on Blackwell's tensor cores, executed on the CPU only", (Dtype.f32,)
        ),
    )
}
