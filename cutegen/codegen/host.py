"""The template context of a module's host side: tables of its arguments, parameters, checks, the torch reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.codegen import views
from cutegen.codegen.asked import family_of, op_of
from cutegen.codegen.checks import checks_context
from cutegen.codegen.compile_text import compile_context
from cutegen.codegen.formatting import WIDTH, Item, call, commented, display, documentation, python_tuple, width_of
from cutegen.codegen.padding import moved, padding_context
from cutegen.codegen.parts import KernelParts
from cutegen.codegen.places import place_modes, put_in, said_of_places
from cutegen.codegen.segmented import ends_modes, lengths_mode, said_of_ends
from cutegen.expressions.places import ONE, modes_compared
from cutegen.language import torch_ops
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.planning.plan import Plan
from cutegen.views.extents import is_computed

PYTHON_TYPES = {"f32": "float", "f64": "float", "i64": "int", "i32": "int"}
ELEMENTS_DEFAULT = 1 << 20  # of a tensor, where the command line gives no sizes
_BY_POSITION = "by position; outputs that are not read are keyword-only"
LARGEST = "2**31 - 2**21"  # size of any mode: 32-bit coordinates reach a tile beyond it


def host_context(plan: Plan, parts: KernelParts, *, compiles: bool = True) -> dict[str, Any]:
    """All that the host side of a module prints: one that compiles its kernel, or one that loads it compiled."""
    spec = plan.spec.by_argument
    arguments = [t.argument for t in spec.tensors] + [s.argument for s in spec.scalars]
    makeable = [t for t in spec.outputs if can_be_made(spec, t)]
    spaces = parts.workspaces.each if parts.workspaces else ()
    copied = moved(spec, parts)
    aligned = bool(parts.padded) or any((alignment(t, parts) or 1) > t.dtype.bytes for t in spec.tensors)
    return {
        "compiles": compiles,
        "single": any(not t.shape for t in spec.tensors),
        "ones": any(ONE in t.shape for t in spec.tensors),
        "skipped": "_, " if compiles else "",  # the compiler's name of a type, in the table of arguments
        "tensor_names": [f"m{t.name}" for t in spec.tensors],
        "tensor_table": [(f"tensors.{t.name}", _row(t, alignment(t, parts), compiles)) for t in spec.tensors],
        "divisible": _divides(spec),
        "aligned": aligned,
        "plain": not aligned and all(t.modes[-1:] in ((), (t.major,)) for t in spec.tensors),
        "dense": [(f"tensors.{t.name}.shape", _dense(t)) for t in spec.tensors if t.dense],
        **padding_context(spec, parts, copied),
        "size_tables": _size_tables(spec, parts),
        **views.views_context(spec),
        "single_output": len(spec.outputs) == 1,
        "first_output": spec.outputs[0].argument if spec.outputs else "",
        "limits": parts.limits,
        "blocks": spec.blocks,
        "host_parameters": [
            *(f"{t.argument}: torch.Tensor" for t in spec.tensors),
            *_scalar_parameters(spec),
            *(f"{one.spare}: int" for one in copied),
        ],
        "call_parameters": _call_parameters(spec),
        "settled": call("if not _validate_or_retry(", arguments, "):", 8),
        "host_summary": summary(spec),
        "place_modes": place_modes(spec),
        "has_ends": spec.segments is not None,
        "lengths_along": lengths_mode(spec),
        "documentation": [
            *(x for t in (*spec.inputs, *spec.named) for x in views.documented(t, document_tensor(spec, t, parts))),
            *((x.path, x.documentation) for x in spaces),
            *parts.documentation,
        ],
        "lays_out": any(map(is_laid_out_by_torch, makeable)),
        "made_outputs": [line for t in makeable for line in _making(spec, t)],
        "made_results": [line for t in makeable for line in _making_result(spec, t)],
        "prepares": bool(spaces) or parts.chooser is not None,
        "prepared": _tuple_returned(
            [
                *arguments,
                *(x.memory for x in spaces),
                *(one.spare for one in copied),
                *([parts.chooser.chosen] if parts.chooser else []),
            ]
        ),
        "told_prepared": " and ".join(
            [*["workspaces"] * bool(spaces), *["the number of a kernel"] * (parts.chooser is not None)]
        ),
        "called": _called(parts, f"{spec.output.argument}.get_device()", [*arguments, *["0"] * len(copied)], 8),
        "called_again": _called(parts, "device.index", ["*fitted.values()", "*arguments[len(TENSORS) :]"], 4)
        if not copied
        else _called(parts, "arguments[0].get_device()", ["*arguments", "*_addresses(spare)"], 8),
        "chooser": parts.chooser,
        "chooser_template": f"{family_of(spec).name}/{parts.chooser.template}" if parts.chooser else "",
        "workspaces": parts.workspaces,
        "workspaces_template": f"{family_of(spec).name}/{parts.workspaces.template}" if parts.workspaces else "",
        "scalars": spec.scalars,
        **(parts.chooser.context if parts.chooser else {}),
        **_results(plan),
        **checks_context(spec, parts, makeable),
        **_inputs(spec),
        **compile_context(spec, parts),
    }


def _called(parts: KernelParts, device: str, arguments: Sequence[str], indent: int) -> list[str]:
    """The statements that call the compiled function of a device with arguments of the public one."""
    prepared = f"_arguments({', '.join(arguments)})"
    if parts.chooser:
        return [f"arguments = {prepared}", f"_compiled({device}, arguments[-1])(*arguments)"]
    return [call(f"_compiled({device})(", [f"*{prepared}"] if parts.workspaces else arguments, ")", indent)]


def summary(spec: KernelSpec) -> str:
    """The first sentence of the function's documentation: the spec's summary, else what is computed."""
    said = documentation(spec.summary) or spec.compute.text.replace("\n", "\n    ")
    return said.rstrip(".") + "."


def alignment(tensor: Tensor, parts: KernelParts) -> int | None:
    """The alignment in bytes at which the kernel takes a tensor."""
    return parts.padded[tensor.name].align if tensor.name in parts.padded else tensor.align


def _row(tensor: Tensor, align: int | None, compiles: bool) -> str:
    """A tensor's line in the table of arguments."""
    modes = ", ".join(f'"{mode}"' for mode in tensor.shape) + ("," if len(tensor.shape) == 1 else "")
    types = [f"torch.{tensor.dtype.torch}", *([f"cutlass.{tensor.dtype.cutlass}"] if compiles else [])]
    major = f'"{tensor.major}"' if tensor.major else "None"
    items = [*types, f"({modes})", major, str(align), f'"{tensor.role}"']
    return display(f'"{tensor.argument}": (', items, "),", 4)


def _dense(tensor: Tensor) -> str:
    """A tensor's line in the table of those whose last modes have no gaps between them."""
    return display(f'"{tensor.argument}": (', [f'"{mode}"' for mode in tensor.dense], "),", 4)


def _size_tables(spec: KernelSpec, parts: KernelParts) -> list[tuple[str, str]]:
    """The tables of what is known of the modes, by mode, each with its key in the spec."""
    defaults = {mode: str(default_size(spec, mode)) for mode in spec.modes if mode not in spec.static}
    own = [block.mode for block in spec.blocks]
    divisible = {item: str(step) for item, step in (views.divisors_of(spec) | dict.fromkeys(own, 1)).items()}
    largest = {item: parts.largest.get(item, LARGEST) for item in (*views.items_of(spec), *own)}
    fixed = views.constants_of(spec)
    blocks = {block.mode: f'("{block.of}", {block.size})' for block in spec.blocks}
    places = {name: python_tuple([f'"{mode}"' for mode in modes]) for name, modes in place_modes(spec).items()}
    ends = ends_modes(spec)
    inputs, outputs = (tuple(f'"{t.argument}"' for t in tensors) for tensors in (spec.inputs, spec.outputs))
    return [
        *(("", line) for line in commented(f"INPUTS = {python_tuple(inputs)}", _BY_POSITION)),
        ("", f"OUTPUTS = {python_tuple(outputs)}"),
        ("", f"{_table('SIZES', defaults)}  # by default"),
        *([("divisible", _table("DIVISIBLE", divisible))] if _divides(spec) else []),
        ("static" if fixed else "", _table("STATIC", {m: str(n) for m, n in fixed.items()})),
        ("", _table("LARGEST", largest)),
        *([("modes", f"{_table('BLOCKS_OF', blocks)}  # of which mode, and of how many elements")] if blocks else []),
        *([("", f"{_table('PLACES', places)}  # modes that each indexes")] if places else []),
        *([("modes", f"{_table('ENDS', ends)}  # of segments, and the mode that they cut")] if ends else []),
    ]


def _divides(spec: KernelSpec) -> bool:
    """Whether the size of some mode, that is not fixed, must have a divisor."""
    return any(step > 1 for step in views.divisors_of(spec).values())


def _table(name: str, values: Mapping[str, str]) -> str:
    return display(f"{name} = {{", [f'"{key}": {value}' for key, value in values.items()], "}", 0)


def _scalar_parameters(spec: KernelSpec) -> list[str]:
    return [f"{s.argument}: {PYTHON_TYPES[s.dtype.value]}" for s in spec.scalars]


def can_be_made(spec: KernelSpec, tensor: Tensor) -> bool:
    """Whether the public function can make a tensor: it is only written, and its sizes follow from others."""
    return torch_ops.can_be_made(spec.tensors, spec.static, tensor)


def _call_parameters(spec: KernelSpec) -> list[str]:
    """The parameters of the function: inputs and scalars, then by name only outputs, None by default if they can be
    made.
    """
    named = [
        f"{t.argument}: torch.Tensor | None = None" if can_be_made(spec, t) else f"{t.argument}: torch.Tensor"
        for t in spec.named
    ]
    taken = [*(f"{t.argument}: torch.Tensor" for t in spec.inputs), *_scalar_parameters(spec)]
    return [*taken, "*", *named] if named else taken


def places(spec: KernelSpec) -> tuple[Tensor | Scalar, ...]:
    """The positional parameters of the public function: inputs, then scalars."""
    return (*spec.inputs, *spec.scalars)


def as_called(spec: KernelSpec, given: Mapping[str, str]) -> list[str]:
    """The arguments of a call of the public function or of `reference`; those that `given` lacks are left out.

    `given` has their texts, by the names of the function's parameters.
    """
    return [
        *(given[x.argument] for x in places(spec)),
        *(f"{t.argument}={given[t.argument]}" for t in spec.named if t.argument in given),
    ]


def _making(spec: KernelSpec, tensor: Tensor) -> list[str]:
    """The statements that make an output which a call leaves out: where the first tensor that is read is."""
    laid_out = _as_torch_lays_out(spec, tensor, 12) if is_laid_out_by_torch(tensor) else [new(spec, tensor, 12)]
    return [f"if {tensor.argument} is None:", *(f"    {line}" for line in laid_out)]


def _making_result(spec: KernelSpec, tensor: Tensor) -> list[str]:
    """The statements that make an output of `reference`, like the one that is given or would be made."""
    name = tensor.argument
    flat = f"{new(spec, tensor, 4)} if {name} is None else torch.empty_like({name})"
    if 4 + width_of(flat) <= WIDTH and "\n" not in flat and not tensor.segments:
        return [flat]
    made = [f"if {name} is None:", f"    {new(spec, tensor, 8)}", f"{name} = torch.empty_like({name})"]
    return made[:-1] if tensor.segments else made  # rows that belong to no segment keep their values


def new(spec: KernelSpec, tensor: Tensor, indent: int) -> str:
    """The statement that makes an output with `_new`, as large as the tensors that are read say."""
    inputs, sizes = [t for t in spec.tensors if t.reads], output_sizes(spec, tensor)
    like = next((t for t in inputs if t.shape == tensor.shape), None)
    shape: Item = f"{like.argument}.shape" if like else ("(", sizes, ",)" if len(sizes) == 1 else ")")
    items: list[Item] = [f'"{tensor.argument}"', shape, f"{inputs[0].argument}.device"]
    return call(f"{tensor.argument} = _new(", items, ")", indent)


def output_sizes(spec: KernelSpec, tensor: Tensor) -> list[str]:
    """The sizes of an output, as the tensors that are read have them, or the spec."""
    texts, sizes = views.size_texts(spec), []
    for mode in tensor.shape:
        having = next((t for t in spec.tensors if t.reads and mode in t.modes), None)
        sizes.append(f"{having.argument}.shape[{having.shape.index(mode)}]" if having else texts[mode])
    return sizes


def is_laid_out_by_torch(tensor: Tensor) -> bool:
    """Whether an output has no padding, and its modes in the order in which torch's own tensors have them."""
    return tensor.modes[-1:] == (tensor.major,) and (tensor.align or 1) <= tensor.dtype.bytes


def _as_torch_lays_out(spec: KernelSpec, tensor: Tensor, indent: int) -> list[str]:
    """The statements that make a tensor without padding.

    The sizes of one that is read and has the same modes are taken at once, since each look at a shape takes time.
    Modes that are called like an argument are no variables.
    """
    inputs, sizes = [t for t in spec.tensors if t.reads], output_sizes(spec, tensor)
    arguments = {spec.kernel, *(t.argument for t in spec.tensors), *(s.argument for s in spec.scalars)}
    model = next((t for t in inputs if t.shape == tensor.shape), inputs[0])
    lines = []
    named = not {*arguments, ONE} & {*tensor.shape} and not any(map(is_computed, tensor.shape))
    if model.shape == tensor.shape and named:
        sizes = list(tensor.shape)
        lines = [f"{f'({sizes[0]},)' if len(sizes) == 1 else ', '.join(sizes)} = {model.argument}.shape"]
    steps = [" * ".join(sizes[i:]) or "1" for i in range(1, len(sizes) + 1)]
    shape: Item = ("(", sizes, ",)" if len(sizes) == 1 else ")")
    strides: Item = ("(", steps, ",)" if len(sizes) == 1 else ")")
    items = [shape, strides, f"torch.{tensor.dtype.torch}", model.argument]
    return [*lines, call(f"{tensor.argument} = _empty(", items, ")", indent)]


def _results(plan: Plan) -> dict[str, Any]:
    """The texts about what the public function and `reference` return: the output, or a tuple of all."""
    spec = plan.spec.by_argument
    outputs = [tensor.argument for tensor in spec.outputs]
    reference = op_of(plan.spec).reference(plan)
    results = {t.name: x for t, x in zip(plan.spec.outputs, reference.results, strict=True)}
    lines = [
        line
        for t in spec.outputs
        if t.views
        for line in views.packed_results(spec, t, results, passed=not can_be_made(spec, t))
    ]
    quoted = [f"`{output}`" for output in outputs]
    told = " and ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[:-1] else quoted)
    made = [t.argument if t.views else _made_of(spec, t, results[t.name]) for t in spec.outputs]
    return {
        "result_type": result_type(len(outputs)),
        "told_outputs": told,
        "returned": f"return {', '.join(outputs)}",
        "reference_lines": [*reference.lines(spec), *lines],
        "what_results": f"{'a new tensor' if len(outputs) == 1 else 'new tensors'} like {told}",
        "returned_results": _tuple_returned(made),
    }


def _made_of(spec: KernelSpec, tensor: Tensor, values: str) -> str:
    """The expression of an output of `reference`, a new tensor with these values."""
    if (put := put_in(spec, tensor, values)) is not None:
        return put
    like = tensor.argument if can_be_made(spec, tensor) else f"torch.empty_like({tensor.argument})"
    return f"{like}.copy_({values})"


def result_type(count: int) -> str:
    """The annotation of a function that returns so many tensors: one, a tuple of several, or None."""
    if count == 0:
        return "None"
    return "torch.Tensor" if count == 1 else f"tuple[{', '.join(['torch.Tensor'] * count)}]"


def _tuple_returned(items: list[str]) -> str:
    flat = f"return {', '.join(items)}"
    return flat if 4 + len(flat) <= WIDTH or len(items) == 1 else display("return (", items, ")", 4)


def document_tensor(spec: KernelSpec, tensor: Tensor, parts: KernelParts, *, for_kernel: bool = False) -> str:
    """A tensor's line in the module's documentation, such as `a: [M, K] float32, M contiguous,
    16-byte aligned, read`.

    With `for_kernel`, it is what the compiled kernel takes, without the Python that copies and makes tensors for it.
    """
    padded = tensor.name in parts.padded
    use = views.USES[tensor.role]
    known = [f"{m} = {spec.static[m]}" for m in tensor.modes if m in spec.static]
    known += [
        f"{m} % {spec.divisible[m]} == 0" for m in tensor.shape if spec.divisible.get(m, 1) > 1 and m not in spec.static
    ]
    extra = f" ({', '.join(known)})" if known else ""
    text = f"{tensor.argument}: [{', '.join(tensor.shape)}]{extra} {tensor.dtype.torch}, "
    made = ", allocated if None" if can_be_made(spec, tensor) and not for_kernel else ""
    anywhere = (padded and not for_kernel) or (spec.schedule.narrows and tensor.align == tensor.dtype.bytes)
    aligned = "" if anywhere else f"{alignment(tensor, parts)}-byte aligned, "
    contiguous = f"{tensor.major} contiguous, " if tensor.major else ""
    if tensor.dense:
        contiguous = f"{' and '.join(tensor.dense)} contiguous without gaps, "
    at = "".join(f" at {spec.tensor(index).argument} along {mode}" for mode, index in tensor.at)
    return (
        f"{text}{contiguous}{aligned}{use}{at}{made}{_of_no_place(spec, tensor)}{said_of_places(spec, tensor)}"
        f"{said_of_ends(spec, tensor)}."
    )


def _of_no_place(spec: KernelSpec, tensor: Tensor) -> str:
    """Notes that integers out of range equal no coordinate of a mode, where elements are compared by `==` or `!=`."""
    modes = modes_compared(spec.compute, tensor.name, ("==", "!=")) if tensor.dtype.is_integer else ()
    return "".join(f"; values outside of 0 ... {mode} - 1 match no coordinate along {mode}" for mode in modes)


def _inputs(spec: KernelSpec) -> Mapping[str, Any]:
    """The texts that `make_inputs` and the command line print."""
    defaults = {m: default_size(spec, m) for m in spec.modes if m not in spec.static}
    given = [f'"{m}": {m}' for m in defaults]
    flops = [f'sizes["{m}"]' for m in op_of(spec).product_modes(spec)]
    return {
        "size_parameters": [f"{m}: int = {defaults[m]}" for m in defaults],
        "compared": _compared(spec),
        "random_inputs": _random("INPUTS", given, ["0.5" if s.dtype.is_float else "2" for s in spec.scalars]),
        "random_outputs": _random_outputs(spec, given),
        "product_modes": flops,
        "product_widths": [f'sizes["{m}"]' for m in op_of(spec).product_widths(spec)],
    }


def _compared(spec: KernelSpec) -> list[str]:
    """The statements that call `reference`, and then the function, which may write to inputs."""
    given = "(*inputs, **outputs)"
    flat = f"wanted, results = reference{given}, {spec.kernel}{given}"
    return [flat] if 4 + width_of(flat) <= WIDTH else [f"wanted = reference{given}", f"results = {spec.kernel}{given}"]


def _random(names: str, sizes: Sequence[str], scalars: Sequence[str] | None = None) -> list[str]:
    """The statements that return random tensors of these names: for inputs with scalars behind them, else by name."""

    def returned(given: str) -> str:
        made = f"_random({names}, {given}, device, seed)"
        if scalars is None:
            return f"return dict(zip({names}, {made}))"
        return call("return (", [f"*{made}", *scalars], ")", 4) if scalars else f"return tuple({made})"

    flat = returned(f"{{{', '.join(sizes)}}}")
    if "\n" not in flat and 4 + width_of(flat) <= WIDTH:
        return [flat]
    return [call("sizes = {", sizes, "}", 4), returned("sizes")]


def _random_outputs(spec: KernelSpec, sizes: Sequence[str]) -> list[str]:
    """The statements that return random tensors for the outputs that are given by name."""
    if len(spec.named) == len(spec.outputs):
        return _random("OUTPUTS", sizes)
    if not spec.named:
        return ["return {}"]
    names = python_tuple(tuple(f'"{t.argument}"' for t in spec.named))
    return [f"tensors = {names}  # outputs that are not inputs", *_random("tensors", sizes)]


def default_size(spec: KernelSpec, mode: str) -> int:
    """The default size of a mode: the spec's first, else one that the kernel accepts, near a thousand for two modes."""
    for shape in spec.verify.shapes:
        if mode in shape:
            return shape[mode]
    unit = spec.divisible.get(mode, 1)
    rank = max(2, *(len(t.shape) for t in spec.tensors))
    size = 1 << ((ELEMENTS_DEFAULT.bit_length() - 1) // rank)
    return max(1, size // unit) * unit
