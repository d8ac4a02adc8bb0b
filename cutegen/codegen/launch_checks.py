"""What a module's `launch` checks in compiled host code: sizes, and memory that outputs share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutegen.codegen.formatting import WIDTH, call, chain
from cutegen.codegen.parts import Limit
from cutegen.language.model import KernelSpec, Tensor


def can_overlap_itself(output: Tensor) -> bool:
    """Whether an output's strides could make elements coincide: a single mode is contiguous."""
    return len(output.shape) > 1


def memory_pairs(spec: KernelSpec) -> list[tuple[Tensor, Tensor]]:
    """Each output with every other tensor, two outputs once: they must not share memory."""
    pairs = []
    for number, output in enumerate(spec.outputs):
        before = [other.name for other in spec.outputs[: number + 1]]
        pairs += [(output, t) for t in spec.tensors if t.name not in before]
    return pairs


def launch_checks(spec: KernelSpec, limits: Sequence[Limit]) -> dict[str, Any]:
    """The checks that `launch` makes of tensors which the compiled function has let in by types, shapes and strides."""
    out = spec.output
    others = [t for t in spec.tensors if t.name != out.name]
    sizes: dict[str, str] = {}
    checks: list[str] = []
    for t in (out, *others):
        for i, mode in enumerate(t.shape):
            if mode not in spec.static and mode not in sizes:
                sizes[mode] = call(f"{mode} = cutlass.Int64(", [f"m{t.name}.shape[{i}]"], ")", 4)
                checks += [f"0 < {mode}"] if t is out else []
                checks.append(f"{mode} <= LARGEST")
    asked = {mode for limit in limits for mode in limit.modes}
    sizes |= {mode: f"{mode} = {size}" for mode, size in spec.static.items() if mode in asked}
    checks += [f"_distinct(m{output.name})" for output in spec.outputs if can_overlap_itself(output)]
    checks += [f"_apart(m{x.name}, m{y.name})" for x, y in memory_pairs(spec)] or [f"m{out.name}.iterator.toint() > 0"]
    return {
        "distinct_output": can_overlap_itself(out),
        "other_tensors": bool(others),
        "launch_sizes": list(sizes.values()),
        "launch_checks": _refuse_unless(checks),
        "launch_limits": [(limit.path, _refuse_unless([limit.holds])) for limit in limits],
    }


def _refuse_unless(checks: list[str]) -> str:
    """The call that refuses unless the checks hold: in one line, with all checks in a line, or with a line for each."""
    if len(checks) > 1:
        checks = [check if check.startswith("_") else f"({check})" for check in checks]
    flat = " & ".join(checks)
    if len(flat) + 20 <= WIDTH:
        return f"_refuse_unless({flat})"
    if len(flat) + 8 <= WIDTH:
        return f"_refuse_unless(\n        {flat}\n    )"
    return chain("_refuse_unless", checks, " & ", 4)
