"""Modules that earlier runs of the tests compiled on this machine are not compiled again for the emulator.

The result is kept in the cache folder under a digest of everything it depends on: the module's text, the target, the
settings and versions of CuTeDSL and its tools, and the code of cutegen that calls them. A module is looked up only if
it is as its file says: one that a test has changed, or that imports more than generated modules do, is always compiled.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from cutegen.cache_folder import cache_folder
from cutegen.compiling import Artefact, Cache, Job, Resources, loading
from cutegen.compiling.host_code import host_code

ALWAYS = ("tests/compiling/", "tests/emulator/host/", "tests/verification/test_kept.py")
"""Files and folders of tests that are about compiling itself."""

PACKAGES = frozenset({"cuda", "cutlass", "torch", "tvm_ffi", *sys.stdlib_module_names})
"""The packages that generated modules import."""

BUILDS = "cutegen.emulator.host.builds"
HERE = "<this file>"
"""Stands for the module's path in kept PTX, which names it where it has line information."""

FOR_THE_GPU = (b"\x50\xed\x55\xba", b"\x7fELF")
"""The first bytes of a fat binary and of a cubin."""

NO_RESOURCES = Resources(0, 0, 0, 0, 0)

Loaded = WeakKeyDictionary[ModuleType, tuple[str, dict[str, Any]]]
"""The text of each module and what its names stood for, when it was loaded."""


class CompiledBefore:
    """Compiles modules for the emulator, unless an earlier run of the tests did so."""

    def __init__(self, folder: Path | None = None) -> None:
        """Keeps compiled modules in `tests/` of a folder, by default the cache folder."""
        self.kept = Cache((folder or cache_folder()) / "tests")
        self._loaded: Loaded = WeakKeyDictionary()
        self._exec = loading._UncachedLoader.exec_module

    def watch(self) -> None:
        """Notes from now on the text and the names of each module that is loaded."""
        noted, execute = self._loaded, self._exec

        def exec_module(loader: Any, module: ModuleType) -> None:
            text = Path(loader.path).read_text("utf-8", "surrogateescape")
            execute(loader, module)
            noted[module] = text, dict(vars(module))

        loading._UncachedLoader.exec_module = exec_module  # type: ignore[method-assign]

    def take_over(self) -> None:
        """Has the emulator compile modules here from now on, if its compiler has been imported."""
        if BUILDS in sys.modules and not hasattr(compile_to_ptx := sys.modules[BUILDS]._compile_to_ptx, "compile"):

            def compiled(module: ModuleType, target: str, lines: bool = True) -> tuple[str, Any]:
                return self.compiled(compile_to_ptx, module, target, lines)

            compiled.compile = compile_to_ptx  # type: ignore[attr-defined]
            sys.modules[BUILDS]._compile_to_ptx = compiled

    def compiled(self, compile_to_ptx: Any, module: ModuleType, target: str, lines: bool) -> tuple[str, Any]:
        """The PTX and the host code of a module, as `compile_to_ptx` gives them."""
        from cutegen.emulator.host.stored import read_host_code

        text = self.text(module)
        if text is None or os.environ.get("PYTEST_CURRENT_TEST", "").startswith(ALWAYS):
            return compile_to_ptx(module, target, lines)
        job = Job(text, f"{Path(str(module.__file__)).stem} {lines} {_settings()}", target)
        path = json.dumps(str(module.__file__), ensure_ascii=False)
        found = self.kept.get(job)
        if found is not None and (host := read_host_code(found.host)) is not None:
            return found.ptx.replace(f'"{HERE}"', path), host
        ptx, host = compile_to_ptx(module, target, lines)
        if written := _as_bytes(host):
            code = Artefact(job.kernel, target, ptx.replace(path, f'"{HERE}"'), b"", "", NO_RESOURCES, (), written)
            self.kept.put(job, code)
        return ptx, host

    def text(self, module: ModuleType) -> str | None:
        """The text of a module; None if the module or its file was changed since, or imports other packages."""
        text, names = self._loaded.get(module, ("", {}))
        if not text or any(vars(module).get(name, HERE) is not value for name, value in names.items()):
            return None
        now = Path(str(module.__file__)).read_text("utf-8", "surrogateescape")
        return text if now == text and _imports(text) <= PACKAGES else None


def _settings() -> str:
    """A digest of the settings of CuTeDSL and of the code that calls it. `Cache` adds the versions of all tools."""
    said = sorted((name, value) for name, value in os.environ.items() if name.startswith("CUTE_DSL"))
    return hashlib.sha256(f"{said} {_callers()}".encode()).hexdigest()


@cache
def _callers() -> str:
    """A digest of the emulator's files that compile modules and read the result, and of this one."""
    package = Path(loading.__file__).parents[1]
    files = [*sorted((package / "emulator" / "host").glob("*.py")), package / "contract.py", Path(__file__)]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


@cache
def _imports(text: str) -> frozenset[str]:
    """The packages that a text imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." if node.level else str(node.module).partition(".")[0])
    return frozenset(found)


def _as_bytes(host: Any) -> bytes:
    """Host code, an MLIR module, without the code for the GPU that it holds; empty where it holds none."""
    for operation in host.body:
        attributes = operation.attributes
        data = getattr(attributes["value"], "value_bytes", b"") if "value" in attributes else b""
        if data.startswith(FOR_THE_GPU):
            return host_code(SimpleNamespace(ir_module=host), data)
    return b""
