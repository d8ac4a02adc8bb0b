"""A page for each code that cutegen can say, as `cutegen lint --explain` prints it, and an index."""

from __future__ import annotations

from itertools import groupby

from cutegen.lint import page
from making.repository import ROOT

FOLDER = "lint"
GROUPS = {
    "CG0": ("Text", "What cannot be read as a spec: YAML, size, characters."),
    "CG1": ("Language", "Keys, names, types, and the statements of `compute`."),
    "CG2": ("Schedules", "What the compiler would accept in silence, or answer with a text about something else."),
    "CG3": ("Tensor cores", "Tiles, shared memory, registers and clusters of products on tensor cores."),
    "CG4": ("Builds", "What only a build finds: a failed compile, a broken expectation, a wrong result."),
}


def files() -> dict[str, str]:
    """All pages."""
    return {f"{FOLDER}/{code}.md": text_of(page.read(code)) for code in page.codes()}


def index_file() -> dict[str, str]:
    """The index, whose links lead to the pages in the package."""
    return {f"{FOLDER}/index.md": index([page.read(code) for code in page.codes()])}


def index(pages: list[page.Page]) -> str:
    """Every code with its title, group by group."""
    lines = [
        "# Diagnostics",
        "",
        f"Every diagnostic has a code, and each of the {len(pages)} codes a page, with a spec that has the problem",
        "and one that does not. `cutegen lint --explain CG121` prints a page, `cutegen lint --rules` lists them.",
        "An error stops a build; a warning is advice, mostly on speed, with a change that helps; a note is worth",
        "knowing.",
    ]
    for prefix, group in groupby(pages, lambda one: one.code[:3]):
        title, says = GROUPS[prefix]
        lines += ["", f"## {title}", "", says, "", "| code | | |", "|---|---|---|"]
        lines += [f"| [{one.code}](../../{_place(one.code)}) | {one.severity} | {_cell(one.title)} |" for one in group]
    return "\n".join([*lines, ""])


def text_of(one: page.Page) -> str:
    """A page as the site shows it: its blocks are named by what they are, and say what they hold."""
    text = one.text
    for which in ("bad", "good"):
        for kind in ("yaml", "sh", "text"):
            text = text.replace(f"```{kind} {which}\n", f"```{kind}\n")
    head, _, rest = text.partition("\n")
    return f"{head}\n\n{_badge(one)}\n{rest}"


def _place(code: str) -> str:
    """The path of a code's page from the root of the repository."""
    file = next(file for file in page.files_of_pages() if file.name == f"{code}.md")
    return str(file).removeprefix(f"{ROOT}/")


def _badge(one: page.Page) -> str:
    """A line that says how much it matters."""
    what = {"error": "An error: nothing is built.", "note": "A note: worth knowing, and no finding."}
    about = "Advice on speed" if one.kind == "performance" else "A warning"
    return f"*{what.get(one.severity, f'{about}: a warning of `cutegen lint`.')}*"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
