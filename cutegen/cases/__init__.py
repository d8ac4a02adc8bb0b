"""One kernel with several schedules: a family made of those that its cases have.

The rooms ask it like any other; what is known of a case, its own family says.
"""

from __future__ import annotations

from cutegen.cases.family import CasesFamily

FAMILY = CasesFamily()
