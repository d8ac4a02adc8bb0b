"""Which rules there are: those of the families, and those that the specs of any family can break."""

from __future__ import annotations

from cutegen.family import AnyFamily
from cutegen.lint import promises, targets, tunable
from cutegen.lint.rule import NoteRule, PerformanceRule, Rule
from cutegen.ops.op import Op
from cutegen.registry import families

# besides theirs: of kernels that are measured, and of all
_MEASURED: tuple[Rule, ...] = (
    Rule("CG256", promises.listed_shapes),
    Rule("CG265", tunable.tuned_values, severity="warning"),
)
_ALWAYS: tuple[Rule, ...] = (Rule("CG286", targets.f8_conversions),)


def rules_of(family: AnyFamily) -> tuple[Rule, ...]:
    """The rules that a spec of the family can break, in the order of their codes."""
    return tuple(sorted((*family.rules(), *rules_of_all(family.op)), key=lambda rule: rule.code))


def rules_of_all(op: Op) -> tuple[Rule, ...]:
    """The rules that the specs of any family of an op can break."""
    return (*_ALWAYS, *(_MEASURED if op.unmeasured is None else ()))


def all_rules() -> tuple[Rule, ...]:
    """The rules of all families, one after the other; a code that several families say is there several times."""
    return tuple(rule for family in families() for rule in rules_of(family))


def all_note_rules() -> tuple[NoteRule, ...]:
    """The rules of all families whose findings are notes, one after the other."""
    return tuple(rule for family in families() for rule in family.note_rules())


def all_performance_rules() -> tuple[PerformanceRule, ...]:
    """The performance rules of all families, one after the other; a code that several say is there several times."""
    return tuple(rule for family in families() for rule in family.performance_rules())
