"""The first page, which is the README, and that of the changes."""

from __future__ import annotations

import re

from making.repository import read

_LINK = re.compile(r"(\]\()([^)#]+)")
PAGES = {"CHANGELOG.md": "changes.md", "cutegen/lint/pages": "lint/index.md"}  # outside of `docs/`, and pages here


def files() -> dict[str, str]:
    """Both pages."""
    return {"index.md": moved(read("README.md")), "changes.md": moved(read("CHANGELOG.md"))}


def moved(text: str) -> str:
    """A page of the root as it reads in the folder `docs`, where its links start. What is no page there stays as it
    was, so that the check of links finds it.
    """

    def place(match: re.Match[str]) -> str:
        target = match[2]
        return match[1] + PAGES.get(target, target.removeprefix("docs/"))

    return _LINK.sub(place, text)
