"""The kernel of one case as text, under names that the module of all gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cutegen.cases.renaming import in_other_words, parts_in_other_words
from cutegen.cases.splitting import inside
from cutegen.codegen.formatting import replaced_later
from cutegen.codegen.merging import Definition, definitions
from cutegen.codegen.parts import Constant, KernelParts
from cutegen.codegen.regions import Region
from cutegen.codegen.render import kernel_text, workspaces_text
from cutegen.family import family_of
from cutegen.planning.plan import Plan


@dataclass(frozen=True)
class KernelText:
    """The kernel of one case: its parts, and the definitions of its device's side and of its host's.

    `launch` is the name of the function that launches it, and `spaces` are those of the workspaces, among the
    parameters of the module's own `launch`: none until the module has given them names.
    """

    number: int
    plan: Plan
    parts: KernelParts
    device: tuple[Definition, ...]
    host: tuple[Definition, ...]
    launch: str
    passed: tuple[str, ...]  # the constants that `launch` is called with besides
    spaces: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[Definition, ...]:
        return (*self.device, *self.host)


def kernel_of(
    number: int,
    plan: Plan,
    names: Mapping[str, str],
    fields: Mapping[str, str] | None = None,
) -> KernelText:
    """The kernel of the case of that number, laid out for names that are replaced later: for what the module calls what
    the kernel defines, and for `fields` that functions have for constants.
    """
    swapped = plan.by_role
    with replaced_later({**names, **{swapped.get(name, name): text for name, text in (fields or {}).items()}}):
        parts = family_of(plan.spec).kernel_parts(plan)
        text, host = kernel_text(plan, parts), workspaces_text(plan, parts)
    if swapped:
        text, parts = in_other_words(text, swapped), parts_in_other_words(parts, swapped)
    constants = [c._replace(path=inside_text(c.path, number)) for c in parts.constants]
    return KernelText(
        number=number,
        plan=plan,
        parts=parts,
        device=_moved(constants, text, number),
        host=_moved([], host, number),
        launch=names.get("launch", "launch"),
        passed=tuple(names.get(name, name) for name in parts.passed.values()),
    )


def inside_text(path: str, number: int) -> str:
    """Where in the whole spec that stands which a case's own spec has at a dotted path."""
    return ".".join(map(str, inside(tuple(path.split(".")), number)))


def _moved(constants: Sequence[Constant], text: str, number: int) -> tuple[Definition, ...]:
    """The definitions of a case, whose regions say where the whole spec says what they show."""
    return tuple(
        replace(
            one, regions=tuple(Region(r.first_line, r.last_line, inside(r.path, number), r.name) for r in one.regions)
        )
        for one in definitions(constants, text)
    )
