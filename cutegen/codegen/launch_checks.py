"""What a module's `launch` checks in compiled host code: sizes, and memory that the output shares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cutegen.codegen.formatting import WIDTH, call, chain, raising
from cutegen.codegen.origins import origins
from cutegen.language.model import Tensor
from cutegen.planning.plan import ElementwisePlan, GemmPlan, Plan


def can_overlap_itself(output: Tensor) -> bool:
    """Whether an output's strides could make elements coincide: a single mode is contiguous."""
    return len(output.shape) > 1


@dataclass(frozen=True)
class Limit:
    """Sizes that the kernel can be launched for."""

    path: str  # the key of the spec that makes it
    holds: str  # a condition on the modes, as `launch` checks it
    lines: list[str]  # what the host does without it


def limits(plan: Plan) -> list[Limit]:
    """Limits of the grid, and whole blocks where the plan demands them."""
    name, found = plan.spec.output.argument, []
    shape = f"got shape {{tuple({name}.shape)}}"
    if isinstance(plan, GemmPlan) and plan.largest is not None:
        mode, most = plan.largest
        raised = raising("    ", f"{name}: expected {mode} <= {most}, ", f"got {{{mode}}}")
        found.append(Limit("schedule.tiler", f"{mode} <= {most}", [f"if {mode} > {most}:", *raised]))
    spaces = [x for x in plan.workspaces if x.largest is not None] if isinstance(plan, GemmPlan) else []
    for x in sorted(spaces, key=lambda x: x.largest or 0)[:1]:  # both have the same k
        raised = raising("    ", f"{x.tensor.argument}: expected {x.k} <= {x.largest}, ", f"got {{{x.k}}}")
        lines = [f"if {x.k} > {x.largest}:", *raised]
        found.append(Limit(f"schedule.workspace.{x.tensor.name}", f"{x.k} <= {x.largest}", lines))
    if isinstance(plan, ElementwisePlan | GemmPlan) and plan.most_tiles is not None:
        beyond = 2**31 - 1 - plan.most_tiles
        counted = f"{_tiles(plan)} <= 2**31 - 1" + (" - THREADS" if beyond else "")
        broken = f"if {_tiles(plan, numbers=True)} > {plan.most_tiles}:"
        raised = raising("    ", f"{name}: expected at most {plan.most_tiles} tiles, ", shape)
        path = "schedule.scheduler.swizzle" if isinstance(plan, GemmPlan) else origins(plan)["tile_path"]
        found.append(Limit(path, counted, [broken, *raised]))
    if isinstance(plan, ElementwisePlan) and plan.check_threads:  # no mask on the slowest mode
        raised = raising("    ", f"{name}: expected a multiple of {plan.threads} tiles, ", shape)
        broken = f"if {_tiles(plan, numbers=True, down=True)} % THREADS:"
        whole = f"{_tiles(plan, down=True)} % THREADS == 0"
        found.append(Limit("schedule.predication", whole, [broken, *raised]))
    return found


def _tiles(plan: ElementwisePlan | GemmPlan, numbers: bool = False, down: bool = False) -> str:
    """The number of tiles, in bands with the last one filled up; whole ones only, if counted `down`.

    Extents are numbers, or go by their constant's name.
    """
    counts = []
    for i, mode in enumerate(plan.spec.output.shape):
        extent, scale = plan.tiler[i] if isinstance(plan, ElementwisePlan) else plan.tile[mode], ""
        named = str(extent) if numbers else f"TILER[{i}]"
        if isinstance(plan, GemmPlan) and plan.swizzle > 1 and i == plan.tile_order[1]:
            scale = f" * {plan.swizzle}" if numbers else " * SWIZZLE"
            named = str(extent * plan.swizzle) if numbers else f"({named}{scale})"
        whole = f"({mode} // {named})" if down else f"-(-{mode} // {named})"
        counts.append((whole if extent > 1 or scale else mode) + scale)
    return " * ".join(counts)


def launch_checks(plan: Plan) -> dict[str, Any]:
    """What `launch` checks, of tensors that the compiled function has let in by types, shapes and strides."""
    spec, out = plan.spec, plan.spec.output
    others = [t for t in spec.tensors if t.name != out.name]
    grid = limits(plan)
    sizes: dict[str, str] = {}
    checks: list[str] = []
    for t in (out, *others):
        for i, mode in enumerate(t.shape):
            if mode not in spec.static and mode not in sizes:
                sizes[mode] = call(f"{mode} = cutlass.Int64(", [f"m{t.name}.shape[{i}]"], ")", 4)
                checks += [f"0 < {mode}"] if t is out else []
                checks.append(f"{mode} <= LARGEST")
    asked = {name for limit in grid for name in re.findall(r"[A-Za-z]\w*", limit.holds)}
    sizes |= {mode: f"{mode} = {size}" for mode, size in spec.static.items() if mode in asked}
    if can_overlap_itself(out):
        checks.append(f"_distinct(m{out.name})")
    checks += [f"_apart(m{out.name}, m{t.name})" for t in others] or [f"m{out.name}.iterator.toint() > 0"]
    return {
        "distinct_output": can_overlap_itself(out),
        "other_tensors": bool(others),
        "launch_sizes": list(sizes.values()),
        "launch_checks": _refuse_unless(checks),
        "launch_limits": [(limit.path, _refuse_unless([limit.holds])) for limit in grid],
    }


def _refuse_unless(checks: list[str]) -> str:
    """The call in one line, or with all checks in a line of their own, or with a line for each."""
    if len(checks) > 1:
        checks = [check if check.startswith("_") else f"({check})" for check in checks]
    flat = " & ".join(checks)
    if len(flat) + 20 <= WIDTH:
        return f"_refuse_unless({flat})"
    if len(flat) + 8 <= WIDTH:
        return f"_refuse_unless(\n        {flat}\n    )"
    return chain("_refuse_unless", checks, " & ", 4)
