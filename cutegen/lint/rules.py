"""Which rules there are, by the families whose specs can break them."""

from __future__ import annotations

from cutegen.lint.asked import Family
from cutegen.lint.rule import NoteRule, PerformanceRule, Rule
from cutegen.registry import families


def rules_of(family: Family) -> tuple[Rule, ...]:
    """The rules that a spec of the family can break, in the order of their codes."""
    return tuple(sorted((*family.rules(), *family.common_rules(family.op)), key=lambda rule: rule.code))


def all_rules() -> tuple[Rule, ...]:
    """The rules of all families, one after the other; a code that several families say is there several times."""
    return tuple(rule for family in families() for rule in rules_of(family))


def all_note_rules() -> tuple[NoteRule, ...]:
    """The rules of all families whose findings are notes, one after the other."""
    return tuple(rule for family in families() for rule in family.note_rules())


def all_performance_rules() -> tuple[PerformanceRule, ...]:
    """The performance rules of all families, one after the other; a code that several say is there several times."""
    return tuple(rule for family in families() for rule in family.performance_rules())
