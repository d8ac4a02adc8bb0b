"""The rules that the specs of any family can break."""

from __future__ import annotations

from cutegen.language.asked import Op
from cutegen.lint import promises, targets, tunable
from cutegen.lint.rule import Rule

# of kernels that are measured, and of all
_MEASURED: tuple[Rule, ...] = (
    Rule("CG256", promises.listed_shapes),
    Rule("CG265", tunable.tuned_values, severity="warning"),
)
_ALWAYS: tuple[Rule, ...] = (Rule("CG286", targets.f8_conversions),)


def common_rules(op: Op) -> tuple[Rule, ...]:
    """The rules that the specs of any family of an op can break."""
    return (*_ALWAYS, *(_MEASURED if op.unmeasured is None else ()))
