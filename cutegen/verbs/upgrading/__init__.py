"""`cutegen verify --with`: kernels in an environment with other packages beside this one, and what changes there.

`environments` makes and keeps such environments, `survey` finds what kernels are in one, `comparing` holds two surveys
against each other. Both sides run this very cutegen: only what it imports from other packages may differ.
"""

from __future__ import annotations
