"""What the host side of a generated module prints: parameters, checks, fake tensors, the torch reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.codegen.formatting import WIDTH, Item, call, raising
from cutegen.codegen.launch_checks import can_overlap_itself, memory_pairs
from cutegen.codegen.parts import KernelParts, Limit
from cutegen.expressions.tree import Call, walk
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.plan import Plan

PYTHON_TYPES = {"f32": "float", "f64": "float", "i32": "int"}
ELEMENTS_DEFAULT = 1 << 20  # of a tensor, where the command line gives no sizes
MAY_BE_NAN = ("log", "sqrt", "rsqrt")  # of the random numbers that `make_inputs` gives


def host_context(plan: Plan, parts: KernelParts) -> dict[str, Any]:
    """All that the host side of a module prints except for `launch`."""
    spec = plan.spec
    arguments = [t.argument for t in spec.tensors] + [s.argument for s in spec.scalars]
    parameters = [f"{t.argument}: torch.Tensor" for t in spec.tensors]
    parameters += [f"{s.argument}: {PYTHON_TYPES[s.dtype.value]}" for s in spec.scalars]
    spaces = parts.workspaces.each if parts.workspaces else ()
    checks = _checks(spec, parts.limits)
    return {
        "host_parameters": parameters,
        "host_summary": (spec.summary or spec.compute.text.replace("\n", "\n    ")).rstrip(".") + ".",
        "documentation": [
            *((f"tensors.{t.name}", _document(spec, t)) for t in spec.tensors),
            *((x.path, x.documentation) for x in spaces),
        ],
        "checks": checks,
        "scalar_checks": _scalar_checks(spec),
        "fast_conditions": _fast_conditions(spec),
        "gradients": _gradients(spec),
        "without_elements": parts.without_elements,
        "call_arguments": arguments,
        "with_workspaces": _tuple_returned([*arguments, *(x.memory for x in spaces)]),
        "launch_arguments": [f"*_arguments({', '.join(arguments)})"] if spaces else arguments,
        "symbols": _symbols(spec),
        "fakes": _fakes(spec) + [(x.path, line) for x in spaces for line in x.fakes],
        "compile_arguments": [
            "launch",
            *(t.argument for t in spec.tensors),
            *(f"cutlass.{s.dtype.cutlass}({_one(s.dtype.is_float)})" for s in spec.scalars),
            *(x.parameter for x in spaces),
            "stream",
        ],
        "workspaces": parts.workspaces,
        "workspaces_template": f"{spec.family.name}/{parts.workspaces.template}" if parts.workspaces else "",
        "scalars": spec.scalars,
        **_results(plan),
        **_inputs(spec),
    }


def _results(plan: Plan) -> dict[str, Any]:
    """The texts about what the public function and `reference` return: the output, or a tuple of all."""
    outputs = [tensor.argument for tensor in plan.spec.outputs]
    reference = plan.spec.operation.reference(plan)
    quoted = [f"`{output}`" for output in outputs]
    told = " and ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[:-1] else quoted)
    made = [f"torch.empty_like({out}).copy_({x})" for out, x in zip(outputs, reference.results, strict=True)]
    promises = [
        f"Runs on the current stream and returns {told}. Raises TypeError or ValueError",
        "with the name of the argument that does not fit. The first call on a device compiles: make",
        "one before a CUDA graph is captured.",
    ]
    if len(outputs) > 1:  # however many they are
        promises = [
            f"Runs on the current stream and returns {told}.",
            "Raises TypeError or ValueError with the name of the argument that does not fit.",
            "The first call on a device compiles: make one before a CUDA graph is captured.",
        ]
    return {
        "result_type": "torch.Tensor" if len(outputs) == 1 else f"tuple[{', '.join(['torch.Tensor'] * len(outputs))}]",
        "promises": promises,
        "returned": f"return {', '.join(outputs)}",
        "reference_lines": reference.lines,
        "what_results": f"{'a new tensor' if len(outputs) == 1 else 'new tensors'} like {told}",
        "returned_results": _tuple_returned(made),
    }


def _tuple_returned(items: list[str]) -> str:
    flat = f"return {', '.join(items)}"
    return flat if 4 + len(flat) <= WIDTH or len(items) == 1 else call("return (", items, ")", 4)


def _one(is_float: bool) -> str:
    return "1.0" if is_float else "1"


def _document(spec: KernelSpec, tensor: Tensor) -> str:
    """A tensor's line in the module's documentation, such as `a: [M, K] float32, M contiguous,
    16-byte aligned, read`.
    """
    use = {"in": "read", "out": "written", "inout": "read and written"}[tensor.role]
    known = [f"{m} = {spec.static[m]}" for m in tensor.shape if m in spec.static]
    known += [f"{m} % {spec.divisible[m]} == 0" for m in tensor.shape if m in spec.divisible and m not in spec.static]
    extra = f" ({', '.join(known)})" if known else ""
    text = f"{tensor.argument}: [{', '.join(tensor.shape)}]{extra} {tensor.dtype.torch}, "
    return f"{text}{tensor.major} contiguous, {tensor.align}-byte aligned, {use}."


def _checks(spec: KernelSpec, limits: Sequence[Limit]) -> list[str]:
    """The statements of `_check_all` on tensors; of a shape they name the sizes that later ones look at."""
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
    ordered = (first, *(t for t in spec.tensors if t.name != first.name))
    looked_at = _modes_looked_at(spec, ordered, limits)
    for t in ordered:
        fresh = [m for m in t.shape if m not in bound]
        if len(fresh) == len(t.shape):
            names = [m if m in looked_at else "_" for m in fresh]
            targets = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
            lines += [f"{targets} = {t.argument}.shape"] if looked_at.intersection(fresh) else []
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
    for output in (t for t in spec.outputs if can_overlap_itself(t)):
        name = output.argument
        lines.append(f"if {name}.numel() and not _distinct({name}):")
        lines += raising(
            "    ", f"{name}: expected elements that share no memory, ", f"got strides {{{name}.stride()}}"
        )
    for output, t in memory_pairs(spec):
        name = output.argument
        message = f"{name}: expected memory of its own, got some of {t.argument}'s"
        lines += [f"if {name}.numel() and not _apart({name}, {t.argument}):", f'    raise ValueError("{message}")']
    return lines + [line for limit in limits for line in limit.lines]


def _modes_looked_at(spec: KernelSpec, ordered: Sequence[Tensor], limits: Sequence[Limit]) -> set[str]:
    """The modes whose sizes are compared: fixed, of a multiple, in a limit, or of a tensor that shares a mode."""
    found = {mode for limit in limits for mode in limit.modes}
    seen: set[str] = set()
    for tensor in ordered:
        if seen.intersection(tensor.shape):
            found.update(tensor.shape)
        seen.update(tensor.shape)
    return found | {mode for mode in seen if mode in spec.static or spec.divisible.get(mode, 1) > 1}


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


def _fast_conditions(spec: KernelSpec) -> list[str]:
    """The conditions that the compiled function cannot check."""
    tensors = spec.tensors
    # It takes signed for unsigned integers and the other way round
    conditions = [f"{t.argument}.dtype is torch.{t.dtype.torch}" for t in tensors if not t.dtype.is_float]
    return [*conditions, "not (wants_gradient and torch.is_grad_enabled())"] if _gradients(spec) else conditions


def _gradients(spec: KernelSpec) -> list[str]:
    """The conditions under which autograd follows an argument: integers have no gradients."""
    return [f"{t.argument}.requires_grad" for t in spec.tensors if t.dtype.is_float]


def _symbols(spec: KernelSpec) -> list[tuple[str, str]]:
    """The lines that make a symbolic size for each mode that is not fixed, each with its key in the spec.

    They promise the divisibility that the host checks.
    """
    lines = []
    for mode in spec.modes:
        if mode not in spec.static:
            divisor = spec.divisible.get(mode, 1)
            symbol = f"{mode} = cute.sym_int({f'divisibility={divisor}' if divisor > 1 else ''})"
            lines.append((f"divisible.{mode}" if mode in spec.divisible else "tensors", symbol))
    return lines


def _fakes(spec: KernelSpec) -> list[tuple[str, str]]:
    """The lines that make a stand-in for each tensor, each with its key in the spec.

    From it the compiler learns what it is promised of the tensor.
    """
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


def _inputs(spec: KernelSpec) -> Mapping[str, Any]:
    """The texts that `make_inputs` and the command line print."""
    free = [m for m in spec.modes if m not in spec.static]
    values = []
    for t in spec.tensors:
        sizes = ", ".join(str(spec.static.get(m, m)) for m in t.shape) + ("," if len(t.shape) == 1 else "")
        assert t.major is not None and t.align is not None
        items = [f"torch.{t.dtype.torch}", f"({sizes})", str(t.shape.index(t.major))]
        values.append(call("random(", [*items, str(max(1, t.align // t.dtype.bytes))], ")", 8))
    values += ["1.5" if s.dtype.is_float else "2" for s in spec.scalars]
    defaults = {m: _default(spec, m) for m in free}
    nodes = [x for value in spec.compute.values for x in walk(value)]
    return {
        "input_parameters": [*(f"{m}: int = {defaults[m]}" for m in free), 'device: str = "cuda"', "seed: int = 0"],
        "input_values": values,
        "mode_arguments": [(m, defaults[m]) for m in free],
        "main_inputs": [f"{m}=args.{m}" for m in free],
        "may_be_nan": any(isinstance(x, Call) and x.function in MAY_BE_NAN for x in nodes),
    }


def _default(spec: KernelSpec, mode: str) -> int:
    """The default size of a mode: the spec's first, else one that the kernel accepts, near a thousand for two modes."""
    for shape in spec.verify.shapes:
        if mode in shape:
            return shape[mode]
    unit = spec.divisible.get(mode, 1)
    rank = max(2, *(len(t.shape) for t in spec.tensors))
    size = 1 << ((ELEMENTS_DEFAULT.bit_length() - 1) // rank)
    return max(1, size // unit) * unit
