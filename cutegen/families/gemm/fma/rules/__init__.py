"""The rules of gemms on the CUDA cores, in the order of their codes; a file for each thing that they are about."""

from __future__ import annotations

from functools import partial

from cutegen.families.gemm.fma.rules import (
    bank_conflicts,
    columns,
    copies,
    copy_layouts,
    dealing,
    global_memory,
    machine,
    mma,
    pipeline,
    workspace,
)
from cutegen.families.gemm.staged import rules as staged
from cutegen.lint.rule import NoteRule, PerformanceRule, Rule

RULES: tuple[Rule, ...] = (
    Rule("CG221", copy_layouts.copied, basic=True),
    Rule("CG230", dealing.rank, basic=True),
    Rule("CG231", dealing.threads, basic=True),
    Rule("CG232", dealing.values, basic=True),
    Rule("CG236", partial(staged.copies.access, better=copies.better_bits)),
    Rule("CG237", copies.run),
    Rule("CG238", partial(staged.copies.aligned, better=copies.better_bits)),
    Rule("CG239", staged.copies.atom),
    Rule("CG240", mma.k_threads, basic=True),
    Rule("CG241", mma.permutation_threads),
    Rule("CG242", mma.mma_divides),
    Rule("CG243", mma.k_permutation),
    Rule("CG244", mma.accumulator),
    Rule("CG245", pipeline.depth, basic=True),
    Rule("CG246", staged.pipeline.stages),
    Rule("CG247", copy_layouts.threads_agree),
    Rule("CG248", copy_layouts.copy_divides),
    Rule("CG249", copies.scattered),
    Rule("CG250", staged.copies.cp_async_bytes),
    Rule("CG251", bank_conflicts.padding_aligned),
    Rule("CG252", bank_conflicts.padding_wasted, severity="warning"),
    Rule("CG253", staged.copies.unused),
    Rule("CG254", pipeline.shared_memory, basic=True),
    Rule("CG255", staged.pipeline.k_predicate),
    Rule("CG259", staged.machine.grid),
    Rule("CG260", dealing.warps, severity="warning"),
    Rule("CG261", machine.registers, severity="warning"),
    Rule("CG262", pipeline.store),
    Rule("CG263", columns.columns, basic=True),
    Rule("CG263", columns.dealt_columns),
    Rule("CG264", workspace.majorness, basic=True),
    Rule("CG266", mma.multiplied, basic=True),
)

PERFORMANCE_RULES: tuple[PerformanceRule, ...] = (
    PerformanceRule("CG270", bank_conflicts.bank_conflicts),
    PerformanceRule("CG271", global_memory.uncoalesced),
    PerformanceRule("CG272", global_memory.narrow),
    PerformanceRule("CG273", machine.unfilled_tiles),
    PerformanceRule("CG274", machine.low_occupancy),
    PerformanceRule("CG275", pipeline.idle_stages),
    PerformanceRule("CG276", staged.machine.needless_predicate),
    PerformanceRule("CG277", partial(staged.machine.small_grid, most=16)),
    PerformanceRule("CG278", machine.low_intensity),
    PerformanceRule("CG279", bank_conflicts.idle_padding),
)

NOTE_RULES: tuple[NoteRule, ...] = (NoteRule("CG280", mma.tensor_cores),)
