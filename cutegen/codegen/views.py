"""Text for arguments that are packed: the views that `launch` and `reference` take of them, and the sizes of modes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cutegen.codegen.formatting import WIDTH, call, display, python_tuple
from cutegen.codegen.variables import Variables
from cutegen.language.model import KernelSpec, Tensor
from cutegen.views.cuts import Cut, cuts
from cutegen.views.extents import Extent, extent, is_computed
from cutegen.views.sizes import Solved, solved


def views_context(spec: KernelSpec) -> dict[str, Any]:
    """The template context of packed arguments. `spec` has the arguments."""
    items = [item for item in items_of(spec) if is_computed(item) and item not in constants_of(spec)]
    return {
        "packed": [argument for argument in spec.tensors if argument.views],
        "views_made": _views_made(spec),
        "packed_rules": _rules(spec),
        "computed_sizes": [f'sizes["{item}"] = {_text(extent(item), _keyed(spec))}' for item in items],
    }


def items_of(spec: KernelSpec) -> tuple[str, ...]:
    """The modes of the spec, then the sizes that are computed of them, as the table of arguments has both."""
    items = (item for argument in spec.tensors for item in argument.shape if is_computed(item))
    return tuple(dict.fromkeys((*spec.modes, *items)))


def constants_of(spec: KernelSpec) -> dict[str, int]:
    """The fixed sizes, those that follow from fixed ones among them."""
    found = dict(spec.static)
    for item in items_of(spec):
        if is_computed(item) and (value := extent(item).knowing(spec.static).constant) is not None:
            found[item] = value
    return found


def divisors_of(spec: KernelSpec) -> dict[str, int]:
    """A divisor of each size of `items_of`."""
    fixed, known = constants_of(spec), {**spec.divisible, **spec.static}
    return {
        item: 1 if item in fixed else extent(item).divisor(known) if is_computed(item) else spec.divisible.get(item, 1)
        for item in items_of(spec)
    }


def size_texts(spec: KernelSpec, form: str = "{}.shape[{}]") -> dict[str, str]:
    """An expression of the size of each mode and of each computed size. `form` has that of an argument along an axis.

    Arguments that are read come first: the others may be left out.
    """
    found = _plain_sizes(spec, form)
    names = {argument.name: _named(argument, form) for argument in spec.tensors}
    for one in solved(spec.tensors, spec.static)[0]:
        found[one.mode] = _quotient(one, form.format(names[one.argument], one.axis), found, spec.static)
    for item in items_of(spec):
        if is_computed(item):
            found[item] = _text(extent(item), found)
    return found


def _plain_sizes(spec: KernelSpec, form: str) -> dict[str, str]:
    """Expressions of the sizes of modes that are fixed, or that arguments have themselves: first those that are read,
    since the others may be left out.
    """
    found = {mode: str(size) for mode, size in spec.static.items()}
    for argument in sorted(spec.tensors, key=lambda t: (not t.reads, not t.views)):
        for axis, item in enumerate(argument.shape):
            if not is_computed(item):
                found.setdefault(item, form.format(_named(argument, form), axis))
    return found


def size_lines(spec: KernelSpec, form: str, variables: Variables) -> tuple[list[str], dict[str, str]]:
    """Statements that give the sizes which follow from others a variable each, and expressions of the sizes of modes.

    `form` has the text of the size of an argument along an axis.
    """
    found, lines = _plain_sizes(spec, form), []
    names = {argument.name: _named(argument, form) for argument in spec.tensors}
    for one in solved(spec.tensors, spec.static)[0]:
        variable = variables.free(f"size_{one.mode}")
        size = form.format(names[one.argument], one.axis)
        lines.append(f"{variable} = {_quotient(one, size, found, spec.static)}")
        found[one.mode] = variable
    return lines, found


def _named(argument: Tensor, form: str) -> str:
    return argument.name if form.startswith("m") else argument.argument


def _quotient(one: Solved, size: str, names: Mapping[str, str], static: Mapping[str, int]) -> str:
    """The text of a mode's size, from that of the argument along the mode that has it."""
    rest, factor = one.rest.knowing(static), one.factor.knowing(static)
    above = f"({size} - {_in_brackets(rest, names)})" if rest.terms else size
    if factor.constant == 1:
        return above.removeprefix("(").removesuffix(")")
    if factor.constant is not None:
        return f"{above} // {factor.constant}"
    below = _in_brackets(factor, names)
    return f"{above} // ({below} + ({below} == 0))"


def _in_brackets(size: Extent, names: Mapping[str, str]) -> str:
    return f"({_text(size, names)})" if len(size.terms) > 1 else _text(size, names)


def _text(size: Extent, names: Mapping[str, str]) -> str:
    numbers = {mode: int(name) for mode, name in names.items() if name.isdigit()}
    return size.knowing(numbers).text({m: f"({n})" if " " in n else n for m, n in names.items()})


def _keyed(spec: KernelSpec) -> dict[str, str]:
    return {mode: str(spec.static[mode]) if mode in spec.static else f'sizes["{mode}"]' for mode in spec.modes}


# --------------------------------------------------------------------------------------------------- views in `launch`


def _views_made(spec: KernelSpec) -> list[tuple[str, str]]:
    """The statements of `launch` that make the views, each with its path in the spec."""
    if not any(argument.views for argument in spec.tensors):
        return []
    variables = Variables(spec.by_view)
    lines, sizes = size_lines(spec, "m{}.shape[{}]", variables)
    found = [("tensors", line) for line in lines]
    for argument in spec.tensors:
        for view in argument.views:
            own = spec.by_view.tensor(view.name)
            found.append((f"tensors.{view.name}.view", f"# {view.name} is {view.view}"))
            found.append((f"tensors.{view.name}.view", _made(spec, argument, own, sizes)))
    return found


def _made(spec: KernelSpec, argument: Tensor, view: Tensor, sizes: Mapping[str, str]) -> str:
    """The statement that makes a view."""
    unit = max(1, (view.align or 1) // view.dtype.bytes)
    offsets, shape, stride = [], [], []
    for axis, cut in enumerate(cuts(argument, view, spec.static)):
        inner = cut.item == argument.contiguous
        step = "1" if inner else f"m{argument.name}.stride[{axis}]"
        if cut.start.knowing(spec.static).terms:
            offsets.append(_offset(cut, step, sizes))
        for i, mode in enumerate(cut.modes):
            shape.append(sizes[mode])
            stride.append(_stride(cut, i, step, sizes, unit, inner and i + 1 == len(cut.modes)))
    start = " + ".join([f"m{argument.name}.iterator", *offsets])
    if unit > 1 and offsets:
        start = f"({start}).align({view.align})"
    layout = ("cute.make_layout(", [python_tuple(shape), f"stride={python_tuple(stride)}"], ")")
    return call(f"m{view.name} = cute.make_tensor(", [start, layout], ")", 4)


def _offset(cut: Cut, step: str, sizes: Mapping[str, str]) -> str:
    if step == "1":
        return _in_brackets(cut.start, sizes)
    return step if cut.start.text() == "1" else f"{_in_brackets(cut.start, sizes)} * {step}"


def _stride(cut: Cut, i: int, step: str, sizes: Mapping[str, str], unit: int, contiguous: bool) -> str:
    """The stride of the mode of that number in a cut; `unit` is what strides are multiples of, in elements."""
    number, factors = cut.step, []
    for mode in cut.modes[i + 1 :]:
        if sizes[mode].isdigit():
            number *= int(sizes[mode])
        else:
            factors.append(sizes[mode])
    if step == "1":
        if not factors:
            return str(number)
        text = " * ".join([f"cutlass.Int64({factors[0]})", *factors[1:], *([str(number)] if number != 1 else [])])
    else:
        text = " * ".join([step, *factors, *([str(number)] if number != 1 else [])])
    return f"cute.assume({text}, divby={unit})" if unit > 1 and factors and not contiguous else text


# ------------------------------------------------------------------------------------------------------------ checks


def _rules(spec: KernelSpec) -> list[str]:
    """The statements of `_rules` about sizes that are computed of others."""
    lines: list[str] = []
    keyed, names = _keyed(spec), {argument.name: argument for argument in spec.tensors}
    found = solved(spec.tensors, spec.static)[0]
    for one in found:
        argument = names[one.argument]
        item, step = argument.shape[one.axis], spec.divisible.get(one.mode, 1)
        size, own = f'sizes["{item}"]', f'sizes["{one.mode}"]'
        for other in (t for t in spec.tensors if one.mode in t.shape):
            lines.append(f"wanted = {_quotient(one, size, keyed, spec.static)}")
            lines.append(f'if "{other.argument}" in placed:')
            lines.append(f"    {_yield(f'{other.argument}', f'{one.mode} = {{wanted}}', own, f'{own} == wanted')}")
        lines.append(f"{own} = {_quotient(one, size, keyed, spec.static)}")
        if one.rest.knowing(spec.static).terms or one.factor.knowing(spec.static).constant is None:
            lines.append(f"fits = ({size} == {_text(extent(item), keyed)}) & ({own} >= 0)")
            lines.append(_yield(argument.argument, f"{item} for a whole {one.mode}", size, "fits"))
        most = f'LARGEST["{one.mode}"]'
        lines.append(_yield(argument.argument, f"{one.mode} <= {{LARGEST['{one.mode}']}}", own, f"{own} <= {most}"))
        if step > 1:
            lines.append(_yield(argument.argument, f"{one.mode} % {step} == 0", own, f"{own} % {step} == 0"))
    done = {(one.argument, one.axis) for one in found}
    for argument in spec.tensors:
        for axis, item in enumerate(argument.shape):
            if not is_computed(item) or item in constants_of(spec) or (argument.name, axis) in done:
                continue
            size, wanted = f'sizes["{item}"]', _text(extent(item), keyed)
            lines.append(f'if "{argument.argument}" in placed:')
            lines.append(f"    wanted = {wanted}")
            lines.append(f"    {_yield(argument.argument, f'{item} = {{wanted}}', size, f'{size} == wanted')}")
    return lines


def _yield(name: str, wanted: str, got: str, holds: str) -> str:
    """A rule of an argument. What is wanted may have braces, with what is to stand there."""
    items = [f'"{name}"', f'f"{wanted}"' if "{" in wanted else f'"{wanted}"', got, holds]
    flat = f"yield {', '.join(items)}"
    return flat if 8 + len(flat) <= WIDTH else display("yield (", items, ")", 4)


# ------------------------------------------------------------------------------------------------------- in `reference`


def index_text(spec: KernelSpec, view: Tensor, sizes: Mapping[str, str]) -> str:
    """The expression of a view in torch. `spec` has the arguments, `sizes` expressions of the sizes of modes."""
    argument = next(t for t in spec.tensors if view.name in t.names)
    items, split, axis = [], [], 0
    own = cuts(argument, view, spec.static)
    for cut in own:
        items.append(_item(cut, spec.static, sizes))
        if len(cut.modes) > 1:
            split.append(f".unflatten({axis}, {python_tuple([sizes[mode] for mode in cut.modes])})")
            axis += len(cut.modes) - 1
        axis += bool(cut.modes)
    while items and items[-1] == ":":
        items.pop()
    index = f"[{', '.join(items)}]" if items else ""
    return f"{argument.argument}{index}{''.join(split)}"


def _item(cut: Cut, static: Mapping[str, int], sizes: Mapping[str, str]) -> str:
    if not cut.modes:
        return _text(cut.start, sizes)
    if cut.is_whole:
        return ":"
    start = _text(cut.start, sizes) if cut.start.knowing(static).terms else ""
    to_end = (extent(cut.item) - cut.stop).knowing(static).constant
    stop = "" if to_end is not None and 0 <= to_end < cut.step else _text(cut.stop, sizes)
    colon = ":" if all(part.isidentifier() or part.isdigit() or not part for part in (start, stop)) else " : "
    text = f"{start}{colon}{stop}".strip()
    return f"{text}{f':{cut.step}' if cut.step > 1 else ''}"


def view_lines(spec: KernelSpec, names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The statements of `reference` that take views, and expressions of the sizes of modes. `spec` is any."""
    spec = spec.by_argument
    if not any(argument.views for argument in spec.tensors):
        return [], {}
    variables = Variables(spec.by_view)
    lines, sizes = size_lines(spec, "{}.shape[{}]", variables)
    for mode in _of_indices(spec):
        if not sizes[mode].isidentifier() and not sizes[mode].isdigit():  # arguments get other meanings further on
            variable = variables.free(f"size_{mode}")
            lines.append(f"{variable} = {sizes[mode]}")
            sizes[mode] = variable
    views = [view for argument in spec.tensors for view in argument.views if view.name in names]
    return [*lines, *(f"{view.argument} = {index_text(spec, view, sizes)}" for view in views)], sizes


def _of_indices(spec: KernelSpec) -> tuple[str, ...]:
    """The modes whose sizes the indices of views have."""
    found: list[str] = []
    for argument in spec.tensors:
        for cut in (cut for view in argument.views for cut in cuts(argument, view, spec.static)):
            found += [] if cut.is_whole else [*cut.start.modes, *cut.stop.modes]
            found += cut.modes if len(cut.modes) > 1 else ()
    return tuple(dict.fromkeys(found))


def packed_results(
    spec: KernelSpec, argument: Tensor, results: Mapping[str, str], *, inplace: bool = False, passed: bool = False
) -> Iterator[str]:
    """The statements of `reference` that make what is returned for a packed argument, or with `inplace` that write it;
    `results` has the values of tensors by name. One that every caller has `passed` is not written.
    """
    sizes = view_lines(spec, ())[1]
    name = argument.argument
    if argument.reads and not inplace:
        yield f"{name} = {name}.clone()"
    elif passed and not inplace:
        yield f"{name} = torch.empty_like({name})"
    for view in argument.views:
        if view.name in results:
            yield f"{index_text(spec.by_argument, view, sizes)}.copy_({results[view.name]})"


# ------------------------------------------------------------------------------------------------------ documentation

USES = {"in": "read", "out": "written", "inout": "read and written"}


def documented(argument: Tensor, line: str) -> list[tuple[str, str]]:
    """The line of an argument's documentation and one for each of its views, each with its key in the spec."""
    found = [(f"tensors.{argument.name}", line)]
    for view in argument.views:
        index = str(view.view).replace(f"{argument.name}[", f"{argument.argument}[", 1)
        line = f"  {index} is {view.name}: [{', '.join(view.shape)}], {USES[view.role]}."
        found.append((f"tensors.{view.name}.view", line))
    return found
