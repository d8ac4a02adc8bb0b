"""From spec files to generated files: which specs, how the files on disk differ, and writing all of them or none.

`select` finds specs, `gather` generates their modules in memory, `compare` holds them to the disk, `build` checks and
writes them.
"""

from __future__ import annotations
