"""The questions that the recipes answer, as an index of their pages."""

from __future__ import annotations

import re

from making.repository import ROOT

FOLDER = ROOT / "docs" / "recipes"
PAGES = ("tensors", "rows", "gemm", "attention", "torch", "checks", "speed")
"""In the order in which they are read; later ones use specs of earlier ones."""

_QUESTION = re.compile(r"^## (.+)$", re.MULTILINE)
_TITLE = re.compile(r"^# Recipes: (.+)$", re.MULTILINE)


def index() -> str:
    """A list of the questions of each page, each with a link to its answer."""
    parts = []
    for page in PAGES:
        text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
        title = _TITLE.findall(text)[0]
        lines = [f"- [{question}]({page}.md#{anchor(question)})" for question in _QUESTION.findall(text)]
        parts.append("\n".join([f"## {title[0].upper()}{title[1:]}\n", *lines]))
    return "\n\n".join(parts)


def anchor(heading: str) -> str:
    """The anchor that both the site and GitHub give a heading without marks."""
    return re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-")
