"""Bounds within which a schedule can be counted through.

Inference enumerates layouts, which a hostile or mistyped size would make endless. Unsound fields stay as they were
written, and lint's first rules report them: they report every spec that is not sound.
"""

from __future__ import annotations

from tensor_layouts import Layout, size

from cutegen import layouts

MAX_THREADS = 1024  # of a block, on every GPU so far
MAX_VALUES = 1024  # of a thread that copies or accumulates them: every access is unrolled


def deals_out(layout: Layout, limit: int) -> bool:
    """Whether a layout numbers at most `limit` coordinates 0, 1, ... without gaps or repetitions."""
    return int(size(layout)) <= limit and layouts.is_permutation(layout)
