"""How a multistage gemm's modes are guarded, where that was left out."""

from __future__ import annotations

from typing import TypeVar

from cutegen.families.gemm.inferring import infer_guards, require_whole_accesses
from cutegen.families.gemm.staged.product import product_of, workspaces
from cutegen.families.gemm.words import GemmWords, tile_of, vector_of
from cutegen.language.model import KernelSpec
from cutegen.planning.report import Report

S = TypeVar("S", bound=GemmWords)


def infer_predication(spec: KernelSpec[S], report: Report) -> KernelSpec[S]:
    """The spec with guards of all modes, and with what accesses and unguarded tiles need sizes to be multiples of."""
    schedule, (a, b, m, n, k) = spec.schedule, product_of(spec)
    for tensor in (a, b, spec.lead):
        if tensor.name not in workspaces(spec):  # whose rows are padded
            spec = require_whole_accesses(spec, report, tensor, vector_of(schedule.copies[tensor.name], tensor))
    tiles = {mode: tile_of(schedule, mode) for mode in (m, n, k)}
    return infer_guards(spec, report, tiles, {m: "mask", n: "mask", k: "residue_first"}, "its tile")
