"""Words that the schedules of contractions have alike, with what is said of them."""

from __future__ import annotations

from typing import Literal

Math = Literal["precise", "fast"]
MATH_SAYS = (
    "How `exp` and `tanh` of f32 are computed: `precise`: as CUDA's expf and tanhf, to 2 ulp; `fast`: `exp` as 2 to a "
    "power that is rounded first, with a third of the instructions, and an error that grows by one ulp per unit of the "
    "argument's magnitude; `tanh` by such a power, to 1.5e-6; elements are multiplied by the reciprocals of scalars, "
    "and results of 16 bits by that of a sum of exponentials. Left out: `fast`, as factors of 16 bits hide the error."
)
STAGES_SAYS = "Tiles of the walked mode that shared memory holds, of each tensor that is multiplied."
