"""Exit codes: 0 all well; 1 findings; 2 wrong use or broken input; and those of what ends a verb from outside."""

from __future__ import annotations

OK, FINDINGS, BROKEN, DEFECT, INTERRUPTED, PIPE = 0, 1, 2, 70, 130, 141
