"""`compute` against the declarations: names, roles and types. The form of its statements is the op's to check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.errors import ExpressionError, NumberError, UntransposedError
from cutegen.expressions.named_numbers import NAMED_NUMBERS, with_named_numbers
from cutegen.expressions.parsing import NO_NAMES, Assignment, Compute, Place, coords, parse, product_place, uses
from cutegen.expressions.places import ONE
from cutegen.expressions.selecting import kept_modes
from cutegen.expressions.tree import Coord, Len, Reduce, along, lengths
from cutegen.language.asked import Op
from cutegen.language.context import Context
from cutegen.language.declarations import unknown_name
from cutegen.language.lengths import ends_and_lengths
from cutegen.language.model import Scalar, Tensor
from cutegen.language.names import name_help, name_problem, nearest, shown
from cutegen.language.taken import indices


def compute(
    ctx: Context, op: Op, tensors: tuple[Tensor, ...], scalars: tuple[Scalar, ...], *, shaped: bool = True
) -> Compute | None:
    """The statements, or None where, once said, they cannot be used. Unless the tensors are `shaped`, as where nothing
    has the places of one, only syntax and names are checked.
    """
    statements = _parsed(ctx, op)
    if statements is None:
        return None
    before = len(ctx.found)
    known = {t.name: t for t in tensors}
    statements = with_named_numbers(statements, {*known, *(s.name for s in scalars), *statements.targets})
    _check_names(ctx, statements, known, scalars)
    if len(ctx.found) == before and not op.has_reductions:
        _refuse_reduction(ctx, op, statements)
    if len(ctx.found) == before and not op.has_lengths:
        _refuse_length(ctx, op, statements)
    if len(ctx.found) > before or not shaped:
        return None
    _check_roles(ctx, statements, tensors, scalars)
    op.check_compute(ctx, statements, known, scalars)
    if len(ctx.found) == before and not op.has_product:
        _refuse_product(ctx, op, statements)
    if len(ctx.found) == before:
        _check_types(ctx, op, statements, tensors, scalars)
    return statements if len(ctx.found) == before else None


def say(ctx: Context, code: str, message: str, statement: int, place: Place, help: str | None = None) -> None:
    """A problem at a place of the statement of that number."""
    path = ("compute",) if isinstance(ctx.data["compute"], str) else ("compute", statement)
    ctx.say(code, message, span=ctx.variant.place(path, place.start, place.end - place.start), help=help)


def _parsed(ctx: Context, op: Op) -> Compute | None:
    """All statements, or None where one of them could not be read."""
    data = ctx.data["compute"]
    texts: list[str] = [data] if isinstance(data, str) else data
    found: list[Assignment] = []
    for number, text in enumerate(texts):
        try:
            found.append(parse(text))
        except ExpressionError as error:
            product = None if op.has_product else product_place(text)
            if product and product.start <= error.place.start < product.end:
                op.refuse_product(ctx, number, product)
            else:
                say(ctx, "CG120", error.message, number, error.place, _help(ctx, op, error))
    return Compute(tuple(found), listed=not isinstance(data, str)) if len(found) == len(texts) else None


def _help(ctx: Context, op: Op, error: ExpressionError) -> str | None:
    """A help text on what would work instead of an expression that cannot be parsed, by the op and declared tensors."""
    if op.has_product and not op.has_reductions and "`op: rowwise`" in (error.help or ""):
        products = str(ctx.data["compute"]).count("@")
        several = "; attention, with a second product, is `op: contract`" if products > 1 else ""
        return (
            f"a kernel with `op: {op.name}` has no reductions: write what it makes to memory, and reduce that in a "
            f"second one with `op: rowwise`{several}"
        )
    if not isinstance(error, UntransposedError) or error.names is None:
        return error.help
    a, b = ([str(mode) for mode in _shape(ctx, name)] for name in error.names)
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        return error.help
    product, name = f"`{error.names[0]} @ {error.names[1]}.T`", error.names[1]
    shape = f"`{name}: {{shape: [{', '.join([*b[:-2], b[-1], b[-2]])}], major: {b[-1]}}}`"
    return f"write {product} with {shape}, and pass the tensor that you have as `{name.lower()}.mT`: no copy is made"


def _shape(ctx: Context, name: str) -> list[object]:
    """The modes that a tensor is declared with; empty where it is not declared."""
    declared = ctx.data["tensors"].get(name, {})
    return list(declared.get("shape", ()))


def _check_names(ctx: Context, statements: Compute, known: Mapping[str, Tensor], scalars: tuple[Scalar, ...]) -> None:
    """Every name is a tensor, a scalar or a value that an earlier statement computed, and assigned at most once."""
    declared = [*known, *(s.name for s in scalars)]
    taken = {mode for tensor in known.values() for mode, _ in tensor.at}
    own = (m for tensor in known.values() for m in tensor.free if m not in taken and m != ONE)
    modes = tuple(dict.fromkeys((*own, *kept_modes(statements))))
    assigned: list[str] = []
    later = set(statements.targets)
    for number, statement in enumerate(statements.statements):
        for name, place in uses(statement.value):
            if name in declared or name in assigned:
                continue
            if name in later:
                message = f"`{shown(name)}` is used before it is computed"
                say(ctx, "CG121", message, number, place, "statements are computed in their order")
            else:
                unknown_name(ctx, number, name, place.start, place.end, [*declared, *assigned, *NAMED_NUMBERS])
        asked: tuple[Coord | Len, ...] = (*coords(statement.value), *lengths(statement.value))
        for coord in asked:
            if coord.mode not in modes:
                message, help = f"`{shown(coord.mode)}` is not a mode here", f"modes: {', '.join(modes)}"
                say(ctx, "CG116", message, number, coord.place, help)
        for node in along(statement.value):
            if node.mode not in modes:
                goes = "reduces" if isinstance(node, Reduce) else "goes"
                message = f"{node.function} {goes} along a mode, and `{shown(node.mode)}` is not a mode here"
                help = f"modes: {', '.join(modes)}"
                if node.function in ("max", "min"):
                    side = "larger" if node.function == "max" else "smaller"
                    help += f"; the {side} of two values is `{node.function}imum(x, y)`"
                say(ctx, "CG116", message, number, node.mode_place, help)
        _check_target(ctx, statements, number, known, scalars, assigned)
        assigned.append(statement.target)


def _check_target(
    ctx: Context,
    statements: Compute,
    number: int,
    known: Mapping[str, Tensor],
    scalars: tuple[Scalar, ...],
    assigned: list[str],
) -> None:
    """Checks that statement `number` assigns to an output, or to a new name for a value that is used later."""
    statement = statements.statements[number]
    target, place = statement.target, statement.target_place
    outputs = ", ".join(t.name for t in known.values() if t.writes) or "none yet"
    later = {name for other in statements.statements[number + 1 :] for name in other.names()}
    if target in assigned:
        message = f"compute assigns to `{target}` twice"
        say(ctx, "CG122", message, number, place, "give the second value its own name")
    elif target in known:
        if not known[target].writes:
            read = target in statement.names()
            help = f"write `role: {'inout' if read else 'out'}` at the tensor {target}"
            if (view := known[target].view) is not None:
                help = f"write `role: inout` at the argument {view.partition('[')[0]}"
            say(ctx, "CG122", f"compute assigns to `{target}`, whose role is in", number, place, help)
    elif target in [s.name for s in scalars]:
        message = f"compute assigns to the scalar `{target}`"
        say(ctx, "CG122", message, number, place, f"outputs: {outputs}")
    elif target not in later:
        _say_unused(ctx, statements, number, [t.name for t in known.values() if t.writes])
    elif problem := name_problem(target):
        say(ctx, "CG113", f"the name `{shown(target)}` {problem}", number, place, name_help(target))
    elif target in NO_NAMES or target in ("cast", "coord") or target in Dtype.__members__:
        what = "a dtype" if target in Dtype.__members__ else "a function of compute"
        message = f"the value `{target}` has the name of {what}"
        say(ctx, "CG114", message, number, place, f"write `{target}_`, or another name")


def _say_unused(ctx: Context, statements: Compute, number: int, outputs: Sequence[str]) -> None:
    """Says that the value of a statement is used nowhere, or that its name is a misspelt output's."""
    target, place = statements.statements[number].target, statements.statements[number].target_place
    unassigned = [name for name in outputs if name not in statements.targets]
    if nearest(target, unassigned) or not outputs:
        unknown_name(ctx, number, target, place.start, place.end, unassigned)
        return
    help = f"remove the statement, or use `{shown(target)}` in another one; outputs: {', '.join(outputs)}"
    say(ctx, "CG125", f"`{shown(target)}` is computed and never used", number, place, help)


def _check_roles(ctx: Context, statements: Compute, tensors: tuple[Tensor, ...], scalars: tuple[Scalar, ...]) -> None:
    """Outputs are written once and not read before, an inout is, and everything that is declared is used."""
    read = {*statements.names(), *indices(tensors), *ends_and_lengths(tensors)}
    targets = statements.targets
    only = " and ".join(f"`{target}`" for target in targets if target in {t.name for t in tensors})
    for tensor in tensors:
        name, path = tensor.name, ("tensors", tensor.name)
        if name in targets:
            before = _first_use(statements, name, targets.index(name))
            if tensor.role == "out" and before is not None:
                help = f"write `role: inout` at the tensor {name}"
                say(ctx, "CG123", f"compute reads `{name}`, whose role is out", *before, help)
            elif tensor.role == "inout" and before is None:
                message = f"`{name}` is inout, and compute never reads it"
                if name in read:
                    message += " before it assigns to it"
                ctx.say("CG124", message, *path, "role", help="write `role: out`")
        elif tensor.writes:
            message = f"`{name}` is {tensor.role}, and compute assigns to {only} only"
            help = "write `role: in`" if name in read else "assign to it in compute, or remove the tensor"
            ctx.say("CG126", message, *path, "role", help=help)
        elif name not in read:
            help = "remove it, or use it in compute"
            ctx.say("CG125", f"the tensor `{name}` is never used", *path, key=True, help=help)
    for scalar in scalars:
        if scalar.name not in read:
            help = "remove it, or use it in compute"
            ctx.say("CG125", f"the scalar `{scalar.name}` is never used", "scalars", scalar.name, key=True, help=help)


def _refuse_product(ctx: Context, op: Op, statements: Compute) -> None:
    for number, statement in enumerate(statements.statements):
        if statement.matmul:
            op.refuse_product(ctx, number, statement.matmul.place)
            return


def _refuse_reduction(ctx: Context, op: Op, statements: Compute) -> None:
    for number, statement in enumerate(statements.statements):
        for node in along(statement.value):
            kind = "is a reduction" if isinstance(node, Reduce) else "goes"
            message = f"`{node.function}` {kind} along a mode, and `op: {op.name}` has none"
            say(ctx, "CG127", message, number, node.place, "`op: rowwise` has them")
            return


def _refuse_length(ctx: Context, op: Op, statements: Compute) -> None:
    for number, statement in enumerate(statements.statements):
        for length in lengths(statement.value):
            help = (
                f"`op: contract` has it; where the size is fixed, write the number, or pass `{length.mode}` as a scalar"
            )
            say(ctx, "CG127", f"`op: {op.name}` knows no `len` of a mode", number, length.place, help)
            return


def _first_use(statements: Compute, name: str, last: int) -> tuple[int, Place] | None:
    """Where a name is first read, up to the right side of the statement of number `last`."""
    for number, statement in enumerate(statements.statements[: last + 1]):
        for used, place in uses(statement.value):
            if used == name:
                return number, place
    return None


def _check_types(
    ctx: Context, op: Op, statements: Compute, tensors: tuple[Tensor, ...], scalars: tuple[Scalar, ...]
) -> None:
    types = {t.name: t.dtype for t in tensors} | {s.name: s.dtype for s in scalars}
    written = ctx.data.get("schedule", {})
    first = written if isinstance(written, Mapping) else (written or [{}])[0]  # all cases have the same
    accumulator = first.get("mma", {}).get("accumulator") if op.has_product else None
    try:
        annotate(statements, types, Dtype(accumulator) if accumulator else None)
    except NumberError as error:
        say(ctx, "CG135", error.message, error.statement, error.place, error.help)
    except ExpressionError as error:
        say(ctx, "CG128", error.message, error.statement, error.place, error.help)


def first_output(compute: Compute, tensors: Mapping[str, Tensor]) -> Tensor:
    """The first tensor that statements assign to: checked ones have one."""
    return next(tensors[target] for target in compute.targets if target in tensors)
