"""One self-contained HTML page a kernel: its pictures beside the generated code, each linked to the other's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from cutegen.analysis.proof import prove
from cutegen.analysis.report_text import as_lines
from cutegen.codegen import Module, Region
from cutegen.drawing.asked import family_of
from cutegen.drawing.colours import OKABE_ITO, ink_on
from cutegen.drawing.model import Figure, Subject, Timeline
from cutegen.drawing.svg import BARE_ALONE, BARE_HALF, BARE_WIDTH, GAP, arrow_room, fitted, panel_elements, svg_text
from cutegen.language.writer import write_spec

MARKS = (*OKABE_ITO[:6], "#666666", "#000000")  # yellow would be lost beside code
LEAST_SCALE = 0.75  # of a picture on a narrow screen: then it scrolls, so that its text stays legible


@dataclass(frozen=True)
class Place:
    """A range of lines of the module, counted from 1, both ends included."""

    first: int
    last: int
    name: str


@dataclass(frozen=True)
class Picture:
    name: str
    title: str
    svgs: tuple[str, ...]  # of panels
    arrows: tuple[str, ...]
    room: int  # pixels from a panel to the next one
    width: int  # that its panels take side by side
    least: int  # and those that they take if they are as small as can be read
    legend: str  # the title; empty if there is none
    apart: bool
    swatches: tuple[tuple[str, str, str], ...]  # colour, ink, text
    remarks: tuple[str, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Line:
    """A line of code as HTML, and the numbers of the pictures that it belongs to."""

    html: str
    figures: tuple[int, ...]


def render_page(module: Module, figures: Sequence[Figure]) -> str:
    """The page of a generated module with these pictures of it, which `draw_kernel` makes."""
    spec, plan = module.spec, module.plan
    places = [places_of(figure, module.regions) for figure in figures]
    pictures = [_picture(figure, mine) for figure, mine in zip(figures, places, strict=True)]
    html, style = _highlighted(module.text)
    lines = [
        Line(line, tuple(i for i, mine in enumerate(places) if any(p.first <= number <= p.last for p in mine)))
        for number, line in enumerate(html, 1)
    ]
    facts = [*family_of(spec).facts(plan), ("targets", ", ".join(spec.targets))]
    sizes = [spec.static] if set(spec.modes) <= set(spec.static) else []
    template = _environment().get_template("page.html.j2")
    return template.render(
        kernel=spec.kernel,
        summary=spec.summary,
        compute=spec.compute.text,
        facts=facts,
        pictures=pictures,
        colours=[MARKS[i % len(MARKS)] for i in range(len(pictures))],
        file=module.name,
        lines=lines,
        start=next((region.first_line for region in module.regions if region.name == "kernel"), 1),
        code_style=style,
        spec=write_spec(spec),
        proof="\n".join(as_lines(prove(plan, sizes))),
    )


def places_of(figure: Figure, regions: Sequence[Region]) -> tuple[Place, ...]:
    """The regions that a figure shows, in the order of the text, without those inside of others."""
    return _places(figure.subjects, regions) or _places(figure.shared, regions)


def _places(subjects: Sequence[Subject], regions: Sequence[Region]) -> tuple[Place, ...]:
    """The regions that are some subjects, as `places_of` has them."""
    found: list[Place] = []
    for region in regions:
        shown = any(
            region.path[: len(subject.path)] == subject.path and subject.name in (None, region.name)
            for subject in subjects
        )
        if shown and not (found and found[-1].first <= region.first_line <= found[-1].last):
            found.append(Place(region.first_line, region.last_line, region.name))
    return tuple(found)


def _picture(figure: Figure, places: tuple[Place, ...]) -> Picture:
    """A picture of the page: its panels are scaled down where there is less room, but stay large enough to be read."""
    alone = BARE_ALONE / LEAST_SCALE if isinstance(figure.panels[0], Timeline) else BARE_ALONE  # ends are not cut off
    figure = fitted(figure, BARE_WIDTH if len(figure.panels) > 1 else alone, BARE_HALF)
    elements = panel_elements(figure)
    widths = [float(element.get("width", "0")) for element in elements]
    for element, width in zip(elements, widths, strict=True):
        element.set("style", f"width: {width:.0f}px; min-width: {LEAST_SCALE * width:.0f}px")
    room = arrow_room(figure) if figure.arrows else GAP
    between = room * (len(elements) - 1)
    legend = figure.legend
    shown = legend.swatches if legend is not None else ()
    return Picture(
        figure.name,
        figure.title,
        tuple(map(svg_text, elements)),
        figure.arrows,
        round(room),
        round(sum(widths) + between),
        round(LEAST_SCALE * sum(widths) + between),
        legend.title if legend is not None else "",
        legend is not None and legend.apart,
        tuple((figure.palette[s.colour], ink_on(figure.palette[s.colour]), s.text) for s in shown),
        figure.remarks(),
        places,
    )


def _highlighted(text: str) -> tuple[list[str], str]:
    """The lines of a module as HTML, and the style they need."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    formatter = HtmlFormatter(nowrap=True)
    html = highlight(text, PythonLexer(stripnl=False), formatter)
    return html.rstrip("\n").split("\n"), str(formatter.get_style_defs(".code"))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("cutegen.drawing", "page"),
        undefined=StrictUndefined,
        autoescape=True,
        keep_trailing_newline=True,
    )
