"""cutegen: from a declarative kernel spec to a compiled, verified, standalone CuTeDSL module.

Four functions take a spec's text: `check`, `generate`, `explain` and `verify`. Importing cutegen imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutegen.api import Explanation, GeneratedModule, Verdict, check, explain, generate, verify
from cutegen.version import __version__ as __version__

if TYPE_CHECKING:
    from cutegen.errors import CutegenError
    from cutegen.language.diagnostics import Diagnostic, SpecError

__all__ = [
    "CutegenError",
    "Diagnostic",
    "Explanation",
    "GeneratedModule",
    "SpecError",
    "Verdict",
    "check",
    "explain",
    "generate",
    "verify",
]
_HOMES = {
    "CutegenError": "cutegen.errors",
    "Diagnostic": "cutegen.language.diagnostics",
    "SpecError": "cutegen.language.diagnostics",
}


def __getattr__(name: str) -> Any:
    """Types of what is raised and returned, imported when they are asked for."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
