"""The pictures of the pages on the language, as `cutegen show` draws them of the specs on those pages."""

from __future__ import annotations

from cutegen.codegen import generate
from cutegen.drawing.files import render
from cutegen.drawing.kernels import draw_kernel
from cutegen.drawing.model import Figure
from cutegen.drawing.requests import draw_layouts
from making.blocks import changed, specs
from making.repository import read


def drawn() -> dict[str, bytes]:
    """The pictures by the names of their files."""
    figures = {
        "layout": draw_layouts(["(4,8):(8,1)"]),
        "thread_value": draw_layouts(["((2,2),(2,3)):((2,12),(1,4))"], threads=True, tile="4,6"),
    }
    figures |= _of(_first("elementwise"), elementwise_tile="threads")
    softmax = _first("row_schedules")
    figures |= _of(changed(softmax, {"static": {"N": 16384}, "schedule": {}}), row_registers="walks")
    figures |= _of(changed(softmax, {"static": {"N": 131072}, "schedule": {}}), row_smem="walks")
    figures |= _of(changed(softmax, {"static": {"N": 65536}, "schedule": {"keep": "reload"}}), row_reload="walks")
    figures |= _of(list(specs("docs/language/row_schedules.md"))[1], row_pieces="pieces")
    halves = {"static": {"N": 8192}, "schedule": {"cluster": {"N": 2}, "threads_per_row": 128}}
    figures |= _of(changed(softmax, halves), row_reduction="reduction")
    figures |= _of(_first("gemm_fma"), gemm_pipeline="pipeline")
    names = {"cooperative": "roles", "walk": "tile-walk", "cluster": "cluster", "swizzle": "stage-a"}
    figures |= _of(_first("gemm_wgmma"), **{f"gemm_{name}": picture for name, picture in names.items()})
    figures |= _of(read("specs/gemm_bf16_pingpong.yaml"), gemm_pingpong="roles")
    return {f"{name}.svg": render([figure], ".svg") for name, figure in figures.items()}


def _first(page: str) -> str:
    """The first spec of a page on the language."""
    return next(specs(f"docs/language/{page}.md"))


def _of(spec: str, **pictures: str) -> dict[str, Figure]:
    """Pictures of a spec's first kernel: by the name of the file, the name that `cutegen show --picture` has."""
    found = {figure.name: figure for figure in draw_kernel(generate(spec, "k.yaml").modules[0].plan)}
    return {name: found[picture] for name, picture in pictures.items()}
