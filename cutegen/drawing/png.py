"""Figures as PNG: their SVG, rasterised with a font that is always there, so that all machines draw alike."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from cutegen.drawing.model import Figure
from cutegen.drawing.svg import render_svg

ZOOM = 2.0  # pixels of the image to one of the SVG: sharp on today's screens and slides


def render_png(figure: Figure) -> bytes:
    """The figure as a PNG file, with twice the SVG's pixels."""
    return rasterise(render_svg(figure))


def rasterise(svg: str) -> bytes:
    """An SVG document as a PNG file, with twice its pixels."""
    import resvg_py

    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg,
            zoom=ZOOM,
            skip_system_fonts=True,
            font_files=[_font()],
            font_family="DejaVu Sans",
            sans_serif_family="DejaVu Sans",
        )
    )


@lru_cache(maxsize=1)
def _font() -> str:
    """The path of the font DejaVu Sans, which the package ziafont carries."""
    return str(resources.files("ziafont") / "fonts" / "DejaVuSans.ttf")
