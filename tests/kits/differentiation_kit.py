"""Backwards held to torch's autograd: statements evaluated in float64, by an evaluator that knows nothing of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch

from cutegen.differentiation import Backward, backward
from cutegen.expressions.sums import named, of
from cutegen.expressions.tree import Binary, Call, Cast, Coord, Expr, Len, Literal_, Name, Reduce, Unary
from cutegen.language.lengths import lengths_of
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs

SIZES = {"A": 2, "B": 2, "M": 3, "N": 5, "T": 3, "H": 2, "D": 4, "Q": 3, "K": 5, "G": 2, "KB": 2, "R": 2}
ROWS = {"x": "M,N f64", "y": "M,N f64", "z": "M,N f64", "w": "M f64"}
VALUES = {name: of(named(name, text.split()[0].split(","))) for name, text in ROWS.items()}
"""The meaning of names in a text of `numbers`, in sums."""

_OPERATIONS = {
    "+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.true_divide, "**": torch.pow, "<": torch.lt,
    "<=": torch.le, ">": torch.gt, ">=": torch.ge, "==": torch.eq, "!=": torch.ne, "and": torch.logical_and,
    "or": torch.logical_or, "%": torch.remainder,
}  # fmt: skip
_FUNCTIONS = {
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    **{name: getattr(torch.nn.functional, name) for name in ("softplus", "logsigmoid", "mish")},
    "leaky_relu": lambda x, slope: torch.where(x > 0, x, x * slope),
    "elu": lambda x, alpha: torch.where(x <= 0, alpha * torch.expm1(x), x),
    "hardswish": torch.nn.functional.hardswish,
}
_REDUCTIONS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}


def spec_text(op: str, tensors: Mapping[str, str], compute: Sequence[str], scalars: str = "", more: str = "") -> str:
    """A spec; tensors are `NAME: "M,N f32 out"`, their roles left out where they are read."""
    lines = ["cutegen: 1", "kernel: k", f"op: {op}", "tensors:"]
    for name, text in tensors.items():
        shape, dtype, *role = text.split()
        lines.append(f"  {name}: {{shape: [{shape}], dtype: {dtype}{''.join(f', role: {r}' for r in role)}}}")
    lines += [f"scalars: {scalars}"] if scalars else []
    lines += ["compute:", *(f'  - "{line}"' for line in compute)]
    return "\n".join(lines) + f"\n{more}"


def spec_of(
    op: str, tensors: Mapping[str, str], compute: Sequence[str], scalars: str = "", more: str = ""
) -> KernelSpec:
    return read_specs(spec_text(op, tensors, compute, scalars, more))[0]


def lines(spec: KernelSpec) -> list[str]:
    return spec.compute.text.split("\n")


def run(spec: KernelSpec, values: Mapping[str, torch.Tensor], sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """The results of a spec's statements, in float64 regardless of their types; values have their tensors' modes. What
    does not exist behind a length counts for nothing.
    """
    modes = list(dict.fromkeys(mode for tensor in spec.tensors for mode in tensor.shape))
    known: dict[str, torch.Tensor] = {}
    for tensor in spec.tensors:
        if tensor.reads:
            whole = [mode for mode in modes if mode in tensor.shape]
            value = values[tensor.name].permute([tensor.shape.index(mode) for mode in whole])
            known[tensor.name] = value.reshape([sizes[mode] if mode in tensor.shape else 1 for mode in modes])
    for scalar in spec.scalars:
        known[scalar.name] = values[scalar.name].reshape([1] * len(modes))

    lengths = lengths_of(spec.tensors)
    used = known[lengths.used].clamp(0, sizes[lengths.mode]) if lengths else None

    def along(mode: str) -> torch.Tensor:
        return torch.arange(sizes[mode]).reshape([sizes[one] if one == mode else 1 for one in modes])

    def evaluate(node: Expr) -> torch.Tensor:
        match node:
            case Len():
                whole = torch.tensor(sizes[node.mode]).reshape([1] * len(modes))
                return used if used is not None and lengths and node.mode == lengths.mode else whole
            case Literal_():
                kind = torch.float64 if isinstance(node.value, float) else None
                return torch.tensor(node.value, dtype=kind).reshape([1] * len(modes))
            case Name():
                return known[node.id]
            case Coord():
                return along(node.mode)
            case Unary():
                return torch.logical_not(evaluate(node.x)) if node.op == "not" else -evaluate(node.x)
            case Binary():
                left, right = evaluate(node.left), evaluate(node.right)
                if node.op == "/":  # of whole numbers torch makes floats of 32 bits
                    left, right = left.double(), right.double()
                return _OPERATIONS[node.op](left, right)
            case Call():
                arguments = [evaluate(argument) for argument in node.arguments]
                if node.function == "where":
                    return torch.where(arguments[0].bool(), *arguments[1:])
                arguments = [argument.double() for argument in arguments]
                return _FUNCTIONS.get(node.function, getattr(torch, node.function, None))(*arguments)
            case Reduce():
                x = evaluate(node.x).double()
                axis = modes.index(node.mode)
                assert x.shape[axis] == sizes[node.mode], "what is reduced has no such mode"
                if used is not None and lengths and node.mode == lengths.mode:
                    x = torch.where(along(node.mode) < used, x, -torch.inf if node.function == "max" else 0.0)
                return _REDUCTIONS.get(node.function, getattr(torch, node.function))(x, axis, keepdim=True)
            case Cast():
                assert node.dtype is not None
                x = evaluate(node.x)
                return x.double() if node.dtype.is_float else x.detach().trunc().long()
        raise AssertionError(node)

    found = {}
    for statement in spec.compute.statements:
        known[statement.target] = evaluate(statement.value)
        tensor = next((t for t in spec.tensors if t.name == statement.target), None)
        if tensor is not None:
            whole = known[statement.target].expand([sizes[m] if m in tensor.shape else 1 for m in modes])
            kept = [mode for mode in modes if mode in tensor.shape]
            there = whole.reshape([sizes[mode] for mode in kept])
            found[tensor.name] = there.permute([kept.index(mode) for mode in tensor.shape])
    return found


def numbers(text: str) -> torch.Tensor:
    """A text's value, on numbers of which z and w are positive, in a statement that reads all of them."""
    read = " + ".join(ROWS)
    spec = spec_of("rowwise", {**ROWS, "out_": "M,N f64 out"}, [f"out_ = {text} + 0 * ({read} + sum(x, N))"])
    values = inputs(spec, SIZES)
    return run(spec, {**values, "z": values["z"].abs() + 0.1, "w": values["w"].abs() + 0.1}, SIZES)["out_"]


def inputs(spec: KernelSpec, sizes: Mapping[str, int], seed: int = 0, whole: bool = False) -> dict[str, torch.Tensor]:
    """Random values of what a spec reads; `whole` ones are small whole numbers, many of them equal."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for tensor in spec.tensors:
        shape = [sizes[mode] for mode in tensor.shape]
        if whole or not tensor.dtype.is_float:
            low = 0 if not tensor.dtype.is_float else -2
            value = torch.randint(low, 3, shape, generator=generator)
            found[tensor.name] = value.double() if tensor.dtype.is_float else value
        else:
            found[tensor.name] = torch.randn(shape, generator=generator, dtype=torch.float64)
    for scalar in spec.scalars:
        value = torch.rand((), generator=generator, dtype=torch.float64) + 0.1
        found[scalar.name] = value if scalar.dtype.is_float else torch.tensor(2)
    return found


def check(
    spec: KernelSpec,
    made: Backward | None = None,
    of: Sequence[str] = (),
    whole: bool = False,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    positive: Collection[str] = (),
    fixed: Mapping[str, torch.Tensor] | None = None,
) -> Backward:
    """Holds a backward to torch's gradients, with inputs of which some are `positive`, some `fixed`; returns it."""
    made = backward(spec, of_outputs=of) if made is None else made
    spec, kernels = spec.by_element, [one.by_element for one in made.specs]
    sizes = {**SIZES, **(sizes or {}), **spec.static}
    values = inputs(spec, sizes, seed, whole)
    values |= {name: values[name].abs() + 0.1 for name in positive} | dict(fixed or {})
    leaves = {t.name: values[t.name].clone().requires_grad_() for t in spec.tensors if t.reads and t.dtype.is_float}
    outputs = run(spec, {**values, **leaves}, sizes)
    floats = [name for name, x in outputs.items() if spec.tensor(name).dtype.is_float and (not of or name in of)]
    generator = torch.Generator().manual_seed(seed + 1)
    cotangents = {name: torch.randn(outputs[name].shape, generator=generator, dtype=torch.float64) for name in floats}
    total = sum((outputs[name] * cotangents[name]).sum() for name in floats)
    assert isinstance(total, torch.Tensor)
    grads = {}
    if total.requires_grad:
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        grads = dict(zip(leaves, found, strict=True))
    given = {**values, **{name: x.detach() for name, x in outputs.items() if spec.tensor(name).role == "out"}}
    given |= {f"{name}_after": x.detach() for name, x in outputs.items() if spec.tensor(name).role == "inout"}
    given |= {made_name(own, name): x for own in kernels for name, x in cotangents.items()}
    shapes = {t.name: t.shape for t in spec.tensors}
    shapes |= {made_name(own, name): shapes[name] for own in kernels for name in cotangents}
    for own in kernels:  # each may read what those before it wrote
        read = {t.name: in_order(given[t.name], shapes.get(t.name, t.shape), t.shape) for t in own.tensors if t.reads}
        given |= run(own, {**given, **read}, sizes)
        shapes |= {t.name: t.shape for t in own.tensors if t.writes}
    made_by = [(name, made_name(own, name, out=True)) for own in kernels for name in leaves]
    results = {name: in_order(given[d], shapes[d], spec.tensor(name).shape) for name, d in made_by if d}
    wanted = {name: grad for name, grad in grads.items() if name in results}
    assert wanted
    for name, grad in wanted.items():
        result = results[name]
        grad = torch.zeros_like(leaves[name]) if grad is None else grad
        scale = grad.nan_to_num().abs().max().item()
        torch.testing.assert_close(result.double(), grad, rtol=1e-7, atol=1e-9 * max(scale, 1.0), equal_nan=True)
    for name in (name for name in made.without if not spec.tensor(name).blocks):
        assert grads.get(name) is None or not grads[name].any()
    return made


def in_order(x: torch.Tensor, shape: Sequence[str], wanted: Sequence[str]) -> torch.Tensor:
    """A tensor of some modes with them in another order."""
    return x.permute([list(shape).index(mode) for mode in wanted]) if {*shape} == {*wanted} else x


def made_name(spec: KernelSpec, name: str, out: bool = False) -> str:
    """The name of a gradient in a backward; empty where it has none."""
    role = "out" if out else "in"
    wanted = [f"d{name}_before", f"d{name}", f"grad_{name}_before", f"grad_{name}"]
    there = {tensor.name for tensor in spec.tensors if tensor.role == role}
    return next((found for found in wanted if found in there), "")
