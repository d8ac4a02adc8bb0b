"""The rules of row kernels, in the order of their codes; a file for each thing that they are about."""

from __future__ import annotations

from dataclasses import replace

from cutegen.families.rowwise.flat import flat
from cutegen.families.rowwise.rules import accesses, advice, clusters, dealing, lengths, rows
from cutegen.lint.rule import PerformanceRule, Rule

_RULES: tuple[Rule, ...] = (
    Rule("CG231", dealing.threads, basic=True),
    Rule("CG232", dealing.values, basic=True),
    Rule("CG236", accesses.access),
    Rule("CG238", accesses.aligned),
    Rule("CG239", accesses.atom),
    Rule("CG259", dealing.blocks),
    Rule("CG260", dealing.warps, severity="warning"),
    Rule("CG261", dealing.registers, severity="warning"),
    Rule("CG281", dealing.power_of_two, basic=True),
    Rule("CG282", rows.contiguous, basic=True),
    Rule("CG283", rows.held),
    Rule("CG284", rows.whole_accesses),
    Rule("CG285", rows.summed),
    Rule("CG287", rows.one_size),
    Rule("CG288", clusters.size, basic=True),
    Rule("CG289", clusters.possible),
    Rule("CG290", rows.ahead),
    Rule("CG291", lengths.apply),
    Rule("CG292", lengths.fewer_threads),
    Rule("CG293", lengths.exponentials),
    Rule("CG294", rows.in_shared_memory),
)

_PERFORMANCE_RULES: tuple[PerformanceRule, ...] = (
    PerformanceRule("CG271", advice.uncoalesced),
    PerformanceRule("CG272", advice.narrow),
    PerformanceRule("CG273", advice.unfilled_tiles),
    PerformanceRule("CG274", advice.low_occupancy),
    PerformanceRule("CG276", advice.needless_predicate),
    PerformanceRule("CG277", advice.small_grid),
)


def _of_flat(rule: Rule) -> Rule:
    """The rule about rows of one mode, which several are for it."""
    return replace(rule, check=lambda spec, say: rule.check(flat(spec), say))


def _advice_of_flat(rule: PerformanceRule) -> PerformanceRule:
    return replace(rule, find=lambda spec, plan, made: rule.find(flat(spec), replace(plan, spec=plan.flat), made))


RULES = tuple(map(_of_flat, _RULES))
PERFORMANCE_RULES = tuple(map(_advice_of_flat, _PERFORMANCE_RULES))
