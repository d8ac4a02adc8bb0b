"""Modules that mypy skips: parts of torch that only torch itself imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SKIPPED = re.compile(r'\[\[tool\.mypy\.overrides\]\]\nmodule = \[([^\]]+)\]\nfollow_imports = "skip"')


def imported(text: str) -> Iterator[str]:
    """All that a file imports, by its whole name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_nothing_here_has_a_type_from_what_mypy_skips() -> None:
    found = SKIPPED.search((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert found is not None
    packages = [name.removesuffix(".*") for name in re.findall(r'"([^"]+)"', found[1])]
    assert "torch._inductor" in packages and not {"torch", "cutlass"} & set(packages)
    files = [file for folder in ("cutegen", "docs/making") for file in sorted((ROOT / folder).rglob("*.py"))]
    within = tuple(f"{name}." for name in packages)
    roots = {name.partition(".")[0] for name in packages}
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    asked = {file: text for file, text in texts.items() if any(root in text for root in roots)}  # which few do
    taken = [
        (file.name, name) for file, text in asked.items() for name in imported(text) if f"{name}.".startswith(within)
    ]
    assert asked and not taken
