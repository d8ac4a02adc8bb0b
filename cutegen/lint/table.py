"""Every rule, with its code and the ops that it applies to, in the order of the codes."""

from __future__ import annotations

from cutegen.language.model import Op
from cutegen.lint import elementwise, gemm_copies, gemm_dealing, gemm_mma, gemm_workspace, promises, whole
from cutegen.lint.rule import Rule

_ELEMENTWISE: tuple[Op, ...] = ("elementwise",)
_GEMM: tuple[Op, ...] = ("gemm",)
_PROBE: tuple[Op, ...] = ("probe",)
_DEALT: tuple[Op, ...] = ("elementwise", "gemm")
_ALL: tuple[Op, ...] = ("elementwise", "gemm", "probe")

RULES: tuple[Rule, ...] = (
    Rule("CG221", gemm_dealing.copied, _GEMM, basic=True),
    Rule("CG230", whole.rank, _DEALT, basic=True),
    Rule("CG231", whole.threads, _ALL, basic=True),
    Rule("CG232", whole.values, _ALL, basic=True),
    Rule("CG234", elementwise.deals_evenly, _ELEMENTWISE),
    Rule("CG236", elementwise.access, _ELEMENTWISE),
    Rule("CG236", gemm_copies.access, _GEMM),
    Rule("CG237", elementwise.run, _ELEMENTWISE),
    Rule("CG237", gemm_copies.run, _GEMM),
    Rule("CG238", elementwise.aligned, _ELEMENTWISE),
    Rule("CG238", gemm_copies.aligned, _GEMM),
    Rule("CG239", elementwise.atom, _ELEMENTWISE),
    Rule("CG239", gemm_copies.atom, _GEMM),
    Rule("CG240", gemm_mma.k_threads, _GEMM, basic=True),
    Rule("CG241", gemm_mma.permutation_threads, _GEMM),
    Rule("CG242", gemm_mma.mma_divides, _GEMM),
    Rule("CG243", gemm_mma.k_permutation, _GEMM),
    Rule("CG244", gemm_mma.accumulator, _GEMM),
    Rule("CG245", gemm_mma.depth, _GEMM, basic=True),
    Rule("CG246", gemm_mma.stages, _GEMM),
    Rule("CG247", gemm_dealing.threads_agree, _GEMM),
    Rule("CG248", gemm_dealing.copy_divides, _GEMM),
    Rule("CG249", gemm_copies.scattered, _GEMM),
    Rule("CG250", gemm_copies.cp_async_bytes, _GEMM),
    Rule("CG251", gemm_copies.padding_aligned, _GEMM),
    Rule("CG252", gemm_copies.padding_wasted, _GEMM, severity="warning"),
    Rule("CG253", gemm_copies.unused, _GEMM),
    Rule("CG254", gemm_mma.shared_memory, _GEMM, basic=True),
    Rule("CG255", gemm_mma.k_predicate, _GEMM),
    Rule("CG256", promises.listed_shapes, _DEALT),
    Rule("CG258", elementwise.probe_reach, _PROBE),
    Rule("CG259", elementwise.blocks, _ELEMENTWISE),
    Rule("CG259", gemm_mma.grid, _GEMM),
    Rule("CG259", elementwise.probe_size, _PROBE),
    Rule("CG260", whole.warps, _DEALT, severity="warning"),
    Rule("CG261", elementwise.registers, _ELEMENTWISE, severity="warning"),
    Rule("CG261", gemm_mma.registers, _GEMM, severity="warning"),
    Rule("CG262", gemm_mma.store, _GEMM),
    Rule("CG263", gemm_copies.columns, _GEMM, basic=True),
    Rule("CG263", gemm_copies.dealt_columns, _GEMM),
    Rule("CG264", gemm_workspace.majorness, _GEMM, basic=True),
)
