"""Advice on accesses to global memory: sectors that are not filled, and accesses narrower than they could be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cutegen.analysis import Access
from cutegen.families.common.rules import global_memory
from cutegen.families.common.rules.candidates import in_tiler
from cutegen.families.gemm.fma.rules.operands import other_permutations
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.families.gemm.staged.rules.copies import copy_path
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.language.kinds import Path
from cutegen.lint.rule import Accesses, Candidate, Finding
from cutegen.lint.trial import as_written, changed, first_written, is_written, written


def _is_operand(plan: GemmPlan, access: Access) -> bool:
    return access.tensor in (plan.a.tensor.name, plan.b.tensor.name)


def uncoalesced(spec: Spec, plan: GemmPlan, made: Accesses) -> Iterator[Finding]:
    """A warp's instruction touches no more sectors of global memory than its bytes fill.

    What broadcasts in the epilogue does not count: read once for a whole tile, it stays in the cache.
    """

    def counts(access: Access) -> bool:
        return _is_operand(plan, access) or set(spec.tensor(access.tensor).shape) == set(spec.output.shape)

    return global_memory.uncoalesced(spec, made, partial(_other_walks, spec, plan), counts)


def _other_walks(spec: Spec, plan: GemmPlan, access: Access) -> Iterator[Candidate]:
    name = access.tensor
    if access.path[1] == "workspace":
        plain = changed(spec, {f"workspace.{name}.thread_layout": None})
        yield written(f"leave `thread_layout` of {name}'s workspace out"), plain
        return
    if _is_operand(plan, access):
        text = f"leave `thread_layout` and `value_layout` of {name} out"
        yield written(text), changed(spec, {f"copies.{name}": None})
        for times in (2, 4):
            yield in_tiler(spec, plan.k, plan.tile[plan.k] * times)
        return
    tensor = spec.tensor(name)
    for align in (8, 16):
        if (tensor.align or 1) < align:
            wider = tuple(replace(t, align=align) if t.name == name else t for t in spec.tensors)
            text = f"if its address and strides allow it, write `align: {align}` for {name}"
            yield written(text), replace(as_written(spec), tensors=wider)
    yield from _other_output_permutations(spec, plan)


def _other_output_permutations(spec: Spec, plan: GemmPlan) -> Iterator[Candidate]:
    """Changed kernels with other permutations of the mode along which the output is contiguous."""
    mode = str(spec.output.major)
    return other_permutations(spec, mode, (plan.m, plan.n).index(mode))


def narrow(spec: Spec, plan: GemmPlan, made: Accesses) -> Iterator[Finding]:
    """An access is as wide as the alignment and 128 bits allow."""

    def whole(access: Access) -> bool:
        major = access.memory(spec).major
        # Shared memory is m- or n-major: along k nothing is contiguous there
        return major != plan.k if _is_operand(plan, access) else major == spec.output.major

    def place(access: Access, asked: bool) -> Path:
        bits = copy_path(access.tensor, "bits")
        if asked and is_written(spec, *bits):
            return bits
        return first_written(spec, access.path, access.path[:-1], ("tensors", access.tensor))

    return global_memory.narrow(spec, made, partial(_wider, spec, plan), whole, place)


def _wider(spec: Spec, plan: GemmPlan, access: Access) -> Iterator[Candidate]:
    for bits in (128, 64, 32, 16):
        yield written(f"write `bits: {bits}`"), changed(spec, {f"copies.{access.tensor}.bits": bits})
    if not _is_operand(plan, access):
        yield from _other_output_permutations(spec, plan)
