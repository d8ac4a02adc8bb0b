"""Generated pages that are committed, so that the repository has them as well as the site.

    python -m making.committed

writes it: the reference of the language, the same for programs in one file, the index of the diagnostics, and the parts
of other pages that stand between marks. A test fails if the committed files are out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from making import commands, compared, diagnostics, llms, recipes, reference
from making.repository import ROOT

PARTS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "commands.md": ("verbs", commands.verbs),
    "comparison.md": ("compared", compared.table),
    "recipes/index.md": ("questions", recipes.index),
}
"""By page: the name of the part that is made, and what makes it."""


def files() -> dict[Path, str]:
    """The text of each file that is made, or has a part that is."""
    docs = ROOT / "docs"
    made = {
        docs / name: text for name, text in {**reference.files(), **diagnostics.index_file(), **llms.files()}.items()
    }
    return made | {docs / page: with_part(docs / page, *part) for page, part in PARTS.items()}


def with_part(page: Path, name: str, make: Callable[[], str]) -> str:
    """The text of a page with the part of that name as it is made now. Raises ValueError where a mark is not there."""
    begin, end = f"<!-- made: {name} -->\n", f"<!-- end of {name} -->"
    text = page.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{page.name} has not one {begin.strip()} and one {end}")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{make().strip()}\n\n{end}{rest.partition(end)[2]}"


def write() -> None:
    """Writes what differs from what is there."""
    for path, text in files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    write()
