"""Docstrings of the package, of its tests and of the scripts beside it name the thing that they describe."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("cutegen", "tests", "docs", "benchmarks")


_LIKELY = re.compile(r'"""\s*What ')  # few files have it, and parsing takes long


def docstrings(text: str) -> list[tuple[int, str]]:
    """The docstrings of a file: of the module, of its classes and functions, and those below assignments."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.append((node.lineno, node.value.value))
    return found


def test_no_docstring_begins_with_what() -> None:
    """\"What stands at a place\" makes a reader wait for the noun: \"The statement at a place\"."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if _LIKELY.search(source := path.read_text(encoding="utf-8"))
        for line, text in docstrings(source)
        if text.lstrip().startswith("What ")
    ]
    assert not wrong, "\n".join(wrong)
