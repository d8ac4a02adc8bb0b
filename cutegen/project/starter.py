"""The specs that `cutegen init` writes: small, complete, and with a line for editors that know YAML schemas."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cutegen.codegen import generate
from cutegen.errors import CutegenError
from cutegen.language.diagnostics import SpecError
from cutegen.language.names import MAX_KERNEL_NAME, RESERVED, name_problem
from cutegen.project.editors import HEADER, SCHEMA_NAME, write_schema
from cutegen.project.paths import quoted, readable, shown
from cutegen.registry import families, family_of, op_named


class StarterError(CutegenError):
    """Says that the starter spec cannot be written."""


@dataclass(frozen=True)
class Starter:
    """The files that were written."""

    spec: Path
    schema: Path


def write_starter(kernel: str, op: str, out: Path | None = None, atom: str | None = None) -> Starter:
    """Writes a spec, `specs/KERNEL.yaml` unless told otherwise, and next to it the schema that its first line names.

    Raises StarterError for a name that the spec cannot have, for an mma atom that the op does not
    have, for an existing file and for errors of the disk.
    """
    if atom is not None and atom not in (known := atoms_of(op)):
        having = sorted({family.op.name for family in families() if atom in family.atoms})
        help = f"`op: {op}` takes {', '.join(known)}" if known else f"leave it out, or use --op {' or '.join(having)}"
        raise StarterError(f"kernels with `op: {op}` have no mma atom `{readable(atom[:80])}`", help)
    problem = name_problem(kernel, MAX_KERNEL_NAME)
    if problem is None and kernel.lower() in RESERVED:
        problem = "is a name that the generated module needs itself"
    if problem is not None:
        raise StarterError(f"the kernel name `{readable(kernel[:80])}` {problem}", _name_help(kernel))
    path = out if out is not None else Path("specs", f"{kernel}.yaml")
    check_yaml(path)
    _check(kernel, op, atom)
    return write_new(path, starter_text(kernel, op, atom))


def check_yaml(path: Path) -> None:
    """Raises StarterError where a file is not named as YAML."""
    if path.suffix not in (".yaml", ".yml"):
        raise StarterError(
            f"{readable(str(path))} is not a YAML file by its name", f"use --out {quoted(f'{path}.yaml')}"
        )


def write_new(path: Path, text: str) -> Starter:
    """Writes a spec to a file that is not there yet, and next to it the schema.

    Raises StarterError for a file that already exists and for what the disk refuses.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        write_schema(path.parent)
    except FileExistsError:
        raise StarterError(f"{shown(path.absolute())} already exists", "choose another name or --out FILE") from None
    except OSError as error:
        raise StarterError(f"{readable(str(error.filename or path))} cannot be written: {error.strerror}") from error
    return Starter(path, path.parent / SCHEMA_NAME)


def atoms_of(op: str) -> tuple[str, ...]:
    """The mma atoms that schedules of an op may name."""
    return tuple(atom for family in families() if family.op.name == op for atom in family.atoms)


def starter_text(kernel: str, op: str, atom: str | None = None) -> str:
    """The starter spec of an op that has one, or of its family with that mma atom. Raises KeyError for an op that there
    is not.
    """
    own = "" if atom is None else family_of(op, {"mma": {"atom": atom}}).starter
    return f"{HEADER}cutegen: 1\nkernel: {kernel}\n{own or op_named(op).starter}"


def _check(kernel: str, op: str, atom: str | None) -> None:
    """Raises StarterError where the starter spec does not build for the kernel's name."""
    try:
        generate(starter_text(kernel, op, atom), "starter")
    except SpecError as error:
        problem = next(d for d in error.diagnostics if d.severity == "error")
        raise StarterError(
            f"the starter spec cannot have a kernel named `{kernel}`: {problem.message}",
            f"choose another name, such as `{kernel.lower()}_{op}`",
        ) from None


def _name_help(kernel: str) -> str:
    """A help with a name that a kernel can have."""
    cleaned = "".join(c if c.isascii() and c.isalnum() else "_" for c in Path(kernel).name).strip("_").lower()[:40]
    good = name_problem(cleaned, MAX_KERNEL_NAME) is None and cleaned not in RESERVED
    return f"try `{cleaned if good else 'my_kernel'}`"
