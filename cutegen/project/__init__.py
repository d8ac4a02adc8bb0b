"""A project on disk: its spec files, the modules and receipts that they stand for, and how these differ from the files.

`select` finds specs, `gather` generates their modules in memory, `compare_all` holds modules and receipts to the disk,
`write_all` writes files, all of them or none.
"""

from __future__ import annotations
