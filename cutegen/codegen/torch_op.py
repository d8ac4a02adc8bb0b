"""What a module prints of the op that torch knows its kernel by, and of the gradient that another kernel computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutegen.codegen.formatting import Item, call
from cutegen.codegen.host import PYTHON_TYPES, can_be_made, is_laid_out_by_torch, output_sizes
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.torch_ops import Gradient

SCHEMA_TYPES = {"float": "float", "int": "SymInt"}


def op_context(spec: KernelSpec, gradient: Gradient | None) -> dict[str, Any]:
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
        "op_result": _result_type(len(made)),
        "op_call": call(f"{_target(spec, made)}{spec.kernel}(", given, ")", 4),
        "op_returned": ", ".join(returned),
        "op_all_made": len(made) == len(spec.outputs),
        "op_fakes": [line for t in made for line in _fake(spec, t, taken)],
        "op_casts": [
            f"{t.argument}.to(torch.{t.dtype.torch})" if t.dtype.is_float and not t.writes else t.argument
            for t in taken
        ]
        + [s.argument for s in spec.scalars],
        "gradient": None if gradient is None else _gradient(spec, gradient, taken, made),
    }


def _schema(spec: KernelSpec, taken: Sequence[Tensor], made: Sequence[Tensor]) -> str:
    """The op's schema as torch writes it; what is written among the arguments is marked, each by a letter."""
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ")
    arguments = [f"Tensor({next(letters)}!) {t.argument}" if t.writes else f"Tensor {t.argument}" for t in taken]
    arguments += [f"{SCHEMA_TYPES[PYTHON_TYPES[s.dtype.value]]} {s.argument}" for s in spec.scalars]
    results = "Tensor" if len(made) == 1 else f"({', '.join(['Tensor'] * len(made))})"
    return f"({', '.join(arguments)}) -> {results}"


def _result_type(count: int) -> str:
    if count == 0:
        return "None"
    return "torch.Tensor" if count == 1 else f"tuple[{', '.join(['torch.Tensor'] * count)}]"


def _target(spec: KernelSpec, made: Sequence[Tensor]) -> str:
    """What stands before the call of the public function, of whose results the op returns those that it made."""
    if not made:
        return ""
    if len(made) == len(spec.outputs):
        return "return "
    return ", ".join(t.argument if t in made else "_" for t in spec.outputs) + " = "


def _fake(spec: KernelSpec, tensor: Tensor, taken: Sequence[Tensor]) -> list[str]:
    """The statement that makes an output of which torch is to know sizes and strides only, as a call would."""
    like, name = next(t for t in spec.tensors if t.reads).argument, tensor.argument
    sizes = output_sizes(spec, tensor)
    shape: Item = ("(", sizes, ",)" if len(sizes) == 1 else ")")
    if not is_laid_out_by_torch(tensor):
        return [call(f"{name} = _new(", [f'"{name}"', shape, f"{like}.device"], ")", 4)]
    return [
        call(f"{name} = torch.empty(", [shape, f"dtype=torch.{tensor.dtype.torch}", f"device={like}.device"], ")", 4)
    ]


def _gradient(spec: KernelSpec, gradient: Gradient, taken: Sequence[Tensor], made: Sequence[Tensor]) -> dict[str, Any]:
    """What is printed of the gradient: what is saved for it, and how the op of the other kernel is called."""
    by, saved = gradient.by, list(gradient.saved)
    of_input = {t.name: name.lower() for name, t in gradient.made.items()}
    of_output = {t.name: name for name, t in gradient.given.items()}
    numbers = [s.argument for s in by.scalars]
    arguments = [_laid_out(t, gradient) for t in by.tensors if t.reads] + [f"ctx.{name}" for name in numbers]
    results = [of_output[t.name].lower() if t.name in of_output else f"_{t.argument}" for t in made]
    computed = [t.argument for t in by.outputs]
    namespace, _, name = str(by.torch.op).partition("::")
    return {
        "kernel": by.kernel,
        "namespace": namespace,
        "name": name,
        "saved": [t.argument for t in saved],
        "numbers": numbers,
        "constant": [t.argument for t in made if t.name not in of_output],
        "results": results,
        "call": call(f"{', '.join(computed)} = torch.ops.{namespace}.{name}(", arguments, ")", 4),
        "returned": ", ".join([*(of_input.get(t.name, "None") for t in taken), *["None"] * len(spec.scalars)]),
        "looks_at_outputs": any(t in saved or t.name not in of_output for t in made),
    }


def _laid_out(tensor: Tensor, gradient: Gradient) -> str:
    """An argument of the gradient's op: what autograd gives may have any strides, and is copied where it must be."""
    if tensor.name not in gradient.given:
        return tensor.argument
    place = tensor.shape.index(tensor.major) if tensor.major is not None else len(tensor.shape) - 1
    if place == len(tensor.shape) - 1:
        return f"{tensor.argument}.contiguous()"
    return f"{tensor.argument}.movedim({place}, -1).contiguous().movedim(-1, {place})"
