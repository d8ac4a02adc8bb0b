"""`compute` against the declarations: names, roles, types, and the form that each op wants."""

from __future__ import annotations

from cutegen.language.context import Context
from cutegen.language.declarations import GEMM_DTYPES, unknown_name
from cutegen.language.dtypes import Dtype
from cutegen.language.expressions import (
    Assignment,
    ExpressionError,
    MatMul,
    Name,
    NumberError,
    Place,
    annotate,
    parse,
    product_place,
    uses,
    walk,
)
from cutegen.language.model import Scalar, Tensor

PATH = ("compute",)


def compute(ctx: Context, tensors: tuple[Tensor, ...], scalars: tuple[Scalar, ...]) -> Assignment | None:
    """The assignment, or None where, once said, it cannot be used."""
    try:
        assignment = parse(ctx.data["compute"])
    except ExpressionError as error:
        product = None if ctx.data["op"] == "gemm" else product_place(ctx.data["compute"])
        if product and product.start <= error.place.start < product.end:
            _no_product(ctx, product)
        else:
            _say(ctx, "CG120", error.message, error.place, error.help)
        return None
    before = len(ctx.found)
    known = {t.name: t for t in tensors}
    declared = [*known, *(s.name for s in scalars)]
    for name, place in uses(assignment.value):
        if name not in declared:
            unknown_name(ctx, name, place.start, place.end, declared)
    _check_target(ctx, assignment, known, scalars)
    if len(ctx.found) > before:
        return None
    _check_roles(ctx, assignment, tensors, scalars)
    match ctx.data["op"]:
        case "elementwise":
            _check_elementwise(ctx, assignment, known)
        case "gemm":
            _check_gemm(ctx, assignment, known)
        case "probe":
            _check_probe(ctx, assignment, tensors, scalars)
    if len(ctx.found) == before:
        _check_types(ctx, assignment, tensors, scalars)
    return assignment if len(ctx.found) == before else None


def _no_product(ctx: Context, place: Place) -> None:
    if ctx.data["op"] == "probe":
        _say(ctx, "CG127", "a probe's compute is one tensor, like `D = A`", place, "write `D = A`")
    else:
        _say(ctx, "CG127", "an elementwise kernel has no `@`", place, "write `op: gemm`")


def _say(ctx: Context, code: str, message: str, place: Place, help: str | None = None) -> None:
    ctx.say(code, message, span=ctx.variant.place(PATH, place.start, place.end - place.start), help=help)


def _check_target(ctx: Context, assignment: Assignment, known: dict[str, Tensor], scalars: tuple[Scalar, ...]) -> None:
    target, place = assignment.target, assignment.target_place
    if target in known:
        if not known[target].writes:
            read = target in assignment.names()
            help = f"write `role: {'inout' if read else 'out'}` at the tensor {target}"
            _say(ctx, "CG122", f"compute assigns to `{target}`, whose role is in", place, help)
    elif target in [s.name for s in scalars]:
        outputs = ", ".join(t.name for t in known.values() if t.writes) or "none yet"
        _say(ctx, "CG122", f"compute assigns to the scalar `{target}`", place, f"outputs: {outputs}")
    else:
        unknown_name(ctx, target, place.start, place.end, list(known))


def _check_roles(
    ctx: Context, assignment: Assignment, tensors: tuple[Tensor, ...], scalars: tuple[Scalar, ...]
) -> None:
    read = assignment.names()
    for tensor in tensors:
        name, path = tensor.name, ("tensors", tensor.name)
        if name == assignment.target:
            if tensor.role == "out" and name in read:
                place = next(place for used, place in uses(assignment.value) if used == name)
                help = f"write `role: inout` at the tensor {name}"
                _say(ctx, "CG123", f"compute reads `{name}`, whose role is out", place, help)
            elif tensor.role == "inout" and name not in read:
                message = f"`{name}` is inout, and compute never reads it"
                ctx.say("CG124", message, *path, "role", help="write `role: out`")
        elif tensor.writes:
            message = f"`{name}` is {tensor.role}, and compute assigns to `{assignment.target}` only"
            help = "write `role: in`" if name in read else "remove the tensor"
            ctx.say("CG126", message, *path, "role", help=help)
        elif name not in read:
            ctx.say(
                "CG125", f"the tensor `{name}` is never used", *path, key=True, help="remove it, or use it in compute"
            )
    for scalar in scalars:
        if scalar.name not in read:
            help = "remove it, or use it in compute"
            ctx.say("CG125", f"the scalar `{scalar.name}` is never used", "scalars", scalar.name, key=True, help=help)


def _check_types(
    ctx: Context, assignment: Assignment, tensors: tuple[Tensor, ...], scalars: tuple[Scalar, ...]
) -> None:
    types = {t.name: t.dtype for t in tensors} | {s.name: s.dtype for s in scalars}
    schedule = ctx.data.get("schedule", {})
    accumulator = schedule.get("mma", {}).get("accumulator") if ctx.data["op"] == "gemm" else None
    try:
        annotate(assignment, types, Dtype(accumulator) if accumulator else None)
    except NumberError as error:
        _say(ctx, "CG135", error.message, error.place, error.help)
    except ExpressionError as error:
        _say(ctx, "CG128", error.message, error.place, error.help)


def _check_fits(ctx: Context, tensor: Tensor, output: Tensor, place: Place | None = None) -> None:
    """Along the output's modes, in their order; missing ones are broadcast."""
    modes, out = list(tensor.shape), list(output.shape)
    path = ("tensors", tensor.name, "shape")
    shown_out = f"[{', '.join(out)}]"
    extra = [mode for mode in modes if mode not in out]
    if extra:
        message = f"`{tensor.name}` has the mode `{extra[0]}`, which the output `{output.name}` lacks"
        notes = (f"{output.name} is {shown_out}; a tensor broadcasts along the modes that it lacks itself",)
        ctx.say("CG129", message, *path, modes.index(extra[0]), notes=notes)
    elif modes != [mode for mode in out if mode in modes]:
        good = ", ".join(mode for mode in out if mode in modes)
        message = f"the modes of `{tensor.name}` are in another order than those of the output `{output.name}`"
        help = f"write `shape: [{good}]` and say which mode is contiguous with `major:`"
        ctx.say("CG129", message, *path, notes=(f"{output.name} is {shown_out}",), help=help)


def _check_elementwise(ctx: Context, assignment: Assignment, known: dict[str, Tensor]) -> None:
    if assignment.matmul:
        _no_product(ctx, assignment.matmul.place)
        return
    for name in assignment.names():
        if name in known:
            _check_fits(ctx, known[name], known[assignment.target])


def _check_gemm(ctx: Context, assignment: Assignment, known: dict[str, Tensor]) -> None:
    product = assignment.matmul
    if not product:
        message = "a gemm needs one `A @ B.T` in compute"
        _say(ctx, "CG127", message, assignment.value.place, "write `op: elementwise` if there is none")
        return
    operands = []
    for name, place in ((product.a, product.a_place), (product.b, product.b_place)):
        if name not in known:
            _say(ctx, "CG127", f"`{name}` is a scalar; `@` multiplies two tensors", place)
        else:
            operands.append(known[name])
    if len(operands) == 2:
        _check_product(ctx, operands[0], operands[1], known[assignment.target], product)
        epilogue = {node.id for node in _names_outside(assignment)}
        for name in epilogue & set(known):
            _check_fits(ctx, known[name], known[assignment.target])


def _names_outside(assignment: Assignment) -> list[Name]:
    return [node for node in walk(assignment.value) if isinstance(node, Name)]


def _check_product(ctx: Context, a: Tensor, b: Tensor, out: Tensor, product: MatMul) -> None:
    for tensor, wanted in ((a, "[M, K]"), (b, "[N, K]"), (out, "[M, N]")):
        if len(tensor.shape) != 2:
            message = f"`{tensor.name}` has {len(tensor.shape)} mode{'s' * (len(tensor.shape) > 1)}"
            help = f"in `{out.name} = {a.name} @ {b.name}.T` it is {wanted}"
            ctx.say("CG130", f"{message}; a gemm's has 2", "tensors", tensor.name, "shape", help=help)
            return
    (m, k), (n, k_of_b) = a.shape, b.shape
    if k != k_of_b:
        message = f"`{a.name}` and `{b.name}` share no last mode: `{k}` and `{k_of_b}`"
        turned = n == k
        help = f"write `shape: [{k_of_b}, {k}]` and, if that is how it lies in memory, `major: {k_of_b}`"
        notes = ("shapes are [M, K] and [N, K]; which mode is contiguous is said by `major:`",)
        ctx.say("CG130", message, "tensors", b.name, "shape", notes=notes, help=help if turned else None)
    elif out.shape != (m, n):
        message = f"`{out.name}` is [{', '.join(out.shape)}], and {a.name} @ {b.name}.T gives [{m}, {n}]"
        ctx.say("CG130", message, "tensors", out.name, "shape", help=f"write `shape: [{m}, {n}]`")
    if a.dtype is not b.dtype and a.dtype in GEMM_DTYPES and b.dtype in GEMM_DTYPES:
        message = f"`{a.name}` is {a.dtype.value} and `{b.name}` is {b.dtype.value}; both must be the same"
        ctx.say("CG118", message, "tensors", b.name, "dtype", help=f"write `dtype: {a.dtype.value}`")


def _check_probe(
    ctx: Context, assignment: Assignment, tensors: tuple[Tensor, ...], scalars: tuple[Scalar, ...]
) -> None:
    value = assignment.value
    if not isinstance(value, Name) or value.id not in [t.name for t in tensors]:
        _say(ctx, "CG127", "a probe's compute is one tensor, like `D = A`", value.place, "write `D = A`")
        return
    if value.id == assignment.target:
        _say(ctx, "CG127", "a probe moves one tensor to another", value.place, "write `D = A`")
    out = next(t for t in tensors if t.name == assignment.target)
    source = next(t for t in tensors if t.name == value.id)
    if len(out.shape) != 2:
        message = f"a probe's output has two modes, thread and value, not {len(out.shape)}"
        ctx.say("CG129", message, "tensors", out.name, "shape", help="write `shape: [T, V]`")
    if len(source.shape) > 3:
        message = f"a probe's input has at most 3 modes, not {len(source.shape)}"
        ctx.say("CG129", message, "tensors", source.name, "shape")
    shared = [mode for mode in source.shape if mode in out.shape]
    if shared and source.name != out.name:
        message = f"`{shared[0]}` is a mode of both `{source.name}` and `{out.name}`"
        notes = ("the output's modes are thread and value, whatever the input's are",)
        place = out.shape.index(shared[0])
        ctx.say("CG129", message, "tensors", out.name, "shape", place, notes=notes, help="name them T and V")
