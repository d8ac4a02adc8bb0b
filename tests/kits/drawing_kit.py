"""Shared code for tests of pictures: layouts counted by hand, pictures read back, and images decoded."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from hypothesis import settings
from hypothesis import strategies as st
from specs_kit import modules_of

from cutegen.codegen import Module, generate
from cutegen.drawing.kernels import draw_kernel
from cutegen.drawing.model import Cell, Figure, Grid
from cutegen.families.common.pointwise import PointwisePlan
from cutegen.families.common.walks import Walk, example_sizes
from cutegen.families.elementwise.pictures import walk_of as elementwise_walk
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.gemm.staged.pictures import walk_of as gemm_walk
from cutegen.families.gemm.staged.plan import MultistagePlan
from cutegen.families.gemm.tcgen05.pictures import walk_of as tensor_memory_walk
from cutegen.families.gemm.tcgen05.plan import Tcgen05Plan
from cutegen.families.gemm.wgmma.pictures import walk_of as warpspecialized_walk
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.planning.plan import Plan

quick = settings(max_examples=40, deadline=None, derandomize=True)
SVG = "{http://www.w3.org/2000/svg}"


def extent(shape: Any) -> int:
    if isinstance(shape, int):
        return shape
    result = 1
    for part in shape:
        result *= extent(part)
    return result


def value_at(shape: Any, stride: Any, index: int) -> int:
    """The value of a layout at a linear index, first mode fastest: the definition, digit by digit."""
    if isinstance(shape, int):
        return index * int(stride)
    total = 0
    for part, step in zip(shape, stride, strict=True):
        total += value_at(part, step, index % extent(part))
        index //= extent(part)
    return total


def nested(leaf: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    """A mode: a number, or a few of them in brackets."""
    return st.one_of(leaf, st.lists(leaf, min_size=1, max_size=3).map(tuple))


@st.composite
def layouts(draw: st.DrawFn, least: int = 1, most: int = 3, sizes: int = 5) -> tuple[Any, Any]:
    """A shape of some modes, and strides that need not make sense."""
    shape = tuple(draw(nested(st.integers(1, sizes))) for _ in range(draw(st.integers(least, most))))

    def strides(part: Any) -> Any:
        return draw(st.integers(0, 40)) if isinstance(part, int) else tuple(map(strides, part))

    return shape, strides(shape)


def grids(figure: Figure) -> list[Grid]:
    return [panel for panel in figure.panels if isinstance(panel, Grid)]


def cells(grid: Grid) -> Iterator[tuple[int, int, Cell]]:
    """(row, column, cell) of all cells."""
    for i, row in enumerate(grid.cells):
        for j, cell in enumerate(row):
            yield i, j, cell


def module(name: str, kernel: str | None = None) -> Module:
    """A module of a spec in `specs/`: the first one, or the one of that name."""
    found = modules_of(name)
    return next(iter(found.values())) if kernel is None else found[kernel]


GEMM: dict[str, Any] = {
    "cutegen": 1,
    "kernel": "work",
    "op": "gemm",
    "tensors": {
        "A": {"shape": ["M", "K"], "dtype": "f32", "major": "M"},
        "B": {"shape": ["N", "K"], "dtype": "f32", "major": "N"},
        "C": {"shape": ["M", "N"], "dtype": "f32", "major": "M", "role": "out"},
    },
    "compute": "C = A @ B.T",
}


def gemm(schedule: dict[str, Any], **more: Any) -> Module:
    """An m-major gemm on the CUDA cores, with these keys in its schedule and these others."""
    schedule = {**schedule, "mma": {"atom": "fma", **schedule.get("mma", {})}}
    return generate(yaml.safe_dump({**GEMM, "schedule": schedule, **more}), "x.yaml").modules[0]


_DRAWN: dict[str, tuple[Figure, ...]] = {}


def figures(of: Module) -> tuple[Figure, ...]:
    """The pictures of a module, drawn once in a process: tests of one picture each share them."""
    if of.text not in _DRAWN:
        _DRAWN[of.text] = draw_kernel(of.plan)
    return _DRAWN[of.text]


def figure(of: Module, name: str) -> Figure:
    return next(figure for figure in figures(of) if figure.name == name)


def grid_of(of: Module, name: str, panel: int = 0) -> Grid:
    found = figure(of, name).panels[panel]
    assert isinstance(found, Grid)
    return found


def elements(grid: Grid, row: int, column: int) -> list[tuple[int, int]]:
    """(row, column) of the elements of a cell, rows first."""
    down, across = grid.rows.step, grid.columns.step
    return [(row * down + i, column * across + j) for j in range(across) for i in range(down)]


def walk_of(plan: Plan) -> Walk:
    """How an elementwise kernel or a gemm walks its tiles."""
    if isinstance(plan, ElementwisePlan):
        return elementwise_walk(plan)
    if isinstance(plan, WarpspecializedPlan):
        return warpspecialized_walk(plan)
    if isinstance(plan, Tcgen05Plan):
        return tensor_memory_walk(plan)
    assert isinstance(plan, MultistagePlan)
    return gemm_walk(plan)


def example_walk(plan: Plan) -> tuple[dict[str, int], Walk]:
    """The sizes that a picture is drawn for, and the walk over them."""
    assert isinstance(plan, PointwisePlan)
    sizes = example_sizes(plan, walk_of(plan))
    return sizes, walk_of(plan).over(sizes.values())


def texts(element: ET.Element) -> list[str]:
    """The texts of an SVG that are drawn."""
    return [text.text or "" for text in element.iter(f"{SVG}text")]


@dataclass(frozen=True)
class Image:
    width: int
    height: int
    rows: list[bytes]  # of (red, green, blue, opacity) bytes

    def colours(self, left: int, top: int, right: int, bottom: int) -> set[tuple[int, ...]]:
        found = (row[4 * left : 4 * right] for row in self.rows[top:bottom])
        return {tuple(row[i : i + 4]) for row in found for i in range(0, len(row), 4)}


def decode_png(data: bytes, most_rows: int) -> Image:
    """The first rows of an image of 8-bit channels with opacity, as the PNG specification says (sections 7 and 9)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, header = 8, b"", b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        header, packed = (body, packed) if kind == b"IHDR" else (header, packed + body * (kind == b"IDAT"))
        at += 12 + length
    width, height, depth, colour, *_, interlaced = struct.unpack(">IIBBBBB", header)
    assert (depth, colour, interlaced) == (8, 6, 0)
    raw, rows, above = zlib.decompress(packed), [], bytes(4 * width)
    assert len(raw) == height * (4 * width + 1)
    for start in range(0, most_rows * (4 * width + 1), 4 * width + 1):
        above = _unfiltered(raw[start], raw[start + 1 : start + 1 + 4 * width], above)
        rows.append(above)
    return Image(width, height, rows)


def _unfiltered(kind: int, row: bytes, above: bytes) -> bytes:
    out = bytearray(row)
    for i in range(len(out)):
        left, up = out[i - 4] if i > 3 else 0, above[i]
        corner = above[i - 4] if i > 3 else 0
        guess = left + up - corner
        paeth = min((left, up, corner), key=lambda x: abs(guess - x))
        out[i] = (out[i] + (0, left, up, (left + up) // 2, paeth)[kind]) % 256
    return bytes(out)
