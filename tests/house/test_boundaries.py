"""How the house is built: what may import what, and how large a file and a room may be.

Imports are read from every file's syntax tree, late ones inside of functions too.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

import cutegen

PACKAGE = Path(cutegen.__file__).parent
FILES = {
    ".".join(("cutegen", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in sorted(PACKAGE.rglob("*.py"))
}
OPENER = "cutegen"  # the one module that opens the families
LONGEST_FILE, LARGEST_ROOM = 400, 4800


def imports(module: str, *, late: bool) -> Sequence[str]:
    """The modules of cutegen that a module imports; without `late` only those that it imports as it is loaded."""
    return _imports(module)[late]


@cache
def _imports(module: str) -> tuple[Sequence[str], Sequence[str]]:
    """Without late ones, and with them: each file is parsed once."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    return tuple(_imports_in(tree, module)), tuple(_imports_in(tree, module, late=True))


def _imports_in(tree: ast.AST, module: str, late: bool = False) -> Iterator[str]:
    """Those that stand in statements within `tree`, but for those for types only."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            continue  # no expression imports anything
        names: list[str] = []
        match node:
            case ast.ImportFrom(module=str(origin), level=0):
                names = [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
        yield from {name for name in names if name in FILES and name != module}
        if late or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports_in(node, module, late)


def loaded(module: str) -> Iterator[str]:
    """The modules that are loaded when a module is: those that it imports, and the packages that hold them."""
    for name in imports(module, late=False):
        yield name
        packages = (name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1))
        yield from (package for package in packages if not f"{module}.".startswith(f"{package}."))


def family_of(module: str) -> str:
    """The folder of `families` that a module stands in, in that of `gemm` the folder there, beside which are files that
    all products share; empty for the list and for what is no family.
    """
    parts = module.split(".")
    if parts[:2] != ["cutegen", "families"] or len(parts) < 3:
        return ""
    file = FILES.get(".".join(parts[:4]))
    inner = parts[2] == "gemm" and len(parts) > 3 and file is not None and file.name == "__init__.py"
    return ".".join(parts[2 : 4 if inner else 3])


def above(module: str) -> tuple[str, ...]:
    """The folders of `families` that a module of a family may import from besides `common`."""
    own = family_of(module)
    shared = ("gemm.staged",) if own in ("gemm.fma", "gemm.mma_sync") else ()
    return (own, *shared, *["gemm"] * own.startswith("gemm."))


def test_every_module_can_be_imported_alone_in_one_process() -> None:
    found = [name for _, name, _ in pkgutil.walk_packages([str(PACKAGE)], "cutegen.") if "__main__" not in name]
    assert len(found) > 200
    for name in found:
        importlib.import_module(name)


def test_no_room_imports_a_family() -> None:
    wrong = [
        (module, name)
        for module in FILES
        if not module.startswith("cutegen.families") and module != OPENER
        for name in imports(module, late=True)
        if name.startswith("cutegen.families")
    ]
    assert not wrong


def test_no_family_imports_another() -> None:
    wrong = [
        (module, name)
        for module in FILES
        if family_of(module)
        for name in imports(module, late=True)
        if family_of(name) not in ("", "common", *above(module)) or name == "cutegen.families"
    ]
    assert not wrong


def test_loading_never_goes_in_a_circle() -> None:
    graph = {module: set(loaded(module)) for module in FILES}
    done: set[str] = set()
    path: list[str] = []

    def visit(module: str) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done:
            return
        path.append(module)
        for name in sorted(graph[module]):
            if not module.startswith(f"{name}."):  # a package is there before what is in it
                visit(name)
        path.pop()
        done.add(module)

    for module in sorted(graph):
        visit(module)


def test_nothing_outside_of_families_asks_for_the_class_of_a_schedule_or_plan() -> None:
    asks = re.compile(r"(isinstance|issubclass|type)\([^\n]*(Schedule|Plan)\b|getattr\((plan|spec\.schedule|schedule),")
    wrong = [
        f"{module}:{number}: {line.strip()}"
        for module, file in FILES.items()
        if not module.startswith("cutegen.families")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if asks.search(line)
    ]
    assert not wrong


def test_nothing_outside_of_families_and_ops_names_an_op() -> None:
    names = re.compile(r"""["'](gemm|probe|elementwise)["']""")
    wrong = [
        f"{module}:{number}: {line.strip()}"
        for module, file in FILES.items()
        if not module.startswith(("cutegen.families", "cutegen.ops"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if names.search(line)
    ]
    assert not wrong


def held_together(module: str) -> str:
    """The room of a module; of what verbs do, which is a folder for each, that folder."""
    parts = module.split(".")[1:]
    return ".".join(parts[: 2 if parts[0] == "verbs" else 1])


@pytest.mark.parametrize("room", sorted({held_together(module) for module in FILES if "." in module}))
def test_files_and_rooms_can_be_held_in_the_head(room: str) -> None:
    lengths = {
        module: len(file.read_text(encoding="utf-8").splitlines())
        for module, file in FILES.items()
        if "." in module and held_together(module) == room
    }
    assert max(lengths.values()) <= LONGEST_FILE, max(lengths, key=lambda module: lengths[module])
    if room not in ("emulator", "families"):
        assert sum(lengths.values()) <= LARGEST_ROOM


def test_a_kernel_is_explained_without_its_tuning_pictures_or_compiler() -> None:
    heavy = ("torch", "cutlass", "resvg_py", "cutegen.drawing", "cutegen.tuning", "cutegen.compiling")
    code = f"import cutegen.cli, sys; assert not set({heavy!r}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
