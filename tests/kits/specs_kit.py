"""The modules of the specs in `specs/`: each file is generated once on a machine, whichever tests ask for it, until
something of the package changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TypeVar

import cutegen
from cutegen.cache_folder import cache_folder, is_trusted
from cutegen.codegen import Module, generate
from cutegen.language.document import MapNode, parse_documents
from cutegen.language.matrix import expand

ROOT = Path(__file__).parents[2]
SPECS = tuple(sorted((ROOT / "specs").glob("*.yaml")))


@cache
def files_of_kernels() -> dict[str, str]:
    """The file that has each kernel, in the order of `modules_of_specs`: read, not generated, which takes long."""
    return kept("kernels", [f"{path.stem}\0{path.read_text(encoding='utf-8')}" for path in SPECS], _files_of_kernels)


def _files_of_kernels() -> dict[str, str]:
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
    return kept(name, [text], lambda: {m.spec.kernel: m for m in generate(text, f"specs/{name}.yaml").modules})


KEPT = cache_folder() / "modules of tests"
Made = TypeVar("Made")
STATES = 8
"""Of so many states of the package modules are kept."""


@cache
def state_of_package() -> str:
    """A digest of all that decides how specs are read and modules generated: the files of the package, the libraries
    that it reads and prints with, and Python.
    """
    versions = [metadata.version(library) for library in ("pyyaml", "jsonschema", "jinja2", "tensor-layouts")]
    digest = hashlib.sha256(f"{sys.version} {versions}".encode())
    folder = Path(cutegen.__file__).parent
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(folder)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:32]


def kept(name: str, texts: Sequence[str], make: Callable[[], Made]) -> Made:
    """The modules generated from some texts, by earlier tests or now."""
    path = KEPT / state_of_package() / f"{name}-{hashlib.sha256(repr(texts).encode()).hexdigest()[:16]}.pickle"
    with contextlib.suppress(OSError):
        if is_trusted(path):
            found: Made = pickle.loads(path.read_bytes())
            return found
    made = make()
    with contextlib.suppress(OSError):
        keep(path, pickle.dumps(made))
    return made


def keep(path: Path, data: bytes) -> None:
    """Writes a file as a whole, in a folder that no other user writes to. Raises OSError."""
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in sorted(KEPT.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)[STATES:]:
            shutil.rmtree(old, ignore_errors=True)
    descriptor, aside = tempfile.mkstemp(dir=path.parent)
    with open(descriptor, "wb") as file:
        file.write(data)
    os.replace(aside, path)


@cache
def modules_of_specs() -> dict[str, Module]:
    """The modules of all files by their kernels, in the order of the files' names."""
    return {kernel: module for path in SPECS for kernel, module in modules_of(path.stem).items()}


def module_of(kernel: str) -> Module:
    """The module of one of these kernels."""
    return modules_of(files_of_kernels()[kernel])[kernel]
