"""What the module of several cases prints: the kernels of all, and a `launch` that chooses among their launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cutegen.cases.chooser_text import chooser
from cutegen.cases.forms import Form, forms_of, with_all_regions
from cutegen.cases.kernels import KernelText, inside_text, kernel_of
from cutegen.cases.known_text import KnownText, known_by_case, promised, promises_more
from cutegen.cases.limits import limits_of, strictest
from cutegen.cases.plan import CasesPlan
from cutegen.codegen.formatting import WIDTH, Item, call, chain, python_tuple, replaced, replaced_later
from cutegen.codegen.merging import combined, numbered_names
from cutegen.codegen.parts import KernelParts, Padding, Workspaces
from cutegen.codegen.variables import Variables
from cutegen.family import family_of
from cutegen.language.cases import Conditions
from cutegen.language.model import KernelSpec

ALWAYS = ("launch",)  # numbered even where two cases are alike, since the module has a `launch` of its own


@dataclass(frozen=True)
class ChoiceText:
    """One case among those that a target has: how its number is told, and how its kernel is launched."""

    number: int  # from 1 on
    says: str
    when: str  # `if ...:` and its like; empty where nothing else is left
    within: str  # the same once more, of whether the kernel is compiled; empty where it always is
    call: str  # the statement that launches it
    path: str


@dataclass(frozen=True)
class TargetText:
    """The cases that some targets have."""

    when: str  # empty where all targets have the same
    known: list[str]  # statements that name tensors with what all cases compared by cost know of them
    common: str  # the statement that finds out whether what several cases ask holds; empty if there is none
    choices: list[ChoiceText]


@dataclass(frozen=True)
class FunctionsText:
    """The functions of one case, or of several that share them."""

    type: str  # the class of the parameter in which these differ, with marks; empty if there is none
    cases: list[tuple[int, str]]  # of each its number from 0 on, and lines that say what it is
    functions: Sequence[str]


def kernel_parts(plan: CasesPlan) -> KernelParts:
    """The parts of a module of several cases."""
    variables = Variables(plan.spec)
    forms = forms_of(plan, variables)
    promises, in_common = known_by_case(plan, variables), variables.free("all_hold")
    nameless: list[dict[str, str]] = [{} for _ in plan.cases]
    first = _kernels(plan, nameless, forms, [Variables(plan.spec) for _ in plan.cases])
    outside = _outside(plan.spec) | variables.taken
    names = numbered_names([kernel.all for kernel in first], ALWAYS, outside, _groups(plan, forms))
    kernels = _kernels(plan, names, forms, [variables] * len(names))
    for number, form in forms.items():
        if number == form.numbers[0] and len(form.groups) == 1:
            kernels[number] = with_all_regions([kernels[one] for one in form.numbers])
    constants, functions = combined([kernel.device for kernel in kernels], names)
    _, of_host = combined([kernel.host for kernel in kernels], names)
    by_target = len({_of_target(plan, target) for target in plan.spec.targets}) > 1
    target = variables.free("target") if by_target else ""
    by_cost = (variables.free("kernel"), variables.free("kernels")) if plan.by_cost else ("", "")
    # An exported kernel has the limits and no class of cases: what these differ in stands there as numbers
    numbers = [own | (forms[i].values(i) if i in forms else {}) for i, own in enumerate(names)]
    limits = [
        limit for kernel, own in zip(kernels, numbers, strict=True) for limit in limits_of(plan, kernels, kernel, own)
    ]
    padded: dict[str, Padding] = {}  # a call copies what one of its cases may need a copy of
    for kernel in kernels:
        for name, one in kernel.parts.padded.items():
            least = padded[name].align if name in padded else 1
            padded[name] = Padding(max(one.align, least), inside_text(one.path, kernel.number))
    documentation = [(inside_text(path, k.number), said) for k in kernels for path, said in k.parts.documentation]
    return KernelParts(
        template="cases.py.j2",
        constants=constants,
        context={
            "kernels": _with_functions(plan, kernels, forms, functions),
            "targets_text": _targets(plan, kernels, target, by_cost, _known(plan, variables), promises, in_common),
            "promises": list({one.name: one for one in promises.values()}.values()),
            "promised": any(promises_more(plan.spec, kernel.plan.spec) for kernel in kernels),
            "stands": any(one.align > 1 for one in plan.conditions),
            "workspace_functions": [text for texts in of_host for text in texts],
        },
        workspaces=_workspaces(kernels, names),
        padded=padded,
        row_copies=next((kernel.parts.row_copies for kernel in kernels if kernel.parts.row_copies), None),
        limits=strictest(limits, constants),
        documentation=tuple((path, said) for said, path in {said: path for path, said in documentation}.items()),
        nvgpu_path="schedule",
        nvgpu=tuple(
            sorted({name for kernel in kernels for name in kernel.parts.nvgpu}, key=lambda n: (n.islower(), n))
        ),
        multiprocessors=next((k.parts.multiprocessors for k in kernels if k.parts.multiprocessors), None),
        chooser=chooser(plan, *by_cost) if plan.by_cost else None,
        chosen_by_target=(f"{target}: cutlass.Constexpr[str]", "arch") if by_target else None,
    )


def _groups(plan: CasesPlan, forms: Mapping[int, Form]) -> list[int]:
    """Of each case the number of the first one of its form."""
    own = [family_of(case.spec).form(case) for case in plan.cases]
    groups = [number if form is None else own.index(form) for number, form in enumerate(own)]
    return [forms[number].numbers[0] if number in forms else group for number, group in enumerate(groups)]


def _kernels(
    plan: CasesPlan, names: Sequence[Mapping[str, str]], forms: Mapping[int, Form], variables: Sequence[Variables]
) -> list[KernelText]:
    """The kernels of all cases."""
    found = [_kernel(plan, i, own, forms.get(i), variables[i]) for i, own in enumerate(names)]
    for number, form in forms.items():
        if number == form.numbers[0]:
            with replaced_later(names[number]):
                merged = form.merged({one: found[one] for one in form.numbers})
            found = [merged.get(i, one) for i, one in enumerate(found)]
    return found


def _kernel(
    plan: CasesPlan, number: int, names: Mapping[str, str], form: Form | None, variables: Variables
) -> KernelText:
    """The kernel of the case of that number, with the functions of its form, if others share those."""
    case = plan.cases[number]
    if form is None:
        return kernel_of(number, case, names, variables)
    shared = family_of(case.spec).with_fields(case, form.names, form.told)
    assert shared is not None  # as it was without the names
    kernel = kernel_of(number, shared, {**names, form.parameter: form.instances[number]}, variables, form.in_functions)
    return replace(kernel, device=form.of(kernel.device))


def _with_functions(
    plan: CasesPlan, kernels: Sequence[KernelText], forms: Mapping[int, Form], functions: Sequence[Sequence[str]]
) -> list[FunctionsText]:
    """The functions that the module has one after the other. A case that has none but those of another one stands with
    that.
    """
    found: dict[str, FunctionsText] = {}
    for kernel, own, conditions in zip(kernels, functions, plan.conditions, strict=True):
        number, form = kernel.number, forms.get(kernel.number)
        text = found.setdefault(kernel.launch, FunctionsText(form.class_text if form else "", [], own))
        lines = [f"# Case {number + 1}: {conditions}", *([form.instance_text(number)] if form else [])]
        text.cases.append((number, "\n".join(lines)))
    return list(found.values())


def _outside(spec: KernelSpec) -> set[str]:
    """Names that the module has outside of its kernels: its function's, and those of arguments on the host."""
    return {spec.kernel, *(tensor.argument for tensor in spec.tensors), *(scalar.argument for scalar in spec.scalars)}


# -------------------------------------------------------------------------------------------------- choosing a case


def _of_target(plan: CasesPlan, target: str) -> tuple[int, ...]:
    """The numbers of the cases that a target has, up to the first that takes every call."""
    found = []
    for number, one in enumerate(plan.conditions):
        if one.takes_target(target):
            found.append(number)
            if not one.by_cost and not _terms(plan, one):
                break
    last = next(
        (n for n in reversed(found) if plan.conditions[n].by_cost and not _terms(plan, plan.conditions[n])), None
    )
    return tuple(n for n in found if last is None or n <= last)  # what follows those is never taken


def _known(plan: CasesPlan, variables: Variables) -> dict[str, str]:
    """Names for tensors with what all cases compared by cost know of them, by the names of the tensors in the spec."""
    spec = plan.spec
    found = {}
    for tensor in spec.tensors:
        items = [promised(spec, plan.cases[number].spec, tensor) for number in plan.by_cost]
        if len(items) > 1 and items[0] != f"m{tensor.name}" and items.count(items[0]) == len(items):
            found[tensor.name] = variables.free(f"known_{tensor.name}")
    return found


def _targets(
    plan: CasesPlan,
    kernels: Sequence[KernelText],
    name: str,
    by_cost: tuple[str, str],
    known: Mapping[str, str],
    promises: Mapping[int, KnownText],
    in_common: str,
) -> list[TargetText]:
    """The choice for each group of targets that have the same cases; `name` is the target's, empty for one group, and
    `by_cost` are those of the number of the kernel with the least cost, and of the numbers of those that are compiled.
    The ones that are compared have names for what all `known` of tensors, and others share functions for that:
    `promises`. Whether what several ask holds is `in_common`.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    for target in plan.spec.targets:
        groups.setdefault(_of_target(plan, target), []).append(target)
    found = []
    for i, (numbers, targets) in enumerate(groups.items()):
        quoted = [f'"{target}"' for target in targets]
        one_of = f"== {quoted[0]}" if len(quoted) == 1 else f"in {python_tuple(quoted)}"
        condition = f"if cutlass.const_expr({name} {one_of}):"
        when = "else:" if i + 1 == len(groups) else condition if i == 0 else f"el{condition}"
        asked = [
            _terms(plan, plan.conditions[n]) for n in numbers if not plan.conditions[n].by_cost and n != numbers[-1]
        ]
        shared = [term for term in asked[0] if all(term in terms for terms in asked)] if len(asked) > 1 else []
        shared = shared if len(shared) > 1 or any(term.startswith("_") for term in shared) else []
        common = chain(f"{in_common} = ", list(map(_inner, shared)), " & ", 4, "", WIDTH - 4 * bool(name))
        choices = [
            _choice(
                plan,
                kernels[n],
                j == 0,
                n == numbers[-1],
                bool(name),
                numbers,
                by_cost,
                known,
                promises,
                (in_common, shared),
            )
            for j, n in enumerate(numbers)
        ]
        compared = next((plan.cases[n].spec for n in numbers if plan.conditions[n].by_cost), None)
        named = []
        for tensor in plan.spec.tensors:
            if compared is None or tensor.name not in known:
                continue
            item = promised(plan.spec, compared, tensor)
            assert not isinstance(item, str)
            named.append(call(f"{known[tensor.name]} = {item[0]}", item[1], item[2], 4, WIDTH - 4 * bool(name)))
        found.append(TargetText(when if name else "", named, common if shared else "", choices))
    return found


def _choice(
    plan: CasesPlan,
    kernel: KernelText,
    first: bool,
    last: bool,
    by_target: bool,
    beside: Sequence[int],
    by_cost: tuple[str, str],
    known: Mapping[str, str],
    promises: Mapping[int, KnownText],
    in_common: tuple[str, Sequence[str]],
) -> ChoiceText:
    """A case among those of a target, whose numbers are `beside`; arguments as those of `_targets`."""
    number, conditions = kernel.number + 1, plan.conditions[kernel.number]
    terms = _terms(plan, conditions)
    within = ""
    if conditions.by_cost:
        (chosen, compiled), place = by_cost, plan.by_cost.index(kernel.number)
        terms, within = [f"{chosen} == {place}"], f"if cutlass.const_expr({place} in {compiled}):"
    elif kernel.number in plan.told_by_sizes and set(plan.by_cost) & set(beside):
        within = f"if cutlass.const_expr({len(plan.by_cost)} in {by_cost[1]}):"
    width = WIDTH - 4 * by_target  # the cases of one target of several are indented together
    holds, common = in_common
    if common and not conditions.by_cost and not last:
        terms = [holds, *(term for term in terms if term not in common)]
    when = ("" if first else "else:") if last else ""
    if not last:
        asked = [_inner(term) for term in terms] if len(terms) > 1 else terms
        when = chain("if " if first else "elif ", asked, " & ", 4, ":", width)
    indent = 4 + 4 * bool(when) + 4 * bool(within)
    arguments = _arguments(plan, kernel, known if conditions.by_cost else {}, promises.get(kernel.number))
    launched = call(f"{kernel.launch}(", arguments, ")", indent, width)
    path = f"schedule.{kernel.number}" + ".for" * (not conditions.always)
    return ChoiceText(number, str(conditions), when, within, launched, path)


def _inner(term: str) -> str:
    """A term as an operand of `&`."""
    return f"({term})" if " " in term and not term.startswith("_") else term


def _terms(plan: CasesPlan, conditions: Conditions) -> list[str]:
    """What of a case's conditions a call decides, as expressions of the parameters of `launch`."""
    spec, found = plan.spec, []
    for mode, several in conditions.sizes.items():
        if mode not in spec.static:
            found += [one.text(_size(spec, mode)) for one in several]
    if conditions.align > 1:
        names = ", ".join(f"m{tensor.name}" for tensor in spec.tensors)
        found.append(f"_stand({conditions.align}, {names})")
    return found


def _size(spec: KernelSpec, mode: str) -> str:
    """The size of a mode, of the parameters of `launch`."""
    tensor = next(t for t in spec.tensors if mode in t.shape)
    return f"m{tensor.name}.shape[{tensor.shape.index(mode)}]"


def _arguments(plan: CasesPlan, kernel: KernelText, known: Mapping[str, str], promise: KnownText | None) -> list[Item]:
    """What the launch of a case is called with; `known` has names of tensors with what the case knows of them."""
    spec, own = plan.spec, kernel.plan.spec
    tensors: list[Item] = [known.get(tensor.name) or promised(spec, own, tensor) for tensor in spec.tensors]
    return [
        *([promise.called] if promise else tensors),
        *(scalar.name for scalar in spec.scalars),
        *kernel.spaces,
        "stream",
        *["multiprocessors"] * bool(kernel.parts.multiprocessors),
        *kernel.passed,
    ]


# --------------------------------------------------------------------------------------------------- memory of calls


def _workspaces(kernels: Sequence[KernelText], names: Sequence[Mapping[str, str]]) -> Workspaces | None:
    """The memory that a call makes for the kernels of all cases, since the host's code chooses one of them later."""
    each = []
    for kernel, own in zip(kernels, names, strict=True):
        spaces = kernel.parts.workspaces.each if kernel.parts.workspaces else ()
        for space, name in zip(spaces, kernel.spaces, strict=True):
            path, memory = inside_text(space.path, kernel.number), replaced(space.memory, own)
            each.append(replace(space, path=path, parameter=name, memory=memory))
    return Workspaces("schedule", "workspaces.j2", tuple(each)) if each else None
