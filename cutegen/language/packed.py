"""Arguments that are packed, and the views of them: whether what a spec declares of these can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutegen.expressions.errors import ExpressionError
from cutegen.expressions.parsing import parse, uses
from cutegen.language.context import Context
from cutegen.language.names import shown, suggestion
from cutegen.language.tensor import OF_VIEWS, Role, Tensor
from cutegen.views.cuts import ViewError, argument_of, cuts, is_covered, shape_of, sharing, with_views
from cutegen.views.extents import ExtentError, extent, is_computed
from cutegen.views.sizes import unsolved

CODE = "CG145"


def packed(ctx: Context, declared: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The arguments: tensors as declared, those that are packed with their views. Says to `ctx` what a view cannot be;
    such a view is left as a tensor of its own.
    """
    views: dict[str, list[Tensor]] = {}
    known = {tensor.name: tensor for tensor in declared}
    for view in (tensor for tensor in declared if tensor.view is not None):
        if (name := _argument(ctx, view, known)) is not None:
            views.setdefault(name, []).append(view)
    found = []
    for tensor in declared:
        if tensor.name in views:
            argument = _with_views(ctx, tensor, views[tensor.name])
            found += [argument] * bool(argument.views)
            left = (view for view in views[tensor.name] if view.name not in argument.names)
            found += [replace(view, view=None, dtype=tensor.dtype, role=_role(ctx, view.name)) for view in left]
        elif not any(tensor in several for several in views.values()):
            role = tensor.role if tensor.view is None else _role(ctx, tensor.name)
            found.append(replace(tensor, view=None, role=role))
    return tuple(found)


def _argument(ctx: Context, view: Tensor, known: Mapping[str, Tensor]) -> str | None:
    """The argument that a view is of; None where, once said, there is none."""
    path = ("tensors", view.name)
    for key in ctx.data["tensors"][view.name]:
        if key not in OF_VIEWS:
            message = f"`{view.name}` is a view, and `{key}` is its argument's"
            ctx.say(CODE, message, *path, key, key=True, help=f"write `{key}` at the argument, or leave it out")
    try:
        name = argument_of(view)
    except ViewError as error:
        ctx.say(CODE, str(error), *path, "view", help=error.help)
        return None
    if name not in known or name == view.name:
        help = suggestion(name, [t.name for t in known.values() if t.view is None], "arguments")
        ctx.say(CODE, f"`{shown(name)}` is not a tensor of this kernel", *path, "view", help=help)
        return None
    if known[name].view is not None:
        message = f"`{view.name}` is a view of `{name}`, which is a view itself"
        ctx.say(CODE, message, *path, "view", help=f"index the argument: `{name}` is {known[name].view}")
        return None
    return name


def _with_views(ctx: Context, argument: Tensor, views: Sequence[Tensor]) -> Tensor:
    """An argument with those of its views that are possible; without any, once said, where it cannot have any."""
    path, before = ("tensors", argument.name), len(ctx.found)
    if argument.at:
        message = f"`{argument.name}` has both views and `at`"
        ctx.say(CODE, message, *path, "at", key=True, help="declare its parts as arguments instead of views")
    for i, item in enumerate(argument.shape):
        if is_computed(item):
            try:
                extent(item)
            except ExtentError as error:
                help = "write names of modes and whole numbers, such as `2*N` or `(HQ + 2*HK)*D`"
                ctx.say(CODE, f"`{shown(item)}` {error}", *path, "shape", i, help=help)
    if len(ctx.found) > before:
        return argument
    found, static = [], ctx.data.get("static", {})
    for view in views:
        try:
            if "shape" not in ctx.data["tensors"][view.name]:
                view = replace(view, shape=shape_of(argument, view, static))
            cuts(argument, view, static)
        except ViewError as error:
            ctx.say(CODE, str(error), "tensors", view.name, "view", help=error.help)
            continue
        role = _role(ctx, view.name) if argument.writes else "in"
        found.append(replace(view, dtype=argument.dtype, role=role))
    whole = replace(argument, views=tuple(found))
    if len(ctx.found) == before:
        _check_sharing(ctx, whole, static)
        if argument.writes:
            _check_role(ctx, whole, static)
    return whole


def _role(ctx: Context, name: str) -> Role:
    """The role of a view: statements read it, write it, or both."""
    data, reads = ctx.data["compute"], False
    for text in [data] if isinstance(data, str) else data:
        try:
            statement = parse(text)
        except ExpressionError:
            continue
        reads |= any(used == name for used, _ in uses(statement.value))
        if statement.target == name:
            return "inout" if reads else "out"
    return "in"


def _check_sharing(ctx: Context, argument: Tensor, static: Mapping[str, int]) -> None:
    """Views of which one is written have no element in common."""
    for first, second in sharing(argument, static):
        message = f"`{first.name}`, which is written, may share elements of `{argument.name}` with `{second.name}`"
        notes = (f"{first.name} is {first.view}, and {second.name} is {second.view}",)
        help = "declare elements that are read and written as one view"
        ctx.say(CODE, message, "tensors", second.name, "view", notes=notes, help=help)


def _check_role(ctx: Context, argument: Tensor, static: Mapping[str, int]) -> None:
    """An argument is written by way of a view; it is `out` if its views write all of it, and read nothing."""
    path, views = ("tensors", argument.name, "role"), argument.views
    written = [view for view in views if view.writes]
    read = next((view for view in views if view.reads), None)
    whole = is_covered(argument, written, static)
    names = ", ".join(view.name for view in views)
    if not written:
        message = f"`{argument.name}` is {argument.role}, and compute assigns to none of its views {names}"
        ctx.say("CG126", message, *path, help="write `role: in`, or assign to a view")
    elif argument.role == "out" and read is not None:
        message = f"`{argument.name}` is out, and compute reads its view `{read.name}`"
        ctx.say("CG123", message, *path, help="write `role: inout`")
    elif argument.role == "out" and not whole:
        message = f"`{argument.name}` is out, and its views, {names}, leave some of it unwritten"
        help = "write `role: inout`: elements that no view writes then keep their values"
        ctx.say(CODE, message, *path, help=help)
    elif argument.role == "inout" and read is None and whole:
        message = f"`{argument.name}` is inout, and its views {names} write all of it and read nothing"
        ctx.say("CG124", message, *path, help="write `role: out`")


def kernel_tensors(ctx: Context, arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The tensors of the kernel: arguments, and instead of packed ones their views. Says to `ctx` which sizes do not
    follow from those of the arguments.
    """
    static = ctx.data.get("static", {})
    for argument, i, modes in unsolved(arguments, static):
        which, several = " and ".join(f"`{mode}`" for mode in modes), len(modes) > 1
        follow = f"size{'s' * several} of {which} do{'es' * (not several)} not follow"
        message = f"the {follow} from that of `{argument.name}` along `{argument.shape[i]}`"
        notes = ("each computed size determines one mode that no argument has by itself",)
        fixed = ", ".join(f"{mode}: ..." for mode in (modes[1:] or modes))
        help = f"fix {'the others' if several else 'it'}, as in `static: {{{fixed}}}`"
        ctx.say(CODE, message, "tensors", argument.name, "shape", i, notes=notes, help=help)
    return with_views(arguments, static, ctx.data.get("divisible", {}))
