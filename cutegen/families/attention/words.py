"""Words that the schedules of contractions have alike, with what is said of them."""

from __future__ import annotations

from typing import Literal

Math = Literal["precise", "fast"]
MATH_SAYS = (
    "How `exp` of f32 is computed: `precise`: as CUDA's expf, to 2 ulp; `fast`: as 2 to a power that is "
    "rounded first, with a third of the instructions; the error grows by one ulp per unit of the argument's "
    "magnitude, and results of 16 bits are multiplied by the inverse of a sum of exponentials. Left out: `fast`, as "
    "factors of 16 bits hide the error."
)
STAGES_SAYS = "Tiles of the walked mode that shared memory holds, of each tensor that is multiplied."
