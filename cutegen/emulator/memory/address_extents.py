"""From where to where the addresses of lanes lie, found once for accesses that differ in their offsets only."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.lanes import Mask, spread


class AddressExtents:
    """The extents that were last found for an address: over all lanes, and over those of a mask."""

    def __init__(self) -> None:
        self._of_all: tuple[Array, int, int, int] | None = None
        self._of_some: tuple[Array, Array, int, int, int] | None = None

    def of(self, address: Array, mask: Mask) -> tuple[int, int, int]:
        """The lowest and the highest address that lanes of the mask have, and the bits that any of these has."""
        if mask is None:
            if self._of_all is None or self._of_all[0] is not address:
                bits = int(np.bitwise_or.reduce(address, axis=None))
                self._of_all = (address, int(address.min()), int(address.max()), bits)
            return self._of_all[1:]
        if self._of_some is None or self._of_some[0] is not address or self._of_some[1] is not mask:
            wide = np.broadcast_shapes(address.shape, mask.shape)
            used = spread(address, wide)[spread(mask, wide)]
            bits = int(np.bitwise_or.reduce(used))
            self._of_some = address, mask, int(used.min()), int(used.max()), bits
        return self._of_some[2:]
