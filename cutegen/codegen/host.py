"""What the host side of a generated module prints: parameters, checks, fake tensors, the torch reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cutegen.codegen.expressions import TorchPrinter
from cutegen.codegen.formatting import WIDTH, Item, call, raising
from cutegen.codegen.launch_checks import can_overlap_itself, launch_checks, limits
from cutegen.codegen.workspaces import workspace_texts
from cutegen.language.expressions import Expr, MatMul
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.layouts import leaves, modes_of, offsets
from cutegen.planning.plan import GemmPlan, Plan, ProbePlan

PYTHON_TYPES = {"f32": "float", "f64": "float", "i32": "int"}
MODE_DEFAULT = 1024  # of the command line's sizes
TABLE_ROWS = 64  # of a probe's threads, for their values to be listed


def host_context(plan: Plan) -> dict[str, Any]:
    spec = plan.spec
    arguments = [t.argument for t in spec.tensors] + [s.argument for s in spec.scalars]
    parameters = [f"{t.argument}: torch.Tensor" for t in spec.tensors]
    parameters += [f"{s.argument}: {PYTHON_TYPES[s.dtype.value]}" for s in spec.scalars]
    spaces = workspace_texts(plan)
    checks = _checks(spec) + [line for limit in limits(plan) for line in limit.lines]
    checks = [kept for line in checks if (kept := _without_unused(line, checks))]
    return {
        "host_parameters": parameters,
        "host_summary": spec.summary.rstrip(".") + "." if spec.summary else f"{spec.compute.text}.",
        "argument_docs": [(f"tensors.{t.name}", _document(spec, t)) for t in spec.tensors],
        "checks": checks,
        "scalar_checks": _scalar_checks(spec),
        "fast_conditions": _fast_conditions(plan),
        "gradients": _gradients(spec),
        **launch_checks(plan),
        "empty_operands": _empty_operands(plan),
        "call_arguments": arguments,
        "with_workspaces": _returned([*arguments, *(x.memory for x in spaces)]),
        "launch_arguments": [f"*_arguments({', '.join(arguments)})"] if spaces else arguments,
        "symbols": _symbols(spec),
        "fakes": _fakes(spec) + [(x.path, line) for x in spaces for line in x.fakes(spec.static)],
        "compile_arguments": [
            "launch",
            *(t.argument for t in spec.tensors),
            *(f"cutlass.{s.dtype.cutlass}({_one(s.dtype.is_float)})" for s in spec.scalars),
            *(x.parameter for x in spaces),
            "stream",
        ],
        "workspaces": spaces,
        "reference_lines": reference_lines(plan),
        "scalars": spec.scalars,
        **_inputs(plan),
    }


def _returned(items: list[str]) -> str:
    flat = f"return {', '.join(items)}"
    return flat if 4 + len(flat) <= WIDTH else call("return (", items, ")", 4)


def _one(is_float: bool) -> str:
    return "1.0" if is_float else "1"


def _document(spec: KernelSpec, tensor: Tensor) -> str:
    """`a: [M, K] float32, M contiguous, 16-byte aligned, read`."""
    use = {"in": "read", "out": "written", "inout": "read and written"}[tensor.role]
    known = [f"{m} = {spec.static[m]}" for m in tensor.shape if m in spec.static]
    known += [f"{m} % {spec.divisible[m]} == 0" for m in tensor.shape if m in spec.divisible and m not in spec.static]
    extra = f" ({', '.join(known)})" if known else ""
    text = f"{tensor.argument}: [{', '.join(tensor.shape)}]{extra} {tensor.dtype.torch}, "
    return f"{text}{tensor.major} contiguous, {tensor.align}-byte aligned, {use}."


def _checks(spec: KernelSpec) -> list[str]:
    lines: list[str] = []
    for t in spec.tensors:
        assert t.major is not None
        items = [f'"{t.argument}"', t.argument, f"torch.{t.dtype.torch}", str(len(t.shape))]
        items += [str(t.shape.index(t.major)), str(t.align)]
        lines.append(call("_check(", items, ")", 4))
    out = spec.output.argument
    for t in spec.tensors:
        if t.argument != out:
            lines.append(f"if {t.argument}.device != {out}.device:")
            lines += raising(
                "    ", f"{t.argument}: expected {{{out}.device}}, where {out} is, ", f"got {{{t.argument}.device}}"
            )
    bound: dict[str, str] = {}  # mode -> the argument that its size was taken from
    first = spec.output
    for t in (first, *(t for t in spec.tensors if t.name != first.name)):
        fresh = [m for m in t.shape if m not in bound]
        if len(fresh) == len(t.shape):
            targets = f"({t.shape[0]},)" if len(t.shape) == 1 else ", ".join(t.shape)
            lines.append(f"{targets} = {t.argument}.shape")
        else:
            for m in fresh:
                lines.append(f"{m} = {t.argument}.shape[{t.shape.index(m)}]")
        agreed = [m for m in t.shape if m not in fresh]
        if agreed:
            wanted = ", ".join(t.shape) + ("," if len(t.shape) == 1 else "")
            lines.append(f"if {t.argument}.shape != ({wanted}):")
            others = ", ".join(dict.fromkeys(bound[m] for m in agreed))
            lines += raising(
                "    ",
                f"{t.argument}: expected shape ({', '.join(t.shape)}) = {{({wanted})}}, as {others} "
                f"{'has' if ',' not in others else 'have'} it, ",
                f"got {{tuple({t.argument}.shape)}}",
            )
        for m in fresh:
            bound[m] = t.argument
    for mode in bound:
        owner = bound[mode]
        if mode in spec.static:
            lines.append(f"if {mode} != {spec.static[mode]}:")
            lines += raising("    ", f"{owner}: expected {mode} = {spec.static[mode]}, ", f"got {{{mode}}}")
        elif spec.divisible.get(mode, 1) > 1:
            lines.append(f"if {mode} % {spec.divisible[mode]}:")
            lines += raising(
                "    ", f"{owner}: expected {mode} to be a multiple of {spec.divisible[mode]}, ", f"got {{{mode}}}"
            )
    if can_overlap_itself(spec.output):
        lines.append(f"if {out}.numel() and not _distinct({out}):")
        lines += raising("    ", f"{out}: expected elements that share no memory, ", f"got strides {{{out}.stride()}}")
    for t in spec.tensors:
        if t.argument != out:
            message = f"{out}: expected memory of its own, got some of {t.argument}'s"
            lines += [f"if {out}.numel() and not _apart({out}, {t.argument}):", f'    raise ValueError("{message}")']
    return lines


def _without_unused(line: str, lines: list[str]) -> str:
    """`M, N = c.shape` with `_` for sizes that nothing looks at."""
    names, separator, source = line.partition(" = ")
    if not (separator and source.endswith(".shape")):
        return line
    others = " ".join(other for other in lines if other is not line)
    used = [bool(re.search(rf"\b{name}\b(?!:)", others)) for name in re.findall(r"\w+", names)]
    kept = iter(used)
    return re.sub(r"\w+", lambda m: m[0] if next(kept) else "_", names) + separator + source if any(used) else ""


def _scalar_checks(spec: KernelSpec) -> list[str]:
    lines = []
    for s in spec.scalars:
        name, kind = s.argument, PYTHON_TYPES[s.dtype.value]
        accepted = "numbers.Real" if s.dtype.is_float else "numbers.Integral"
        lines.append(f"if not isinstance({name}, {accepted}):")
        wanted = "an int" if kind == "int" else "a float"
        lines += raising("    ", f"{name}: expected {wanted}, ", f"got {{type({name}).__name__}}", "TypeError")
        if not s.dtype.is_float:
            lines.append(f"if not -(2**31) <= {name} < 2**31:")
            lines += raising("    ", f"{name}: expected 32 bits, ", f"got {{{name}}}")
    return lines


def _fast_conditions(plan: Plan) -> list[str]:
    """What the compiled function cannot check."""
    tensors = plan.spec.tensors
    # It takes signed for unsigned integers and the other way round
    conditions = [f"{t.argument}.dtype is torch.{t.dtype.torch}" for t in tensors if not t.dtype.is_float]
    return [*conditions, "not (wants_gradient and torch.is_grad_enabled())"] if _gradients(plan.spec) else conditions


def _gradients(spec: KernelSpec) -> list[str]:
    """Whether autograd follows an argument: integers have no gradients."""
    return [f"{t.argument}.requires_grad" for t in spec.tensors if t.dtype.is_float]


def _empty_operands(plan: Plan) -> list[str]:
    """With k = 0 the operands have no elements, and torch gives them strides that the compiled function refuses."""
    if not isinstance(plan, GemmPlan):
        return []
    lines = []
    for tensor in (plan.spec.tensor(x.tensor.name) for x in (plan.a, plan.b)):
        unit = max(1, (tensor.align or 1) // tensor.dtype.bytes)
        strides = ", ".join("1" if m == tensor.major else str(unit) for m in tensor.shape)
        name = tensor.argument
        lines.append(f"{name} = {name}.as_strided({name}.shape, ({strides}))")
    return lines


def _symbols(spec: KernelSpec) -> list[tuple[str, str]]:
    """One symbolic size for each mode that is not fixed, with the divisibility that the host checks; its key first."""
    lines = []
    for mode in spec.modes:
        if mode not in spec.static:
            divisor = spec.divisible.get(mode, 1)
            symbol = f"{mode} = cute.sym_int({f'divisibility={divisor}' if divisor > 1 else ''})"
            lines.append((f"divisible.{mode}" if mode in spec.divisible else "tensors", symbol))
    return lines


def _fakes(spec: KernelSpec) -> list[tuple[str, str]]:
    """A stand-in for each tensor, of which the compiler learns what it is promised; its key first."""
    lines = []
    for t in spec.tensors:
        unit = max(1, (t.align or 1) // t.dtype.bytes)
        symbol = f"cute.sym_int64({f'divisibility={unit}' if unit > 1 else ''})"
        sizes = [str(spec.static.get(m, m)) for m in t.shape]
        strides = ["1" if m == t.major else symbol for m in t.shape]
        close = ",)" if len(sizes) == 1 else ")"
        items: list[Item] = [f"cutlass.{t.dtype.cutlass}", ("(", sizes, close), ("(", strides, close)]
        text = call(f"{t.argument} = make_fake_tensor(", [*items, f"assumed_align={t.align}"], ")", 4)
        lines.append((f"tensors.{t.name}", text))
    return lines


def reference_lines(plan: Plan) -> list[str]:
    """Statements on the arguments of the generated function that end in `result = ...`, what it computes in torch."""
    spec, value = plan.spec, plan.pointwise.value
    if isinstance(plan, ProbePlan):
        return _probe_reference(plan)
    lines = []
    text = "\n".join(_printed(spec, value, plan))
    if "device=device" in text or spec.scalars:
        lines.append(f"device = {spec.output.argument}.device")
    for s in spec.scalars:
        items = [s.argument, f"dtype=torch.{s.dtype.torch}", "device=device"]
        lines.append(call(f"{s.argument} = torch.tensor(", items, ")", 4))
    for o in plan.pointwise.operands:
        if o.broadcast and o.read:
            index = ", ".join("None" if m in o.broadcast else ":" for m in spec.output.shape)
            lines.append(f"{o.tensor.argument} = {o.tensor.argument}[{index}]")
    if isinstance(plan, GemmPlan):
        a, b, dtype = plan.a.tensor, plan.b.tensor, spec.schedule.mma.accumulator  # type: ignore[union-attr]
        assert dtype is not None
        factors = [t.argument if t.dtype is dtype else f"{t.argument}.to(torch.{dtype.torch})" for t in (a, b)]
        lines.append(f"product = {factors[0]} @ {factors[1]}.T")
        if isinstance(value, MatMul):
            return [*lines[:-1], f"result = {factors[0]} @ {factors[1]}.T"]
    return lines + _printed(spec, value, plan)


def _printed(spec: KernelSpec, value: Expr, plan: Plan) -> list[str]:
    names = {t.name: t.argument for t in spec.tensors} | {s.name: s.argument for s in spec.scalars}
    tensors = frozenset(t.name for t in spec.tensors)
    printer = TorchPrinter(names, tensors, "product" if isinstance(plan, GemmPlan) else None, WIDTH - 4)
    return printer.run(value, "result")


def _probe_reference(plan: ProbePlan) -> list[str]:
    source = plan.source.argument
    threads = plan.threads
    image = offsets(plan.tv_layout)
    rows = [[image[t + threads * v] for v in range(plan.values)] for t in range(threads)]
    flat = f"{source}.permute({', '.join(str(i) for i in reversed(range(len(plan.tiler))))}).reshape(-1)"
    if len(plan.tiler) == 1:
        flat = source
    printed = [f"[{', '.join(map(str, row))}]" for row in rows]
    if len(rows) <= TABLE_ROWS and max(len(row) for row in printed) <= WIDTH - 13:
        table = [f"        {row}," for row in printed]
        lines = ["# Row: thread, column: value", "probe_index = torch.tensor(", "    [", *table, "    ],"]
        lines += [f"    device={source}.device,", ")"]
    else:
        lines = [
            "# The layout, written out: value = sum over its modes of coordinate * stride",
            *_enumerate(plan, source),
        ]
    names = {plan.source.name: "result"}
    printer = TorchPrinter(names, frozenset(names), None, WIDTH - 4)
    return [
        *lines,
        f"result = {flat}[probe_index]",
        *(s for s in printer.run(plan.pointwise.value, "result") if s != "result = result"),
    ]


def _enumerate(plan: ProbePlan, source: str) -> list[str]:
    """index[t, v] built from the layout's modes, for layouts too large to list."""
    lines = []
    for name, mode in zip(("thread_offsets", "value_offsets"), modes_of(plan.tv_layout), strict=True):
        lines.append(f"{name} = torch.zeros(1, dtype=torch.int64, device={source}.device)")
        for extent, stride in leaves(mode):
            lines.append(f"mode_offsets = torch.arange({extent}, device={source}.device) * {stride}")
            lines.append(f"{name} = (mode_offsets[:, None] + {name}[None, :]).reshape(-1)")
    return [*lines, "probe_index = thread_offsets[:, None] + value_offsets[None, :]"]


def _inputs(plan: Plan) -> Mapping[str, Any]:
    spec = plan.spec
    free = [m for m in spec.modes if m not in spec.static]
    values = []
    for t in spec.tensors:
        sizes = ", ".join(str(spec.static.get(m, m)) for m in t.shape) + ("," if len(t.shape) == 1 else "")
        assert t.major is not None and t.align is not None
        items = [f"torch.{t.dtype.torch}", f"({sizes})", str(t.shape.index(t.major))]
        values.append(call("random(", [*items, str(max(1, t.align // t.dtype.bytes))], ")", 8))
    values += ["1.5" if s.dtype.is_float else "2" for s in spec.scalars]
    defaults = {m: _default(plan, m) for m in free}
    return {
        "input_parameters": [*(f"{m}: int = {defaults[m]}" for m in free), 'device: str = "cuda"', "seed: int = 0"],
        "input_values": values,
        "mode_arguments": [(m, defaults[m]) for m in free],
        "main_inputs": [f"{m}=args.{m}" for m in free],
    }


def _default(plan: Plan, mode: str) -> int:
    """The spec's first size, else a size near a thousand that the kernel accepts."""
    for shape in plan.spec.verify.shapes:
        if mode in shape:
            return shape[mode]
    unit = plan.spec.divisible.get(mode, 1)
    return max(1, MODE_DEFAULT // unit) * unit
