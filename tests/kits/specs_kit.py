"""The modules of the specs in `specs/`: each file is generated once in a process, whichever tests ask for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cutegen.codegen import Module, generate
from cutegen.language.document import MapNode, parse_documents
from cutegen.language.matrix import expand

ROOT = Path(__file__).parents[2]
SPECS = tuple(sorted((ROOT / "specs").glob("*.yaml")))


def kernels_of_specs() -> list[str]:
    """The names of all kernels, in the order of `modules_of_specs`, of which a test that is collected needs no more."""
    found = []
    for path in SPECS:
        documents, _ = parse_documents(path.read_text(encoding="utf-8"), path.name)
        roots = [document for document in documents if isinstance(document, MapNode)]
        found += [variant.data["kernel"] for root in roots for variant in expand(root, path.name)[0]]
    return found


@cache
def modules_of(name: str) -> dict[str, Module]:
    """The modules of the file `specs/name.yaml` by their kernels, in its order."""
    text = (ROOT / "specs" / f"{name}.yaml").read_text(encoding="utf-8")
    return {module.spec.kernel: module for module in generate(text, f"specs/{name}.yaml").modules}


@cache
def modules_of_specs() -> dict[str, Module]:
    """The modules of all files by their kernels, in the order of the files' names."""
    return {kernel: module for path in SPECS for kernel, module in modules_of(path.stem).items()}
