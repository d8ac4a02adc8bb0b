"""A rule on fixed sizes with more tiles than a grid can count."""

from __future__ import annotations

from cutegen.families.common.raster import most_across
from cutegen.language.model import KernelSpec
from cutegen.lint.rule import Say


def across(spec: KernelSpec, say: Say, mode: str, tile: int) -> None:
    """A fixed size needs no more tiles across the raster than a grid has blocks along y."""
    limit, found = most_across(spec), -(-spec.static.get(mode, 0) // tile)
    if found > limit:
        notes = (f"ceil({spec.static[mode]} / {tile}) = {found} > {limit}",)
        message = f"the fixed size of {mode} makes {found} tiles, and a grid has {limit} at most"
        say(message, "static", mode, notes=notes, help=f"`{mode}: {limit * tile}` is the most")
