"""The modules of the specs in `specs/`: each file is generated once in a process, whichever tests ask for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cutegen.codegen import Module, generate
from cutegen.language.document import MapNode, parse_documents
from cutegen.language.matrix import expand

ROOT = Path(__file__).parents[2]
SPECS = tuple(sorted((ROOT / "specs").glob("*.yaml")))


@cache
def files_of_kernels() -> dict[str, str]:
    """The file that has each kernel, in the order of `modules_of_specs`: read, not generated, which takes long."""
    found = {}
    for path in SPECS:
        documents, _ = parse_documents(path.read_text(encoding="utf-8"), path.name)
        roots = [document for document in documents if isinstance(document, MapNode)]
        found |= {variant.data["kernel"]: path.stem for root in roots for variant in expand(root, path.name)[0]}
    return found


def kernels_of_specs() -> list[str]:
    """The names of all kernels, of which a test that is collected needs no more."""
    return list(files_of_kernels())


def files_with(*words: str) -> list[str]:
    """The names of the files that have all of these words."""
    return [path.stem for path in SPECS if all(word in path.read_text(encoding="utf-8") for word in words)]


@cache
def modules_of(name: str) -> dict[str, Module]:
    """The modules of the file `specs/name.yaml` by their kernels, in its order."""
    text = (ROOT / "specs" / f"{name}.yaml").read_text(encoding="utf-8")
    return {module.spec.kernel: module for module in generate(text, f"specs/{name}.yaml").modules}


@cache
def modules_of_specs() -> dict[str, Module]:
    """The modules of all files by their kernels, in the order of the files' names."""
    return {kernel: module for path in SPECS for kernel, module in modules_of(path.stem).items()}


def module_of(kernel: str) -> Module:
    """The module of one of these kernels."""
    return modules_of(files_of_kernels()[kernel])[kernel]
