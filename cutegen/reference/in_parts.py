"""Parts of what a spec computes that do not depend on each other, each evaluated for itself.

What is computed of a part fits the caches, and what is not ordinary, such as a row with a NaN, is together with little
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cutegen.language.model import KernelSpec
from cutegen.reference.asked import op_of

ELEMENTS = 1 << 16
"""Of a part, about; of fewer, what each operation takes besides its elements would count."""
GPU_ELEMENTS = 1 << 24
"""The same on a GPU, where an operation on fewer takes as long as its launch."""


def parts(spec: KernelSpec, sizes: Mapping[str, int], on_gpu: bool = False) -> tuple[str, list[range]]:
    """The mode along which a call is cut, and the coordinates of each part; none where it is not cut. `sizes` are those
    of the modes of its tensors, which are on a GPU or not.

    It is the first one of all that are computed apart that there are many of, so that parts have long rows.
    """
    lead, apart = spec.lead.shape, op_of(spec).apart(spec)
    whole = prod(sizes.get(mode, 1) for mode in lead)
    elements = GPU_ELEMENTS if on_gpu else ELEMENTS
    wanted = whole // elements
    free = [mode for mode in lead if mode in apart and sizes.get(mode, 1) > 1]
    if wanted < 2 or not free:
        return "", []
    mode = next((m for m in free if sizes[m] >= wanted), max(free, key=lambda m: sizes[m]))
    step = max(1, sizes[mode] * elements // whole)
    return mode, [range(start, min(start + step, sizes[mode])) for start in range(0, sizes[mode], step)]
