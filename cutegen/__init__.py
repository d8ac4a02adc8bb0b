"""cutegen: from a declarative kernel spec to a compiled, verified, standalone CuTeDSL module.

Four functions take a spec's text: `check`, `generate`, `explain` and `verify`. Importing cutegen imports nothing heavy.
It stands above all rooms, and says how the families are opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutegen import registry
from cutegen.api import Explanation, GeneratedModule, Verdict, check, explain, generate, verify
from cutegen.version import __version__ as __version__

if TYPE_CHECKING:
    from importlib.abc import Traversable

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


def _families() -> tuple[Any, ...]:
    from cutegen.families import FAMILIES

    return FAMILIES


def _shared() -> Traversable:
    from importlib.resources import files

    return files("cutegen") / "families" / "common"


def _cases() -> Any:
    from cutegen.cases import FAMILY

    return FAMILY


def _choices() -> Any:
    from cutegen.choosing.family import FAMILY

    return FAMILY


registry.opened_by(registry.Openers(_families, _shared, _cases, _choices))
