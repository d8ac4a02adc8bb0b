"""What a plan does on the machine, before anything is compiled: who touches what, and what it costs.

Lint warns by it, `explain` proves by it, pictures show it. Everything is a pure function of the plan.
"""

from __future__ import annotations

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import accesses
from cutegen.analysis.memory import Conflicts, Sectors, conflicts, sectors

__all__ = ["Access", "Conflicts", "Sectors", "accesses", "conflicts", "sectors"]
