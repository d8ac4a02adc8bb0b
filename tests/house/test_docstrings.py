"""Docstrings of the package name the thing that they describe."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "cutegen"


def docstrings(path: Path) -> list[tuple[int, str]]:
    """The docstrings of a file: of the module, of its classes and functions, and those below assignments."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.append((node.lineno, node.value.value))
    return found


def test_no_docstring_begins_with_what() -> None:
    """\"What stands at a place\" makes a reader wait for the noun: \"The statement at a place\"."""
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {text.splitlines()[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in docstrings(path)
        if text.lstrip().startswith("What ")
    ]
    assert not wrong, "\n".join(wrong)
