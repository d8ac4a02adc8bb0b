"""All that is made of the site: files by their place in it, and parts of pages by the marks that they stand at."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from making import commands, compared, diagnostics, gallery, home, reference

PARTS: Mapping[str, Callable[[], str]] = {
    "<!-- made: verbs -->": commands.verbs,
    "<!-- made: compared -->": compared.table,
}


def files_of_site() -> dict[str, str | bytes]:
    """Every page and file that is made, by its path from the folder of the documentation."""
    found: dict[str, str | bytes] = {}
    for made in (home.files, diagnostics.files, reference.files, gallery.files):
        found |= made()
    return found
