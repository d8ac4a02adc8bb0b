"""Links of pages to files of the repository, which the site has as pages of its own.

A page of `docs/` is read on the site and in the repository. There a link leads to the file that is meant: a
diagnostic's page in the package, a spec, the folder of specs. On the site it leads to what is made of that file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

_LINK = re.compile(r"(\]\()(\.\./[^)#\s]*)")
_DIAGNOSTIC = re.compile(r"cutegen/(?:lint|families(?:/\w+)+)/pages/(CG\d+)\.md")
_SPEC = re.compile(r"specs/(\w+)\.yaml")
FOLDERS = {"cutegen/lint/pages": "lint/index.md", "specs": "gallery/index.md", "CHANGELOG.md": "changes.md"}


def to_site(text: str, page: str, made: Collection[str]) -> str:
    """A page's text with such links changed to places of the site.

    `page` is the path of the page from the folder of the documentation, and `made` has the paths of all that is made
    for the site. A link to a spec leads to the page that `cutegen show` draws of it, where there is one. Other links
    stay as they are, so that the check of links finds those that lead nowhere.
    """

    def place(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), match[2]))
        found = _page_of(target, made)
        return match[0] if found is None else match[1] + posixpath.relpath(found, posixpath.dirname(page) or ".")

    return _LINK.sub(place, text)


def _page_of(target: str, made: Collection[str]) -> str | None:
    """The page that the site has of a file of the repository."""
    if target in FOLDERS:
        return FOLDERS[target]
    if match := _DIAGNOSTIC.fullmatch(target):
        return f"lint/{match[1]}.md"
    if match := _SPEC.fullmatch(target):
        drawn = f"gallery/pages/{match[1]}.html"
        return drawn if drawn in made else f"gallery/{match[1]}.md"
    return None
