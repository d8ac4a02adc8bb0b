"""The part of a module that makes its kernel a torch op, with the gradient that other kernels compute."""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Sequence
from typing import Any

from cutegen.autograd import GRADIENT, Gradient, contiguous
from cutegen.codegen.formatting import WIDTH, Item, call, display, width_of
from cutegen.codegen.host import (
    PYTHON_TYPES,
    as_called,
    can_be_made,
    is_laid_out_by_torch,
    new,
    output_sizes,
    places,
    result_type,
)
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning import resolve
from cutegen.planning.report import Report

TOLD = "for torch to know without a GPU: sizes, types and strides"
ALIGNED_ROWS = "_aligned_rows"
SCHEMA_TYPES = {"float": "float", "int": "SymInt"}


def op_context(spec: KernelSpec, gradients: Sequence[Gradient]) -> dict[str, Any]:
    """All that the part of a module about its op prints; without an op, that there is none."""
    if spec.torch.op is None:
        return {"op": None, "gradient": None}
    taken = [t for t in spec.tensors if not can_be_made(spec, t)]
    made = [t for t in spec.outputs if can_be_made(spec, t)]
    named = [t for t in taken if not t.reads]
    parameters = [*(f"{t.argument}: torch.Tensor" for t in spec.inputs)]
    parameters += [f"{s.argument}: {PYTHON_TYPES[s.dtype.value]}" for s in spec.scalars]
    parameters += [*(["*"] if named else []), *(f"{t.argument}: torch.Tensor" for t in named)]
    given = {x.argument: x.argument for x in (*places(spec), *named)}
    casts = {t.argument: f"{t.argument}.to(torch.{t.dtype.torch})" for t in taken if t.dtype.is_float and not t.writes}
    returned = [t.argument for t in made]
    return {
        "op": spec.torch.op,
        "op_schema": _text("schema", _schema(spec, named, made)),
        "op_parameters": parameters,
        "op_result": result_type(len(made)),
        "op_call": call(f"{_target(spec, made)}{spec.kernel}(", as_called(spec, given), ")", 4),
        "op_returned": ", ".join(returned),
        "op_all_made": len(made) == len(spec.outputs),
        "op_fakes": [_fake(spec, t) for t in made],
        "op_fake_says": f"The outputs of the op, {TOLD}"
        if made
        else "Nothing, as the op itself: it only writes arguments",
        "op_casts": as_called(spec, given | casts),
        "gradient": _gradient(spec, gradients, taken, made) if gradients else None,
    }


def _schema(spec: KernelSpec, named: Sequence[Tensor], made: Sequence[Tensor]) -> str:
    """The op's schema as torch writes it; what is written among the arguments is marked, each by a letter.

    `named` are the outputs that it takes by name, `made` those that it returns.
    """
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ")

    def argument(t: Tensor) -> str:
        return f"Tensor({next(letters)}!) {t.argument}" if t.writes else f"Tensor {t.argument}"

    arguments = [argument(t) for t in spec.inputs]
    arguments += [f"{SCHEMA_TYPES[PYTHON_TYPES[s.dtype.value]]} {s.argument}" for s in spec.scalars]
    arguments += [*(["*"] if named else []), *(argument(t) for t in named)]
    results = "Tensor" if len(made) == 1 else f"({', '.join(['Tensor'] * len(made))})"
    return f"({', '.join(arguments)}) -> {results}"


def _text(name: str, text: str) -> str:
    """The statement that names a text, of several lines where it is long."""
    if 4 + width_of(f'{name} = "{text}"') <= WIDTH:
        return f'{name} = "{text}"'
    lines = textwrap.wrap(text, WIDTH - 12, break_long_words=False, break_on_hyphens=False)
    pieces = [f'        "{line} "' for line in lines[:-1]] + [f'        "{lines[-1]}"']
    return "\n".join([f"{name} = (", *pieces, "    )"])


def _target(spec: KernelSpec, made: Sequence[Tensor]) -> str:
    """The text before the public function's call: empty, `return `, or an assignment to outputs that the op makes."""
    if not made:
        return ""
    if len(made) == len(spec.outputs):
        return "return "
    return ", ".join(t.argument if t in made else "_" for t in spec.outputs) + " = "


def _fake(spec: KernelSpec, tensor: Tensor) -> str:
    """The statement that makes a fake output for torch, with the sizes and strides of a call."""
    like, name = next(t for t in spec.tensors if t.reads).argument, tensor.argument
    if not is_laid_out_by_torch(tensor):
        return new(spec, tensor, 4)
    sizes = output_sizes(spec, tensor)
    shape: Item = ("(", sizes, ",)" if len(sizes) == 1 else ")")
    items = [shape, f"dtype=torch.{tensor.dtype.torch}", f"device={like}.device"]
    return call(f"{name} = torch.empty(", items, ")", 4)


def _gradient(spec: KernelSpec, gradients: Sequence[Gradient], taken: Sequence[Tensor], made: Sequence[Tensor]) -> Any:
    """The template context of the gradient: what is saved for it, and the calls of the ops that compute it."""
    # By name: these kernels know the op's tensors as its spec was written, not with what was inferred
    saved = list(dict.fromkeys(t.argument for one in gradients for t in one.saved))
    read = {s.name for one in gradients for s in one.by.scalars}
    numbers = [s.argument for s in spec.scalars if s.name in read]
    read = {t.name for one in gradients for t in one.given.values()}
    constant = [t.argument for t in made if t.name not in read]
    inputs = [*(t.argument for t in taken), *(s.argument for s in spec.scalars)]
    variables = _Variables({"ctx", "torch", ALIGNED_ROWS, *saved, *numbers})
    arriving = [variables.of(GRADIENT + t.name, "" if t.name in read else f"_{t.argument}") for t in made]
    calls = [line for one in gradients for line in _call(one, variables)]
    returned: dict[str, str] = {}
    for one in gradients:
        for name, tensor in one.made.items():
            returned[tensor.name] = _in_order(variables.of(name), one.by.tensor(name).shape, tensor.shape)
    returns = [*(returned.get(t.name, "None") for t in taken), *["None"] * len(spec.scalars)]
    keeps: list[str] = []
    kept = {*saved, *numbers, *constant}
    if not kept.isdisjoint(inputs):
        keeps.append(_unpacked([x if x in kept else f"_{x}" for x in inputs], "inputs"))
    outputs = [t.argument for t in made]
    if not kept.isdisjoint(outputs):
        results = [x if x in kept else f"_{x}" for x in outputs]
        keeps.append(f"{outputs[0]} = output" if len(outputs) == 1 else _unpacked(results, "output"))
    if saved:
        keeps.append(call("ctx.save_for_backward(", saved, ")", 4))
    if numbers:
        keeps.append(_tuple("ctx.numbers = ", numbers))
    if constant:
        keeps.append(call("ctx.mark_non_differentiable(", constant, ")", 4))
    return {
        "says": _docstring([one.by.kernel for one in gradients]),
        "ops": [(one.by.kernel, *str(one.by.torch.op).split("::")) for one in gradients],
        "keeps": keeps,
        "head": call("def _gradient(", ["ctx", *arriving], ") -> tuple:", 0),
        "lines": [
            *([_unpacked(saved, "ctx.saved_tensors")] if saved else []),
            *([_unpacked(numbers, "ctx.numbers")] if numbers else []),
            *calls,
            _returned(returns),
        ],
        "aligned_rows": ALIGNED_ROWS if any(f"{ALIGNED_ROWS}(" in line for line in calls) else "",
    }


def _docstring(kernels: Sequence[str]) -> str:
    """The docstring of the function that computes a gradient, indented by 4; on several lines where it is long."""
    flat = f'"""The gradients of the arguments, by `{"` and `".join(kernels)}`."""'
    if 4 + width_of(flat) <= WIDTH:
        return flat
    lines = [f"    - `{name}`" for name in kernels]
    return "\n".join(['"""The gradients of the arguments, by these kernels.', "", *lines, '    """'])


class _Variables:
    """The variables of the function that computes a gradient: each has a name that no other one has."""

    def __init__(self, taken: set[str]) -> None:
        self._taken, self._names = taken, dict[str, str]()

    def of(self, name: str, wanted: str = "") -> str:
        """The variable of a gradient of that name in specs, which is called as `wanted` if that is free."""
        if name not in self._names:
            found = wanted or name.lower()
            while found in self._taken or keyword.iskeyword(found):
                found += "_"
            self._taken.add(found)
            self._names[name] = found
        return self._names[name]


def _unpacked(names: Sequence[str], value: str) -> str:
    """The statement that gives the values of a tuple their names."""
    return display("(", names, f") = {value}", 4) if len(names) > 1 and _is_long(names, value) else _flat(names, value)


def _flat(names: Sequence[str], value: str) -> str:
    return f"({names[0]},) = {value}" if len(names) == 1 else f"{', '.join(names)} = {value}"


def _is_long(names: Sequence[str], value: str) -> bool:
    return 4 + width_of(_flat(names, value)) > WIDTH


def _tuple(head: str, items: Sequence[str]) -> str:
    """A statement with a tuple of all items at its end."""
    flat = f"{head}{', '.join(items)}"
    if len(items) == 1:
        return f"{head}({items[0]},)"
    return flat if 4 + width_of(flat) <= WIDTH else display(f"{head}(", items, ")", 4)


def _returned(items: Sequence[str]) -> str:
    """The statement that returns a tuple, or the one item."""
    return f"return {items[0]}" if len(items) == 1 else _tuple("return ", items)


def _call(gradient: Gradient, variables: _Variables) -> list[str]:
    """The statements that call the op of one kernel of a gradient."""
    by, known = gradient.by, {t.name: (t, t.argument) for t in _inferred(gradient.of).tensors}
    for one in gradient.before:
        made = ((t, variables.of(t.name)) for t in _inferred(one).outputs)
        known |= {tensor.name: (tensor, text) for tensor, text in made if tensor.name in gradient.taken}
    arguments = []
    for tensor in (t for t in _inferred(by).tensors if t.reads):
        if tensor.name in known and tensor.name not in gradient.given:
            like, text = known[tensor.name]
            more = _unit(tensor) if (tensor.align or 1) > (like.align or 1) else 1
            fits = more == 1 and contiguous(tensor) == contiguous(like)
            text = text if fits else _placed(text, tensor, like.shape, more)
        else:
            like = gradient.given[tensor.name]
            text = _placed(variables.of(GRADIENT + like.name), tensor, like.shape, _unit(tensor))
        arguments.append(_in_order(text, like.shape, tensor.shape))
    numbers = {s.name: s.argument for s in gradient.of.scalars}
    arguments += [numbers[s.name] for s in by.scalars]
    results = [variables.of(t.name) for t in by.outputs]
    head = f" = torch.ops.{str(by.torch.op).replace('::', '.')}("
    flat = f"{', '.join(results)}{head}"
    target = flat if 4 + width_of(flat) <= WIDTH else display("(", results, f"){head}", 4)
    return [call(target, arguments, ")", 4)]


def _inferred(by: KernelSpec) -> KernelSpec:
    """A kernel with what is inferred of its tensors, which its host asks for; one with errors as it was written."""
    report = Report(by.source)
    found = resolve(by, report)
    return by if report.failed else found.by_argument


def _unit(tensor: Tensor) -> int:
    """The alignment in elements of a tensor's rows, as its spec promises."""
    return max(1, (tensor.align or 1) // tensor.dtype.bytes)


def _placed(variable: str, tensor: Tensor, shape: Sequence[str], unit: int) -> str:
    """A tensor of this shape as a kernel reads it: autograd gives any strides, and it is copied where it must be."""
    place, last = list(shape).index(contiguous(tensor)) if shape else 0, len(shape) - 1

    def copied(text: str) -> str:
        return f"{ALIGNED_ROWS}({text}, {unit})" if unit > 1 and shape else f"{text}.contiguous()"

    if not shape or place == last:
        return copied(variable)
    return f"{copied(f'{variable}.movedim({place}, -1)')}.movedim(-1, {place})"


def _in_order(text: str, shape: Sequence[str], wanted: Sequence[str]) -> str:
    """A tensor with the modes of a shape, in the order of another one."""
    if tuple(shape) == tuple(wanted):
        return text
    order = [list(shape).index(mode) for mode in wanted]
    return f"{text}.mT" if order == [1, 0] else f"{text}.permute({', '.join(map(str, order))})"
