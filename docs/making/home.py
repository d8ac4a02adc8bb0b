"""The first page of the site, made from the README, and the page of changes."""

from __future__ import annotations

import re

from making.repository import read

_LINK = re.compile(r"(\]\()([^)#]+)")
_SPEC = re.compile(r"specs/(\w+)\.yaml")
PAGES = {  # outside of `docs/`, and pages of the site
    "CHANGELOG.md": "changes.md",
    "cutegen/lint/pages": "lint/index.md",
    "specs": "gallery/index.md",
}


def files() -> dict[str, str]:
    """The texts of both pages, by path."""
    return {"index.md": moved(read("README.md")), "changes.md": moved(read("CHANGELOG.md"))}


def moved(text: str) -> str:
    """A page of the root with links that start in the folder `docs`. A link to no page of the site stays as it is, so
    that the check of links finds it.
    """

    def place(match: re.Match[str]) -> str:
        target = _SPEC.sub(r"gallery/\1.md", match[2])
        return match[1] + PAGES.get(target, target.removeprefix("docs/"))

    return _LINK.sub(place, text)
