"""Static analysis of a plan, before anything is compiled: which threads access which elements, and at what cost.

Lint, the proofs of `explain` and pictures use it. Everything is a pure function of the plan.
"""

from __future__ import annotations

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import accesses
from cutegen.analysis.memory import Conflicts, Sectors, conflicts, sectors

__all__ = ["Access", "Conflicts", "Sectors", "accesses", "conflicts", "sectors"]
