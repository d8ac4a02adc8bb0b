"""A kernel's page: self-contained, sound HTML, and every link between pictures and code is true."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html import escape
from html.parser import HTMLParser

import pytest
from drawing_kit import module
from plain_family import plain_plan
from specs_kit import ROOT
from sweep_kit import sampled

from cutegen.drawing.kernels import draw_kernel
from cutegen.drawing.model import Figure, Grid
from cutegen.drawing.pages import places_of, render_page

SPECS = sampled(sorted(path.stem for path in (ROOT / "specs").glob("*.yaml")))
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Checks that tags close in order, and collects what the tests ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.code: list[str] = []  # lines
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if found.get("class") == "line":
            self.code.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.code and "aside" in self.open:
            self.code[-1] += data


@cache
def figures_of(spec: str) -> tuple[Figure, ...]:
    return draw_kernel(module(spec).plan)


@cache
def page(spec: str) -> tuple[str, Page]:
    of = module(spec)
    html = render_page(of, figures_of(spec))
    parsed = Page()
    parsed.feed(html)
    parsed.close()
    assert parsed.open == []
    return html, parsed


@pytest.mark.parametrize("spec", SPECS)
def test_a_page_asks_nobody_for_anything(spec: str) -> None:
    html, parsed = page(spec)
    assert set(re.findall(r"https?://[^\"' <]*", html)) <= {"http://www.w3.org/2000/svg"}
    for tag, attributes in parsed.elements:
        assert tag not in {"link", "iframe", "object", "embed", "img"} and "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert "@import" not in html and "url(" not in html


@pytest.mark.parametrize("spec", SPECS)
def test_the_code_on_a_page_is_the_module(spec: str) -> None:
    _, parsed = page(spec)
    lines = module(spec).text.rstrip("\n").split("\n")
    assert len(parsed.code) == len(lines)
    for number, (found, line) in enumerate(zip(parsed.code, lines, strict=True), 1):
        assert found.rstrip("\n") == f"{number}{line}"


@pytest.mark.parametrize("spec", SPECS)
def test_every_link_leads_somewhere(spec: str) -> None:
    _, parsed = page(spec)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [(attributes.get("href") or "")[1:] for tag, attributes in parsed.elements if tag == "a"]
    assert targets and set(targets) <= set(ids)


@pytest.mark.parametrize("spec", SPECS)
def test_a_picture_marks_the_lines_that_its_regions_hold(spec: str) -> None:
    of = module(spec)
    _, parsed = page(spec)
    marks = [attributes["data-figures"] for _, attributes in parsed.elements if attributes.get("class") == "line"]
    figures = figures_of(spec)
    for index, figure in enumerate(figures):
        own, shared = (
            [
                region
                for region in of.regions
                for subject in subjects
                if region.path[: len(subject.path)] == subject.path and subject.name in (None, region.name)
            ]
            for subjects in (figure.subjects, figure.shared)
        )
        regions = own or shared
        expected = {line for region in regions for line in range(region.first_line, region.last_line + 1)}
        assert expected, f"{figure.name} belongs to no line"
        assert expected == {line for line, mark in enumerate(marks, 1) if str(index) in (mark or "").split()}
        places = places_of(figure, of.regions)
        assert expected == {line for place in places for line in range(place.first, place.last + 1)}
        assert all(a.last < b.first for a, b in zip(places, places[1:], strict=False))


def test_pictures_of_the_gemm_stand_at_what_they_show() -> None:
    of = module("sgemm_mmajor")
    lines = of.text.split("\n")
    figures = {figure.name: figure for figure in draw_kernel(of.plan)}

    def code(name: str) -> str:
        places = places_of(figures[name], of.regions)
        return "\n".join(line for place in places for line in lines[place.first - 1 : place.last])

    assert "grid_m, grid_n = cute.ceil_div" in code("tile-walk") and "bidx, bidy, _" in code("tile-walk")
    assert "cp_async_wait_group" in code("pipeline") and "smem_write = smem_read" in code("pipeline")
    assert "copy_tile(tiled_copy_A, tAgA, fetch, tAsA, smem_write, tApA)" in code("copy-a") and "tBsB" not in code(
        "copy-a"
    )
    assert "copy_tile(tiled_copy_B, tBgB, fetch, tBsB, smem_write, tBpB)" in code("copy-b")
    assert "sA = smem.allocate_tensor" in code("banks-a") and "tCrA[None, None, k_next]" in code("banks-a")
    assert "cute.gemm(" in code("accumulators") and "tiled_mma = cute.make_tiled_mma" in code("accumulators")


@pytest.mark.parametrize("spec", ["sgemm_mmajor", "add_tv", "probe_tv"])
def test_a_page_says_what_its_pictures_do_not(spec: str) -> None:
    of = module(spec)
    _, parsed = page(spec)
    text = " ".join(parsed.text.split())
    for figure in figures_of(spec):
        said = [remark for remark in figure.remarks() if not remark.endswith("are drawn.")]
        assert all(" ".join(remark.split()) in text for remark in (figure.title, *said))
    assert (
        of.spec.summary in text
        and of.spec.compute.text in text
        and f"threads{of.plan.threads}" in text.replace(" ", "")
    )
    assert "proof of " + of.spec.kernel in text


@pytest.mark.parametrize("spec", ["sgemm_mmajor", "copy_tv", "copy_inner_outer"])
def test_a_page_says_what_its_pictures_cut(spec: str) -> None:
    """A grid's last row and column have tooltips, or the page says beside it up to where it is drawn."""
    html, _ = page(spec)
    text = " ".join(re.sub("<svg.*?</svg>", "", html, flags=re.DOTALL).split())
    for figure in figures_of(spec):
        for panel in figure.panels:
            if isinstance(panel, Grid) and escape(panel.cells[-1][-1].about, quote=False) not in html:
                assert any(re.search(rf"0-\d+ of {axis.size} \({re.escape(axis.name)}\)", text)
                           for axis in (panel.rows, panel.columns))  # fmt: skip


def test_panels_stand_side_by_side_where_they_have_room() -> None:
    """From the width on that they take if they are as small as may be, and not below it."""
    html, _ = page("sgemm_mmajor")
    section = html[html.index('<section id="copy-a"') :]
    widths = [float(found) for found in re.findall(r"min-width: (\d+)px", section[: section.index("</section>")])]
    (room,) = re.findall(r"#copy-a \.arrow \{[^}]*width: (\d+)px", html)
    (least,) = re.findall(r"@container \(min-width: (\d+)px\) \{\s*#copy-a \.panels \{ flex-direction: row", html)
    assert len(widths) == 2 and abs(sum(widths) + float(room) - float(least)) <= 2
    assert "cp.async, 128 bits" in section


def test_pages_are_the_same_each_time() -> None:
    of = module("sgemm_mmajor")
    assert render_page(of, draw_kernel(of.plan)) == page("sgemm_mmajor")[0]


def test_a_kernel_without_pictures_has_a_page_of_its_code() -> None:
    plan = plain_plan()
    of = replace(module("copy_tv"), spec=plan.spec, plan=plan)
    assert draw_kernel(plan) == ()
    found = Page()
    found.feed(html := render_page(of, draw_kernel(plan)))
    assert (
        "tile of a block</dt><dd>32 M x 64 N" in html and "stages" not in html.split("<main>")[0].split("</style>")[1]
    )
    assert "<svg" not in html.split("</header>")[1] and 'id="L1"' in html
