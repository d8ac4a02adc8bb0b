"""Changes of a schedule's `tiler` that rules suggest, each with its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cutegen.language.model import KernelSpec
from cutegen.lint.rule import Candidate
from cutegen.lint.trial import changed, written


def in_tiler(spec: KernelSpec, mode: str, extent: int) -> Candidate:
    """A changed kernel with another extent of the tiler along one mode."""
    return written(f"write `{mode}: {extent}` in the tiler"), changed(spec, {f"tiler.{mode}": extent})


def halved_in_tiler(spec: KernelSpec, mode: str, extent: int, least: int = 1) -> Iterator[Candidate]:
    """Changed kernels with half of an extent of the tiler, half of that, and so on while it is at least `least`."""
    while (extent := extent // 2) >= least:
        yield in_tiler(spec, mode, extent)


def several_in_tiler(spec: KernelSpec, extents: Mapping[str, int]) -> Candidate:
    """A changed kernel with other extents of the tiler along some modes."""
    fields = {f"tiler.{mode}": extent for mode, extent in extents.items()}
    return written(f"take {show_extents(extents)} in the tiler"), changed(spec, fields)


def show_extents(extents: Mapping[str, int]) -> str:
    """Extents as a spec writes them, such as `M: 64, N: 128`."""
    return ", ".join(f"{mode}: {extent}" for mode, extent in extents.items())
