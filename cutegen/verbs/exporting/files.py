"""The files of an export: of each kernel a loader for Python, a header and an example for C++; and the libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutegen.codegen.cplusplus import cmake_text, entry_text, example_text, header_text, library_sources
from cutegen.codegen.shipping import loader_text, object_text
from cutegen.compiling import Job
from cutegen.compiling.objects import Object, link
from cutegen.project.sources import Unit
from cutegen.verbs.building.verification import Verification


@dataclass(frozen=True)
class Shipped:
    """One kernel as it is exported: for which targets, and in which library, a file of the export's folder.

    `verification` is None where the kernel's module is in the project as it was built.
    """

    unit: Unit
    targets: tuple[str, ...]
    library: str
    verification: Verification | None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are its own, and its library, in the export's folder."""
        return (*names(self.unit.kernel), self.library)


def library_of(unit: Unit, library: str | None) -> str:
    """The file of the library that a kernel is in: its own, or one of that name for all."""
    return f"lib{unit.kernel if library is None else library}.so"


def object_job(unit: Unit, target: str) -> Job:
    """The job that compiles the object of a kernel for a target."""
    return Job(object_text(unit.module), unit.kernel, target)


def names(kernel: str) -> tuple[str, ...]:
    """The texts of a kernel: its loader, header, example and target of CMake."""
    return (f"{kernel}.py", f"include/kernels/{kernel}.h", f"examples/{kernel}.cpp", f"cmake/{kernel}.cmake")


def texts(kernel: Shipped) -> dict[str, str]:
    """The texts of a kernel, by the file that each goes to."""
    module, spec = kernel.unit.module, kernel.unit.source.name
    return dict(
        zip(
            names(kernel.unit.kernel),
            (
                loader_text(module, spec, kernel.library, kernel.targets),
                header_text(module, spec),
                example_text(module, spec),
                cmake_text(module, kernel.library, spec),
            ),
            strict=True,
        )
    )


def linked(kernels: Sequence[Shipped], objects: Mapping[Job, Object]) -> dict[str, bytes]:
    """The libraries of the kernels, by their files. Raises ToolError where the C compiler fails."""
    by_library: dict[str, list[Shipped]] = {}
    for kernel in kernels:
        by_library.setdefault(kernel.library, []).append(kernel)
    found = {}
    for library, inside in by_library.items():
        parts = [objects[object_job(k.unit, target)] for k in inside for target in k.targets]
        entries = {f"{k.unit.kernel}.entry.c": entry_text(k.unit.module, k.targets) for k in inside}
        found[library] = link(parts, {**library_sources(), **entries}, library)
    return found
