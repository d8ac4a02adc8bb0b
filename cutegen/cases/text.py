"""The text of a module of several cases: the kernels of all, and a `launch` that chooses among their launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cutegen.cases.chooser_text import chooser
from cutegen.cases.forms import Form, forms_of, with_all_regions
from cutegen.cases.kernels import KernelText, inside_text, kernel_of
from cutegen.cases.known_text import known_by_case, promised, promises_more
from cutegen.cases.launching import Launching, cases_of
from cutegen.cases.limits import limits_of, strictest
from cutegen.cases.plan import CasesPlan
from cutegen.cases.trees import Unmergeable
from cutegen.codegen.formatting import replaced, replaced_later
from cutegen.codegen.merging import combined, numbered_names
from cutegen.codegen.parts import KernelParts, Padding, Workspaces
from cutegen.codegen.variables import Variables
from cutegen.family import family_of
from cutegen.language.model import KernelSpec

ALWAYS = ("launch",)  # numbered even where two cases are alike, since the module has a `launch` of its own


@dataclass(frozen=True)
class FunctionsText:
    """The functions of one case, or of several that share them."""

    type: str  # the class of the parameter in which these differ, with marks; empty if there is none
    form: Form | None  # what has that
    cases: list[tuple[int, str]]  # of each its number from 0 on, and lines that say what it is
    functions: Sequence[str]


def kernel_parts(plan: CasesPlan) -> KernelParts:
    """The parts of a module of several cases."""
    try:
        return _kernel_parts(plan, True)
    except Unmergeable:  # under the names that all have in the end
        return _kernel_parts(plan, False)


def _kernel_parts(plan: CasesPlan, merges: bool) -> KernelParts:
    variables = Variables(plan.spec)
    forms = forms_of(plan, variables, merges)
    promises, in_common = known_by_case(plan, variables), variables.free("all_hold")
    groups = _groups(plan, forms)
    # Most often these are all names that change, and lines are laid out for them at once
    guessed = [{name: f"{name}_{group + 1}" for name in ALWAYS} for group in groups]
    kernels = _kernels(plan, guessed, forms)
    outside = _outside(plan.spec) | variables.taken
    names = numbered_names([kernel.all for kernel in kernels], ALWAYS, outside, groups)
    if list(names) != guessed:
        kernels = _kernels(plan, names, forms)
    kernels = [replace(kernel, spaces=_spaces(kernel, variables)) for kernel in kernels]
    for number, form in forms.items():
        if number == form.numbers[0] and len(form.groups) == 1:
            kernels[number] = with_all_regions([kernels[one] for one in form.numbers])
    constants, functions = combined([kernel.device for kernel in kernels], names)
    _, of_host = combined([kernel.host for kernel in kernels], names)
    by_target = len({cases_of(plan, target) for target in plan.spec.targets}) > 1
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
    known, in_loop = _known(plan, variables), variables.free("number")
    launching = Launching(plan, kernels, forms, target, by_cost, known, promises, in_common, in_loop)
    return KernelParts(
        template="cases.py.j2",
        constants=constants,
        context={
            "kernels": _with_functions(plan, kernels, forms, names, functions),
            "targets_text": launching.targets(),
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


def _kernels(plan: CasesPlan, names: Sequence[Mapping[str, str]], forms: Mapping[int, Form]) -> list[KernelText]:
    """The kernels of all cases, laid out for names that are replaced later."""
    found = [_kernel(plan, i, own, forms.get(i)) for i, own in enumerate(names)]
    for number, form in forms.items():
        if number == form.numbers[0]:
            with replaced_later(names[number]):
                merged = form.merged({one: found[one] for one in form.numbers})
            found = [merged.get(i, one) for i, one in enumerate(found)]
    return found


def _kernel(plan: CasesPlan, number: int, names: Mapping[str, str], form: Form | None) -> KernelText:
    """The kernel of the case of that number, with the functions of its form, if others share those."""
    case = plan.cases[number]
    if form is None:
        return kernel_of(number, case, names)
    shared = family_of(case.spec).with_fields(case, form.names, form.told)
    assert shared is not None  # as it was without the names
    kernel = kernel_of(number, shared, {**names, form.parameter: form.instances[number]}, form.in_functions)
    return replace(kernel, device=form.of(kernel.device))


def _spaces(kernel: KernelText, variables: Variables) -> tuple[str, ...]:
    """Names for the workspaces of a kernel, among the parameters of the module's own `launch`."""
    each = kernel.parts.workspaces.each if kernel.parts.workspaces else ()
    return tuple(variables.free(f"{space.parameter}_{kernel.number + 1}") for space in each)


def _with_functions(
    plan: CasesPlan,
    kernels: Sequence[KernelText],
    forms: Mapping[int, Form],
    names: Sequence[Mapping[str, str]],
    functions: Sequence[Sequence[str]],
) -> list[FunctionsText]:
    """The functions that the module has one after the other. A case that has none but those of another one stands with
    that.
    """
    found: dict[str, FunctionsText] = {}
    for kernel, own, conditions in zip(kernels, functions, plan.conditions, strict=True):
        number, form = kernel.number, forms.get(kernel.number)
        type_ = _replaced_in_code(form.class_text, names[number]) if form else ""
        text = found.setdefault(kernel.launch, FunctionsText(type_, form, [], own))
        lines = [f"# Case {number + 1}: {conditions}"] * (form is None or not form.table)
        lines += [form.instance_text(number)] if form else []
        text.cases.append((number, "\n".join(lines)))
    return list(found.values())


def _replaced_in_code(text: str, names: Mapping[str, str]) -> str:
    """A class of constants in which names are replaced, but for those that comments have."""
    lines = (line.partition("  # ") for line in text.split("\n"))
    return "\n".join(f"{replaced(code, names)}{mark}{said}" for code, mark, said in lines)


def _outside(spec: KernelSpec) -> set[str]:
    """Names that the module has outside of its kernels: its function's, and those of arguments on the host."""
    return {spec.kernel, *(tensor.argument for tensor in spec.tensors), *(scalar.argument for scalar in spec.scalars)}


def _known(plan: CasesPlan, variables: Variables) -> dict[str, str]:
    """Names for tensors with what all cases compared by cost know of them, by the names of the tensors in the spec."""
    spec = plan.spec
    found = {}
    for tensor in spec.tensors:
        items = [promised(spec, plan.cases[number].spec, tensor) for number in plan.by_cost]
        if len(items) > 1 and items[0] != f"m{tensor.name}" and items.count(items[0]) == len(items):
            found[tensor.name] = variables.free(f"known_{tensor.name}")
    return found


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
