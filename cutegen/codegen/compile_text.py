"""The template context of the part of a module that compiles `launch` and keeps the compiled functions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from cutegen.codegen.formatting import python_tuple
from cutegen.codegen.padding import moved
from cutegen.codegen.parts import KernelParts
from cutegen.language.model import KernelSpec


def compile_context(spec: KernelSpec, parts: KernelParts) -> dict[str, Any]:
    """The template context of `compile.j2`, besides what all templates of a module share."""
    chooser = parts.chooser
    return {
        "key": "key" if chooser else "device",
        "uncompared_target": _uncompared(chooser.targets) if chooser else "",
        "told_compiled": _told(chooser is not None, parts.multiprocessors is not None),
        "multiprocessors": parts.multiprocessors,
        "compile_parameters": [
            *("arch: str", "options: tuple = ()"),
            *(["kernels: tuple = ALL"] if chooser else []),
            *([f"multiprocessors: int = {parts.multiprocessors}"] if parts.multiprocessors else []),
        ],
        "compile_arguments": [
            "launch",
            "*arguments",
            *_scalars_of_one(spec),
            *(["*workspaces"] if parts.workspaces and parts.workspaces.each else []),
            *(["*[cutlass.Int64(0)] * len(PADDED)"] if moved(spec, parts) else []),
            *(["cutlass.Int32(0)"] if chooser else []),
            "stream",
            *([parts.chosen_by_target[1]] if parts.chosen_by_target else []),
            *(["multiprocessors"] if parts.multiprocessors else []),
            *(["kernels"] if chooser else []),
        ],
    }


def _told(of_some: bool, of_gpu: bool) -> str:
    """The docstring of `compile_for`: whether it takes some of several kernels, and a number of multiprocessors."""
    compiled = "`launch` of some kernels," if of_some else "`launch`, compiled"
    more = "and so many multiprocessors, with more `options`" if of_gpu else "with more options of `cute.compile`"
    return f"{compiled} for one of TARGETS {more}; needs no GPU."


def _uncompared(targets: Sequence[str]) -> str:
    """An expression of whether `target` has none of the kernels that only these targets have; empty without any."""
    quoted = [f'"{target}"' for target in targets]
    return f"target not in {python_tuple(quoted)}" if len(quoted) > 1 else f"target != {quoted[0]}" if quoted else ""


def _scalars_of_one(spec: KernelSpec) -> list[str]:
    """Numbers that tell the compiler the types of the scalars; those of one type in a row stand together."""
    ones = [f"cutlass.{s.dtype.cutlass}({'1.0' if s.dtype.is_float else '1'})" for s in spec.scalars]
    runs = [(one, len(list(run))) for one, run in groupby(ones)]
    return [one if count == 1 else f"*[{one}] * {count}" for one, count in runs]
