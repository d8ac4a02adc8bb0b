"""Figures as the bytes of files, by how a file's name ends."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.drawing.model import Figure

ONE_EACH = (".svg", ".png")  # kinds that hold one figure
KINDS = (*ONE_EACH, ".txt")
PLAIN_WIDTH = 120  # characters of a line


def render(figures: Sequence[Figure], kind: str) -> bytes:
    """Some figures as a file of one of `KINDS`; just one where the kind holds no more."""
    if kind == ".txt":
        from cutegen.drawing.text import render_text

        pages = ("\n".join(line.plain.rstrip() for line in render_text(figure, PLAIN_WIDTH)) for figure in figures)
        return "\n\n\n".join(pages).encode() + b"\n"
    (figure,) = figures
    if kind == ".png":
        from cutegen.drawing.png import render_png

        return render_png(figure)
    from cutegen.drawing.svg import render_svg

    return render_svg(figure).encode()
