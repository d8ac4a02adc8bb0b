"""A family that lives outside of cutegen, whose warps have roles: the largest score of every row of a product.

A warp loads, four multiply and reduce. It shares no file with the families of cutegen.
"""

from __future__ import annotations

from toy_roles.family import BestFamily

FAMILY = BestFamily()
