"""Turns spec files into modules: `generate` over a whole selection, with every diagnostic of every file at once."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cutegen.codegen import Module, generate
from cutegen.language.diagnostics import Diagnostic, SpecError, has_errors, ordered
from cutegen.language.model import KernelSpec
from cutegen.language.reader import load_specs, read_text
from cutegen.lint.contract import notes
from cutegen.project.selection import SUFFIXES, Selection, SpecFile


@dataclass(frozen=True)
class Unit:
    """One generated module and the spec file that it is from."""

    source: SpecFile
    module: Module

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.module.spec.kernel

    @property
    def path(self) -> Path:
        """The file that the module goes to, or would go to."""
        return self.source.out / self.module.name

    @property
    def has_file(self) -> bool:
        """Whether `cutegen build` writes the module: `modules` of a spec may leave out some of its kernels."""
        return self.module.spec.has_module

    def diagnostic(
        self,
        code: str,
        message: str,
        *path: str | int,
        key: bool = False,
        notes: tuple[str, ...] = (),
        help: str | None = None,
    ) -> Diagnostic:
        """An error at a place of the spec, with the file's path as people see it."""
        found = self.module.spec.source.diagnostic(code, message, *path, key=key, notes=notes, help=help)
        return replace(found, path=self.source.shown)


@dataclass(frozen=True)
class Gathered:
    """The modules of a selection and what is wrong with its specs.

    `units` is empty if `diagnostics` hold an error; `texts` are the specs' texts by the paths that people see.
    """

    units: tuple[Unit, ...]
    diagnostics: tuple[Diagnostic, ...]
    texts: Mapping[str, str]

    @property
    def failed(self) -> bool:
        """Whether a spec has an error."""
        return has_errors(self.diagnostics)


def gather(
    selection: Selection,
    *,
    performance: bool = False,
    gradients: bool = True,
    read: Callable[[], None] = lambda: None,
) -> Gathered:
    """Generates every module of the selection. What is wrong with a spec is in `diagnostics`, and never raised. `read`
    is called after each spec.

    With `performance`, advice on speed is there as well. Without `gradients`, the kernels that specs name for the
    gradients of their ops need not be there yet.
    """
    units: list[Unit] = []
    found: list[Diagnostic] = []
    texts: dict[str, str] = {}
    folders: dict[Path, list[KernelSpec]] = {}
    for source in selection.files:
        try:
            text = read_text(source.file, source.name)
            texts[source.shown] = text
            beside = None if not gradients else _beside(source, folders) if "backward:" in text else []
            generated = generate(text, source.name, performance=performance, beside=beside)
        except SpecError as error:
            found += [replace(d, path=source.shown) for d in error.diagnostics]
            continue
        finally:
            read()
        found += [replace(d, path=source.shown) for d in generated.warnings]
        units += [Unit(source, module) for module in generated.modules]
    found += _duplicates(units) + _duplicate_ops(units)
    return Gathered(() if has_errors(found) else tuple(units), tuple(ordered(found)), texts)


def _beside(source: SpecFile, folders: dict[Path, list[KernelSpec]]) -> list[KernelSpec]:
    """The kernels of the other specs in a file's folder, as far as these can be read; `folders` keeps them."""
    folder = source.file.parent
    if folder not in folders:
        folders[folder] = []
        for file in sorted(folder.iterdir()):
            if not file.name.endswith(SUFFIXES) or file.name.startswith(".") or not file.is_file():
                continue
            with contextlib.suppress(SpecError):
                folders[folder] += load_specs(file, str(file))
    return [spec for spec in folders[folder] if spec.source.path != str(source.file)]


def notes_on(units: Sequence[Unit]) -> list[Diagnostic]:
    """The notes on kernels, such as what they take by inference alone.

    What is said of several of a file's kernels is said once, as it is for the first of them.
    """
    first: dict[tuple[str, str, str], Diagnostic] = {}
    names: dict[tuple[str, str, str], list[str]] = {}
    for unit in units:
        for note in notes(unit.module.spec, unit.module.inferred):
            about = (unit.source.shown, note.code, note.message)
            first.setdefault(about, replace(note, path=unit.source.shown))
            names.setdefault(about, []).append(unit.kernel)
    kernels = Counter(unit.source.shown for unit in units)
    return ordered(
        note if kernels[note.path] == 1 else replace(note, notes=(*note.notes, f"in {', '.join(names[about])}"))
        for about, note in first.items()
    )


def _duplicate_ops(units: list[Unit]) -> list[Diagnostic]:
    """An error for each kernel whose op has the name of that of another one."""
    first: dict[str, Unit] = {}
    found = []
    for unit in (unit for unit in units if unit.module.spec.torch.op is not None):
        other = first.setdefault(str(unit.module.spec.torch.op), unit)
        if other is not unit:
            place = other.module.spec.source.at("torch", "op")
            message = f"`{other.kernel}` has the op `{unit.module.spec.torch.op}`"
            notes = (f"at {other.source.shown}:{place.line}:{place.column}",)
            help = "give each kernel an op of its own; that of a matrix has its keys in its name"
            found.append(unit.diagnostic("CG138", message, "torch", "op", notes=notes, help=help))
    return found


def _duplicates(units: list[Unit]) -> list[Diagnostic]:
    """An error for each kernel whose module would go to the file of another one."""
    # By lower case: on many disks `p1.py` and `P1.py` are one file, and the project may be checked out on such a one.
    first: dict[Path, Unit] = {}
    found = []
    for unit in units:
        other = first.setdefault(unit.path.with_name(unit.path.name.lower()), unit)
        if other is not unit:
            same = other.kernel == unit.kernel
            message = "already exists" if same else f"differs from `{other.kernel}` only in case"
            files = f"both are {unit.path.name}"
            if not same:
                files = f"{other.path.name} and {unit.path.name} are one file on disks that ignore case"
            place = other.module.spec.source.at("kernel")
            found.append(
                unit.diagnostic(
                    "CG112",
                    f"the kernel `{unit.kernel}` {message}",
                    "kernel",
                    notes=(f"first at {other.source.shown}:{place.line}:{place.column}", files),
                    help="give one of them another name",
                )
            )
    return found
