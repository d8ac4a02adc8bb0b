"""The specs that `cutegen init` writes: small, complete, and with a line for editors that know YAML schemas."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cutegen.building.project import quoted, readable, shown
from cutegen.codegen import generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.names import MAX_KERNEL_NAME, RESERVED, name_problem
from cutegen.language.schema import schema_text

OPS = ("elementwise", "gemm", "probe")
SCHEMA_NAME = ".cutegen.schema.json"

_STARTERS: Mapping[str, str] = {
    "elementwise": """\
summary: Adds two matrices, element by element.
op: elementwise
tensors:
  A: {shape: [M, N], dtype: f32, major: N, align: 16}
  B: {shape: [M, N], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: N, align: 16, role: out}
compute: C = A + B
schedule:
  partition: thread_value            # or inner, inner_outer
  thread_layout: (4,64):(64,1)
  value_layout: (4,4):(4,1)
targets: [sm_80, sm_90a]
""",
    "gemm": """\
summary: Single-precision GEMM on the CUDA cores.
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K, align: 16}
  B: {shape: [N, K], dtype: f32, major: K, align: 16}
  C: {shape: [M, N], dtype: f32, major: N, align: 16, role: out}
compute: C = A @ B.T                 # any epilogue may stand around it: relu(alpha * (A @ B.T))
schedule:
  tiler: {M: 128, N: 64, K: 8}
targets: [sm_80, sm_90a]
""",
    "probe": """\
summary: Writes what each thread and value of a layout reads.
op: probe
tensors:
  A: {shape: [M, N], dtype: i32, major: M}
  D: {shape: [T, V], dtype: i32, major: V, role: out}
compute: D = A
schedule:
  tv_layout: ((2,2),(2,3)):((2,12),(1,4))
  tiler: {M: 4, N: 6}
targets: [sm_80, sm_90a]
""",
}


class StarterError(Exception):
    """The spec cannot be written; `help` says what would work."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True)
class Starter:
    spec: Path
    schema: Path


def write_starter(kernel: str, op: str, out: Path | None = None) -> Starter:
    """Writes a spec, `specs/KERNEL.yaml` unless told otherwise, and next to it the schema that its first line names.

    Raises `StarterError` for a name that the spec cannot have, for a file that is there already and for what the
    disk refuses.
    """
    problem = name_problem(kernel, MAX_KERNEL_NAME)
    if problem is None and kernel.lower() in RESERVED:
        problem = "is a name that the generated module needs itself"
    if problem is not None:
        raise StarterError(f"the kernel name `{readable(kernel[:80])}` {problem}", _name_help(kernel))
    path = out if out is not None else Path("specs", f"{kernel}.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise StarterError(
            f"{readable(str(path))} is not a YAML file by its name", f"use --out {quoted(f'{path}.yaml')}"
        )
    text = starter_text(kernel, op)
    _check(kernel, op)
    schema = path.parent / SCHEMA_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        _write_schema(schema)
    except FileExistsError:
        raise StarterError(f"{shown(path.absolute())} is there already", "choose another name or --out FILE") from None
    except OSError as error:
        raise StarterError(f"{readable(str(error.filename or path))} cannot be written: {error.strerror}") from error
    return Starter(path, schema)


def starter_text(kernel: str, op: str) -> str:
    """The starter spec of an op of `OPS`."""
    return f"# yaml-language-server: $schema={SCHEMA_NAME}\ncutegen: 1\nkernel: {kernel}\n{_STARTERS[op]}"


def _check(kernel: str, op: str) -> None:
    """A starter that does not build is not written. Raises `StarterError` where it does not for its name."""
    try:
        generate(starter_text(kernel, op), "starter")
    except SpecError as error:
        problem = next(d for d in error.diagnostics if d.severity == "error")
        raise StarterError(
            f"the starter spec cannot have a kernel named `{kernel}`: {problem.message}",
            f"choose another name, such as `{kernel.lower()}_{op}`",
        ) from None


def _write_schema(path: Path) -> None:
    """The schema of this cutegen, also over that of another version, but never over something else."""
    if os.path.lexists(path):
        try:
            title = json.loads(path.read_text(encoding="utf-8"))["title"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        if not str(title).startswith("cutegen kernel spec"):
            return
    path.write_text(schema_text(), encoding="utf-8", newline="\n")


def _name_help(kernel: str) -> str:
    cleaned = "".join(c if c.isascii() and c.isalnum() else "_" for c in Path(kernel).name).strip("_").lower()[:40]
    good = name_problem(cleaned, MAX_KERNEL_NAME) is None and cleaned not in RESERVED
    return f"try `{cleaned if good else 'my_kernel'}`"
