"""Names, tensors and scalars of a spec: what may be called what, and whether each declaration can be."""

from __future__ import annotations

from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import NO_NAMES
from cutegen.expressions.places import ONE
from cutegen.language.asked import op_named
from cutegen.language.context import Context
from cutegen.language.kinds import keys_of
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.language.names import (
    COMPILERS_OWN,
    DERIVED_CONSTANTS,
    MAX_KERNEL_NAME,
    MODULES,
    RESERVED,
    RESERVED_ARGUMENTS,
    derived_from,
    name_help,
    name_problem,
    nearest,
    reserved_made_of,
    shown,
    suggestion,
)
from cutegen.language.packed import packed
from cutegen.views.extents import is_computed, modes_of

KEYS = keys_of(KernelSpec)
MAX_ALIGN = 1024
_PARTS = (
    "each mode has a name of its own; only an argument that has views may have a size that is computed: declare its "
    'parts as `G: {shape: [M, N], view: "X[:, :N]"}`'
)


def check_kernel_name(ctx: Context) -> None:
    name = ctx.data["kernel"]
    if "/" in name or "\\" in name:
        help = "write the name alone; `--out` sets the folder of modules"
        ctx.say("CG110", f"the kernel name `{shown(name)}` is a path", "kernel", help=help)
        return
    problem = name_problem(name, MAX_KERNEL_NAME)
    if problem:
        help = "the name becomes a module and a function, like `sgemm_mmajor`"
        ctx.say("CG110", f"the kernel name `{shown(name)}` {problem}", "kernel", help=help)
    elif name in RESERVED or name in op_named(ctx.data["op"]).reserved:
        help = f"add a distinguishing suffix, like `{name}_rows`"
        why = "its module uses that name itself"
        if name in MODULES:
            why = f"its file would be imported in place of the module `{name}`"
        ctx.say("CG111", f"the kernel cannot be named `{name}`: {why}", "kernel", help=help)


def tensors(ctx: Context) -> tuple[Tensor, ...]:
    """Every tensor as declared, after checking each by itself; arguments that are packed have their views."""
    found: tuple[Tensor, ...] = KEYS["tensors"].kind.read(ctx.data["tensors"], ctx, ("tensors",))
    found = packed(ctx, found)
    for tensor in (one for argument in found for one in (argument, *argument.views)):
        name, shape = tensor.name, tensor.shape
        for i, mode in enumerate(shape):
            if mode != ONE and mode in shape[:i]:
                help = "give every mode a name of its own"
                ctx.say("CG115", f"`{name}` has the mode `{shown(mode)}` twice", "tensors", name, "shape", i, help=help)
            if mode.isdigit() and mode != ONE and not tensor.views:
                message = f"`tensors.{name}.shape.{i}` must be at most 1, not {mode}"
                help = "name the mode, and fix its size under `static:`"
                ctx.say("CG105", message, "tensors", name, "shape", i, help=help)
        if tensor.major is not None and tensor.major not in tensor.modes:
            help = suggestion(tensor.major, tensor.modes, f"modes of {name}")
            message = f"`{shown(tensor.major)}` is not a mode of `{name}`"
            ctx.say("CG116", message, "tensors", name, "major", help=help)
        check_align(ctx, tensor)
    return tuple(t if t.views else replace(t, shape=tuple(ONE if m.isdigit() else m for m in t.shape)) for t in found)


def check_align(ctx: Context, tensor: Tensor) -> None:
    align, least = tensor.align, tensor.dtype.bytes
    if align is None or (align & (align - 1) == 0 and least <= align <= MAX_ALIGN):
        return
    if align < least:
        message, near = f"an element of {tensor.dtype.value} is {least} bytes; the alignment cannot be {align}", least
    else:
        message, near = f"an alignment is a power of two, not {align}", 1 << (align.bit_length() - 1)
    ctx.say("CG117", message, "tensors", tensor.name, "align", help=f"write {max(near, least)}")


def scalars(ctx: Context) -> tuple[Scalar, ...]:
    """Every scalar as declared."""
    found: tuple[Scalar, ...] = KEYS["scalars"].kind.read(ctx.data.get("scalars", {}), ctx, ("scalars",))
    return found


def check_names(ctx: Context, tensors: tuple[Tensor, ...], scalars: tuple[Scalar, ...]) -> None:
    """Tensors, in lower case, and scalars are arguments of one function, and modes the options of a command line: no
    two of one sort may meet. A mode may be called like an argument: generated code keeps them apart.
    """
    places: dict[tuple[str, str], tuple[tuple[str | int, ...], bool]] = {}
    for tensor in tensors:
        for name in (tensor.name, *(view.name for view in tensor.views)):
            places["tensor", name] = (("tensors", name), True)
    for scalar in scalars:
        places["scalar", scalar.name] = (("scalars", scalar.name), True)
    for tensor in (one for argument in tensors for one in (argument, *argument.views)):
        for mode in tensor.modes:
            i = tensor.shape.index(mode)
            if tensor.views and is_computed(mode):
                for part in modes_of(mode):
                    places.setdefault(("mode", part), (("tensors", tensor.name, "shape", i), False))
            elif not mode.isdigit():
                places.setdefault(("mode", mode), (("tensors", tensor.name, "shape", i), False))
    kernel = ctx.data["kernel"]
    named = [kernel, *(name for kind, name in places if kind != "scalar")]
    if op_named(ctx.data["op"]).has_product and (sources := derived_from(kernel, named[1:], DERIVED_CONSTANTS)):
        message = f"the kernel cannot be named `{kernel}`: its module makes that name from {sources}"
        ctx.say("CG111", message, "kernel", help=f"add a distinguishing suffix, like `{kernel}_rows`")
    arguments: dict[str, tuple[str, str]] = {kernel.lower(): ("kernel", kernel)}
    sizes: dict[str, tuple[str, str]] = {}
    for (kind, name), (path, key) in places.items():
        problem = name_problem(name)
        lower = name.lower()
        taken = sizes if kind == "mode" else arguments
        if problem:
            message = f"the {kind} name `{shown(name)}` {problem}"
            help = _PARTS if kind == "mode" and set("*/+-") & set(name) else name_help(name)
            ctx.say("CG113", message, *path, key=key, help=help)
        elif lower in NO_NAMES or lower == "cast" or lower in Dtype.__members__:
            what = "a dtype" if lower in Dtype.__members__ else "a function of compute"
            message = f"the {kind} `{name}` has the name of {what}"
            ctx.say("CG114", message, *path, key=key, help=f"write `{name}_`, or another name")
        elif kind == "scalar" and COMPILERS_OWN.fullmatch(name):
            message = f"the scalar cannot be named `{name}`: CuTeDSL uses that name itself in a branch of the kernel"
            ctx.say("CG113", message, *path, key=key, help=f"write `{name}_`, or another name")
        elif {lower, name} & {*RESERVED_ARGUMENTS, *op_named(ctx.data["op"]).reserved}:
            message = f"the {kind} cannot be named `{name}`: the generated module uses that name itself"
            ctx.say("CG113", message, *path, key=key, help=f"write `{name}_`, or another name")
        elif kind == "tensor" and (made := reserved_made_of(name)):
            message = f"the tensor cannot be named `{name}`: the generated code derives `{made}`, which it uses"
            ctx.say("CG113", message, *path, key=key, help=f"write `{name}_`, or another name")
        elif sources := derived_from(lower if kind == "tensor" else name, [n for n in named if n != name]):
            message = f"the {kind} cannot be named `{name}`: the generated code makes that name from {sources}"
            ctx.say("CG114", message, *path, key=key, help="rename one of them")
        elif lower in taken:
            other = taken[lower]
            message = f"the {kind} `{name}` is named like the {other[0]} `{other[1]}`"
            notes = (f"in the generated code both would be `{lower}`",)
            ctx.say("CG114", message, *path, key=key, notes=notes, help="rename one of them")
        else:
            taken[lower] = (kind, name)


def promises(ctx: Context, modes: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """`static` and `divisible`."""
    static, divisible = dict(ctx.data.get("static", {})), dict(ctx.data.get("divisible", {}))
    for field, sizes in (("static", static), ("divisible", divisible)):
        blocks = ctx.data.get("modes", {})  # of which CG147 is said
        for mode in sizes:
            if mode not in modes and mode not in blocks:
                ctx.unknown_mode(mode, modes, field, mode)
    for mode in divisible:
        if mode in static:
            notes = (f"{mode} is always {static[mode]}",)
            help = f"remove `{mode}` from divisible"
            ctx.say("CG134", f"`{mode}` is static already", "divisible", mode, key=True, notes=notes, help=help)
    return static, divisible


def unknown_name(ctx: Context, statement: int, name: str, start: int, end: int, known: list[str]) -> None:
    """Says that nothing declares a name in the statement of that number."""
    near = nearest(name, known)
    there = ", ".join(dict.fromkeys(known))  # an output that a statement computes is known as both
    help = f"did you mean `{near}`?" if near else f"declare it under tensors or scalars; there are {there}"
    path = ("compute",) if isinstance(ctx.data["compute"], str) else ("compute", statement)
    span = ctx.variant.place(path, start, end - start)
    if parts := [view for view, own in ctx.data["tensors"].items() if str(own.get("view", "")).startswith(f"{name}[")]:
        message = f"compute names `{name}`, an argument that has views"
        ctx.say("CG121", message, span=span, help=f"name its views {', '.join(parts)}, or give it one more")
        return
    ctx.say("CG121", f"`{shown(name)}` is neither a tensor nor a scalar", span=span, help=help)
