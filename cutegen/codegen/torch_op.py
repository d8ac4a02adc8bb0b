"""What a module prints of the op that torch knows its kernel by, and of the gradient that another kernel computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutegen.codegen.formatting import Item, call
from cutegen.codegen.host import PYTHON_TYPES, can_be_made, is_laid_out_by_torch, output_sizes, result_type
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.gradients import Gradient, contiguous

TOLD = "for torch to know without a GPU: sizes, types and strides"
SCHEMA_TYPES = {"float": "float", "int": "SymInt"}


def op_context(spec: KernelSpec, gradients: Sequence[Gradient]) -> dict[str, Any]:
    """All that the part of a module about its op prints; without an op, that there is none."""
    if spec.torch.op is None:
        return {"op": None, "gradient": None}
    taken = [t for t in spec.tensors if not can_be_made(spec, t)]
    made = [t for t in spec.outputs if can_be_made(spec, t)]
    names = [*(t.argument for t in taken), *(s.argument for s in spec.scalars)]
    parameters = [*(f"{t.argument}: torch.Tensor" for t in taken)]
    parameters += [f"{s.argument}: {PYTHON_TYPES[s.dtype.value]}" for s in spec.scalars]
    given = ["None" if t in made else t.argument for t in spec.tensors] + [s.argument for s in spec.scalars]
    returned = [t.argument for t in made]
    return {
        "op": spec.torch.op,
        "op_schema": _schema(spec, taken, made),
        "op_parameters": parameters,
        "op_names": names,
        "op_result": result_type(len(made)),
        "op_call": call(f"{_target(spec, made)}{spec.kernel}(", given, ")", 4),
        "op_returned": ", ".join(returned),
        "op_all_made": len(made) == len(spec.outputs),
        "op_fakes": [_fake(spec, t) for t in made],
        "op_fake_says": f"What the op returns, {TOLD}" if made else "Nothing, as the op does: it writes what it takes",
        "op_casts": [
            f"{t.argument}.to(torch.{t.dtype.torch})" if t.dtype.is_float and not t.writes else t.argument
            for t in taken
        ]
        + [s.argument for s in spec.scalars],
        "gradient": _gradient(spec, gradients, taken, made) if gradients else None,
    }


def _schema(spec: KernelSpec, taken: Sequence[Tensor], made: Sequence[Tensor]) -> str:
    """The op's schema as torch writes it; what is written among the arguments is marked, each by a letter."""
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ")
    arguments = [f"Tensor({next(letters)}!) {t.argument}" if t.writes else f"Tensor {t.argument}" for t in taken]
    arguments += [f"{SCHEMA_TYPES[PYTHON_TYPES[s.dtype.value]]} {s.argument}" for s in spec.scalars]
    results = "Tensor" if len(made) == 1 else f"({', '.join(['Tensor'] * len(made))})"
    return f"({', '.join(arguments)}) -> {results}"


def _target(spec: KernelSpec, made: Sequence[Tensor]) -> str:
    """What stands before the call of the public function, of whose results the op returns those that it made."""
    if not made:
        return ""
    if len(made) == len(spec.outputs):
        return "return "
    return ", ".join(t.argument if t in made else "_" for t in spec.outputs) + " = "


def _fake(spec: KernelSpec, tensor: Tensor) -> str:
    """The statement that makes an output of which torch is to know sizes and strides only, as a call would."""
    like, name = next(t for t in spec.tensors if t.reads).argument, tensor.argument
    sizes = output_sizes(spec, tensor)
    shape: Item = ("(", sizes, ",)" if len(sizes) == 1 else ")")
    if not is_laid_out_by_torch(tensor):
        return call(f"{name} = _new(", [f'"{name}"', shape, f"{like}.device"], ")", 4)
    items = [shape, f"dtype=torch.{tensor.dtype.torch}", f"device={like}.device"]
    return call(f"{name} = torch.empty(", items, ")", 4)


def _gradient(spec: KernelSpec, gradients: Sequence[Gradient], taken: Sequence[Tensor], made: Sequence[Tensor]) -> Any:
    """What is printed of the gradient: what is saved for it, and how the ops of other kernels are called."""
    saved = list(dict.fromkeys(t for one in gradients for t in one.saved))
    numbers = list(dict.fromkeys(s.argument for one in gradients for s in one.by.scalars))
    given = {t.name: name.lower() for one in gradients for name, t in one.given.items()}
    returned: dict[str, str] = {}
    for one in gradients:
        for name, tensor in one.made.items():
            returned[tensor.name] = _in_order(name.lower(), one.by.tensor(name).shape, tensor.shape)
    return {
        "kernels": [one.by.kernel for one in gradients],
        "ops": [(one.by.kernel, *str(one.by.torch.op).split("::")) for one in gradients],
        "saved": [t.argument for t in saved],
        "numbers": numbers,
        "constant": [t.argument for t in made if t.name not in given],
        "results": [given.get(t.name, f"_{t.argument}") for t in made],
        "calls": [_call(one) for one in gradients],
        "returned": ", ".join([*(returned.get(t.name, "None") for t in taken), *["None"] * len(spec.scalars)]),
        "looks_at_outputs": any(t in saved or t.name not in given for t in made),
    }


def _call(gradient: Gradient) -> str:
    """The call of the op of one kernel of a gradient."""
    by, own = gradient.by, {t.name: t for t in gradient.saved}
    arguments = []
    for tensor in (t for t in by.tensors if t.reads):
        if tensor.name in own:
            arguments.append(_in_order(tensor.argument, own[tensor.name].shape, tensor.shape))
        else:
            arguments.append(_laid_out(tensor, gradient.given[tensor.name].shape))
    arguments += [f"ctx.{s.argument}" for s in by.scalars]
    results = ", ".join(t.argument for t in by.outputs)
    return call(f"{results} = torch.ops.{str(by.torch.op).replace('::', '.')}(", arguments, ")", 4)


def _laid_out(tensor: Tensor, shape: Sequence[str]) -> str:
    """A gradient of this shape as a kernel reads it: autograd gives any strides, and it is copied where it must be."""
    place, last = list(shape).index(contiguous(tensor)), len(shape) - 1
    text = f"{tensor.argument}.contiguous()"
    if place != last:
        text = f"{tensor.argument}.movedim({place}, -1).contiguous().movedim(-1, {place})"
    return _in_order(text, shape, tensor.shape)


def _in_order(text: str, shape: Sequence[str], wanted: Sequence[str]) -> str:
    """A tensor with the modes of a shape, in the order of another one."""
    if tuple(shape) == tuple(wanted):
        return text
    order = [list(shape).index(mode) for mode in wanted]
    return f"{text}.mT" if order == [1, 0] else f"{text}.permute({', '.join(map(str, order))})"
