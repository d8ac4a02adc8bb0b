"""The keys that the schedules of all gemms share, and quantities read from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from cutegen.atoms.mma import ATOMS, MmaAtomName
from cutegen.language.kinds import ByName, Choice, Integer, key
from cutegen.language.model import Schedule, Tensor

MAX_EXTENT = 65536  # of a tile along one mode: more never fits shared memory
SWIZZLES = (128, 64, 32)  # bytes, over which runs of 16 bytes exchange their places


class GemmWords(Schedule):
    """The schedule of a gemm; each family's dataclass has records of its own at these keys, in an order of its own."""

    if TYPE_CHECKING:

        @property
        def tiler(self) -> Mapping[str, int] | None: ...
        @property
        def mma(self) -> Any: ...
        @property
        def copies(self) -> Mapping[str, Any]: ...
        @property
        def smem(self) -> Mapping[str, Any]: ...
        @property
        def pipeline(self) -> Any: ...
        @property
        def predication(self) -> Mapping[str, Any]: ...
        @property
        def scheduler(self) -> Any: ...


def atom_key(own: tuple[MmaAtomName, ...]) -> Any:
    """The key of the mma's atom, which is one of those that a family's templates print."""
    return key(Choice(own), f"{'; '.join(f'`{name}`: {ATOMS[name].says}' for name in own)}.")


def tiler_key() -> Any:
    """The key of the tile of a block."""
    each = ByName(Integer(), "Elements along this mode.", least=1)
    return key(each, "Size of a block's tile along M, N and K.")


class Wide(Protocol):
    """How a tensor moves: `bits` of one access."""

    @property
    def bits(self) -> int | None: ...


def tile_of(schedule: GemmWords, mode: str) -> int:
    """Elements of a block's tile along a mode."""
    assert schedule.tiler is not None
    return schedule.tiler[mode]


def vector_of(copy: Wide, tensor: Tensor) -> int:
    """Elements of one access to a tensor."""
    assert copy.bits is not None
    return max(1, copy.bits // tensor.dtype.bits)
