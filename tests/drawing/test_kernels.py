"""The pictures of kernels, held to what the kernels do: counted by hand, or step by step as the mainloop goes."""

from __future__ import annotations

import re
from html import escape
from xml.etree import ElementTree as ET

import pytest
from drawing_kit import SVG, cells, figure, gemm, grids, module
from hypothesis import HealthCheck, given, settings
from planning_specs import VALID
from rich.cells import cell_len
from specs_kit import ROOT
from sweep_kit import sampled

from cutegen.analysis import Access, accesses, conflicts
from cutegen.codegen import Module, generate
from cutegen.drawing.kernels import draw_kernel
from cutegen.drawing.model import Figure, Grid
from cutegen.drawing.pages import places_of
from cutegen.drawing.shared import draw_bank_use
from cutegen.drawing.svg import render_svg
from cutegen.drawing.text import render_text
from cutegen.dtypes import Dtype
from cutegen.language.diagnostics import SpecError
from cutegen.layouts import parse_layout

SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))


@pytest.mark.parametrize("spec", sampled(SPECS))
def test_every_kernel_has_pictures_that_all_renderers_draw(spec: str) -> None:
    figures = draw_kernel(module(spec).plan)
    assert figures and len({drawn.name for drawn in figures}) == len(figures)
    for drawn in figures:
        assert re.fullmatch(r"[a-z0-9-]+", drawn.name)
        assert escape(drawn.title) in " ".join(render_svg(drawn).split()) or "'" in drawn.title
        assert render_text(drawn, 100)[0].plain.startswith(drawn.title[:20])
        for grid in grids(drawn):
            assert all(cell.colour is None or cell.colour < len(drawn.palette) for _, _, cell in cells(grid))
    assert draw_kernel(module(spec).plan) == figures


def one_access_to_a_cell(of: Module, drawn: Figure) -> list[int]:
    """Holds cells of threads and values to one access of every tensor that the figure shows, and their labels to what
    they are; how many elements cells have."""
    tensor = {"copy-a": "a", "copy-b": "b"}.get(drawn.name)
    operands = {side: getattr(of.plan, side).tensor.name for side in "ab" if of.plan.spec.op == "gemm"}
    shown = [operands[tensor]] if tensor else [t.name for t in of.plan.spec.tensors if t.name not in operands.values()]
    made = [a for a in accesses(of.plan) if a.path[1] != "workspace"]
    widths = {a.vector for a in made if a.tensor in shown and (tensor is None or a.space == "global")}
    found = []
    for number, grid in enumerate(grids(drawn)):
        if drawn.name.startswith("workspace-"):
            moved = [a for a in accesses(of.plan) if a.path[1] == "workspace" and a.tensor.lower() == drawn.name[-1]]
            widths = {a.vector for a in moved if a.kind == ("read", "write")[number]}
        if grid.line_names != ("thread", "value"):
            continue
        if "+ column" not in grid.columns.name:  # one mode, wrapped
            assert 1 in (grid.rows.step, grid.columns.step)
        for _, _, cell in cells(grid):
            owners = cell.facts.get("owners", [])
            if not owners or cell.facts["elements"] == 1 < len(owners):
                continue  # nobody's, or met by several
            assert len(owners) == cell.facts["elements"]
            found.append(len(owners))
            ((thread,), values) = {t for t, _ in owners}, [v for _, v in owners]
            assert all(len({v // width for v in values}) == 1 for width in widths)
            first, last = values[0], values[0] + len(values) - 1
            assert values == list(range(first, last + 1))
            assert cell.lines == (f"T{thread}", f"V{first}" if first == last else f"V{first}-{last}")
        if found and widths:
            assert max(found) <= min(widths)
    return found


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        ("copy_tv", [8]),
        ("copy_inner", [8]),
        ("copy_bf16_inner_outer", [8]),
        ("sgemm_mmajor", [4, 4, 4]),
        ("predicated_tile", [1]),
        ("sgemm_axpby", [1, 1, 1]),
    ],
)
def test_a_cell_is_exactly_one_access(spec: str, sizes: list[int]) -> None:
    of = module(spec)
    found = [one_access_to_a_cell(of, drawn) for drawn in draw_kernel(of.plan)]
    assert [set(counts) for counts in found if counts] == [{size} for size in sizes]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(VALID)
def test_every_plan_that_can_be_made_can_be_drawn(text: str) -> None:
    try:
        of = generate(text, "x.yaml").modules[0]
    except SpecError:
        return
    figures = draw_kernel(of.plan)
    assert len({figure.name for figure in figures}) == len(figures)
    for drawn in figures:
        root = ET.fromstring(render_svg(drawn))
        assert drawn.title in " ".join(text.text or "" for text in root.iter(f"{SVG}text"))
        assert all(cell_len(line.plain.rstrip()) <= 100 for line in render_text(drawn, 100))
        assert places_of(drawn, of.regions), drawn.name
        one_access_to_a_cell(of, drawn)
        for grid in grids(drawn):
            found = [cell.facts.get("owners", []) for _, _, cell in cells(grid)]
            met = [tuple(owner) for owners in found for owner in owners]
            assert len(met) == len(set(met))  # nobody is drawn twice


# ----------------------------------------------------------------------------------------------- shared memory


def by_hand(access: Access, panel: Grid) -> None:
    """Holds a panel to the words that the lanes of its warp touch, counted from the access's layout."""
    warp, lanes = conflicts(access).warp, max(1, min(32, 128 // max(4, access.bytes)))
    assert f"warp {warp}," in panel.title
    words: dict[int, set[int]] = {}
    for thread in range(32 * warp, min(32 * warp + 32, access.threads)):
        for value in range(access.vector):
            start = int(access.layout(thread, value)) * access.dtype.bytes
            for byte in range(start, start + access.dtype.bytes):
                words.setdefault(byte // 4, set()).add(thread)
    found = {}
    for _, _, cell in cells(panel):
        first = cell.facts["byte"] // 4
        assert first % 32 == cell.facts["bank"]
        assert {thread % 32 // lanes for thread in cell.facts["threads"]} == set(cell.facts["passes"])
        for word in range(first, first + panel.columns.step):
            found[word] = set(cell.facts["threads"])
        rivals = [
            sum(
                any(thread % 32 // lanes == number for thread in users)
                for word, users in words.items()
                if word % 32 == cell.facts["bank"]
            )
            for number in cell.facts["passes"]
        ]
        assert cell.facts["ways"] == max(rivals, default=0)
        assert (f"{cell.facts['ways']}-way" in cell.lines) == (cell.facts["ways"] > 1)
    assert {word: threads for word, threads in found.items() if threads} == words
    assert max(cell.facts["ways"] for _, _, cell in cells(panel)) == conflicts(access).ways


@pytest.mark.parametrize("of", [module("sgemm_mmajor"), *[module("sgemm", f"sgemm_{x}m") for x in ("kk", "kn", "mk")]])
def test_banks_show_the_words_of_every_lane_and_its_conflicts(of: Module) -> None:
    for x in ("A", "B"):
        shared = [access for access in accesses(of.plan) if access.space == "shared" and access.tensor == x]
        for access, panel in zip(shared, figure(of, f"banks-{x.lower()}").panels, strict=True):
            assert isinstance(panel, Grid)
            by_hand(access, panel)
        colours_of_passes(figure(of, f"banks-{x.lower()}"))


def colours_of_passes(drawn: Figure) -> None:
    """A cell's colour is that of a legend's entry that names exactly the passes in which it is wanted."""
    assert drawn.legend is not None
    meaning = {swatch.colour // 2: swatch.text for swatch in drawn.legend.swatches}
    assert len(meaning) == len(drawn.legend.swatches) == len(set(meaning.values()))
    used = set()
    for grid in grids(drawn):
        for _, _, cell in cells(grid):
            passes = cell.facts["passes"]
            assert (cell.colour is None) == (not passes)
            if cell.colour is not None:
                used.add(cell.colour // 2)
                text = meaning[cell.colour // 2]
                if text != "other passes":
                    named = [int(number) for number in re.findall(r"\d+", text)]
                    assert (list(range(named[0], named[-1] + 1)) if "-" in text else named) == passes
    assert used == set(meaning)


@pytest.mark.parametrize(("layout", "colours"), [
    ("(32,4):(4,1)", {"pass 0", "pass 1", "pass 2", "pass 3"}),
    ("((16,2),4):((0,4),1)", {"passes 0-1", "passes 2-3"}),
    ("((8,4),4):((4,0),1)", {"passes 0-3"}),
    ("((8,2,2),4):((4,0,32),1)", {"passes 0-1", "passes 2-3"}),
    ("((8,2,2),4):((4,32,0),1)", {"passes 0,2", "passes 1,3"}),
    ("((4,8),4):((4,0),1)", {"passes 0-3"}),
])  # fmt: skip
def test_words_of_several_passes_have_a_colour_of_their_own(layout: str, colours: set[str]) -> None:
    access = Access("A from there", "A", Dtype("f32"), "shared", "read", 4, parse_layout(layout), ())
    drawn = draw_bank_use([access], "A", ())
    colours_of_passes(drawn)
    assert drawn.legend is not None and {swatch.text for swatch in drawn.legend.swatches} == colours


@pytest.mark.parametrize(
    ("layout", "vector", "dtype", "ways"),
    [
        ("(32,1):(1,0)", 1, "f32", 1),
        ("(32,1):(32,0)", 1, "f32", 32),
        ("(32,1):(66,0)", 1, "f16", 1),
        ("(32,2):(2,1)", 2, "f64", 1),  # 16 bytes a lane, four passes
        ("(32,2):(3,1)", 2, "f32", 2),  # lanes start at any bank
        ("((40,2),1):((1,64),0)", 1, "f32", 2),  # the second warp only; the third one has 16 lanes
        ("((9,4),4):((0,32),1)", 4, "f32", 2),  # the first pass shares its words, the second does not
    ],
)
def test_banks_of_any_access(layout: str, vector: int, dtype: str, ways: int) -> None:
    access = Access("A from there", "A", Dtype(dtype), "shared", "read", vector, parse_layout(layout), ())
    assert conflicts(access).ways == ways
    drawn = draw_bank_use([access], "A", ())
    by_hand(access, *grids(drawn))
    colours_of_passes(drawn)
    assert any("2-way: two" in note for note in drawn.notes) == (ways > 1)


def test_conflicts_are_said() -> None:
    # Neighbouring threads take neighbouring elements: each reads its four one by one.
    of = gemm({"mma": {"permutation": {"M": "(16,4):(1,16)"}}})
    told = [remark for x in ("a", "b") for remark in figure(of, f"banks-{x}").remarks()]
    for access in accesses(of.plan):
        if access.space == "shared":
            cost = conflicts(access)
            verb = "written" if access.kind == "write" else "read"
            how = "without bank conflicts" if cost.free else "with conflicts"
            assert any(f"{access.tensor} is {verb} {how}: {cost.passes} pass" in remark for remark in told)
