"""Scalars and kernels that have the name of something in the module that is made of them: it would take their place.

Names that many modules have are refused as a spec is read. What a kernel has besides shows in its text alone.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterator

from cutegen.language.diagnostics import Diagnostic
from cutegen.language.model import KernelSpec

_BOUND = (
    r"(?m)^\s*(async )?((def|class|for|with|import|from)\b.*)?\b{0}\b"  # a line that may bind a name; others do not
)


def clashes(text: str, spec: KernelSpec) -> list[Diagnostic]:
    """Diagnostics for the names of a kernel (CG111) or its scalars (CG113) that collide with names in its module."""
    found = []
    if _defined(text, spec.kernel) > 1:
        found.append(_said(spec, "CG111", "kernel", spec.kernel, text, "kernel"))
    scalars = [s.name for s in spec.scalars if re.search(_BOUND.format(s.name), text)]
    taken = set(_taken(symtable.symtable(text, spec.kernel, "exec"), scalars)) if scalars else ()
    return found + [_said(spec, "CG113", "scalar", name, text, "scalars", name) for name in scalars if name in taken]


def _defined(text: str, name: str) -> int:
    """How often the module gives a name to something. Its docstring may have lines that look so."""
    if len(re.findall(rf"(?m)^((def|class) {name}\b|{name}(: \w+)? = )", text)) < 2:
        return 1
    nodes = ast.parse(text).body
    defined = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    targets = [target for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in nodes if isinstance(node, ast.AnnAssign)]
    return [*defined, *(target.id for target in targets if isinstance(target, ast.Name))].count(name)


def _taken(module: symtable.SymbolTable, names: list[str]) -> Iterator[str]:
    """Those of some parameters' names that the module has for something of its own, or a function that has them."""
    for name in names:
        if name in module.get_identifiers() and _binds(module.lookup(name)):
            yield name
    functions = [one for one in module.get_children() if one.get_name() != "reference"]  # which makes tensors of them
    while functions:
        function = functions.pop()
        functions += function.get_children()
        known = function.get_identifiers()
        symbols = (function.lookup(name) for name in names if name in known)
        yield from (symbol.get_name() for symbol in symbols if symbol.is_parameter() and _binds(symbol))


def _binds(symbol: symtable.Symbol) -> bool:
    """Whether a scope gives the name to something, not as a parameter."""
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _said(spec: KernelSpec, code: str, kind: str, name: str, text: str, *path: str) -> Diagnostic:
    free = next(other for other in (f"{name}_", f"{name}_of_{spec.kernel}", f"its_{name}") if _free(text, other))
    message = f"the {kind} cannot be named `{name}`: the generated module uses that name itself"
    return spec.source.diagnostic(code, message, *path, help=f"write `{free}`, or another name")


def _free(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is None
