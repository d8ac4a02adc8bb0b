"""The pages that are made for the site alone: copies of what stands elsewhere in the repository, and drawings."""

from __future__ import annotations

from making import diagnostics, gallery, home


def files_of_site() -> dict[str, str | bytes]:
    """Every page and file that is made, by its path from the folder of the documentation."""
    found: dict[str, str | bytes] = {}
    for made in (home.files, diagnostics.files, gallery.files):
        found |= made()
    return found
