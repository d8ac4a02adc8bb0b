"""The pages that are made for the site, the README, and its pictures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from making import committed, compared, diagnostics, gallery, home, links, pictures
from making.commands import verbs
from making.site import files_of_site

from cutegen.cli import VERBS
from cutegen.lint import page as lint_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) < 150
    targets = LINK.findall(readme)
    assert len(targets) > 20 and [target for target in targets if not (ROOT / target).exists()] == []


def test_pictures_show_what_there_is_now() -> None:
    for name, drawn in pictures.drawn().items():
        assert (DOCS / "pictures" / name).read_bytes() == drawn, "run `make pictures`"
    pages = (ROOT / "README.md", DOCS / "language.md", *(DOCS / "language").glob("*.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    shown = set(re.findall(r"!\[.+?\]\((?:docs|\.\.)/pictures/(.+?)\)", text))
    files = {file.name: file.stat().st_size for file in (DOCS / "pictures").iterdir()}
    assert shown == set(files) and max(files.values()) < 256 * 1024


def test_the_first_page_is_the_readme_whose_links_start_elsewhere() -> None:
    text = "[a](docs/tutorial.md) ![b](docs/pictures/x.svg) [c](CHANGELOG.md) [d](cutegen/lint/pages) [e](x.md#there)"
    text += " [f](specs/y.yaml)"
    assert home.moved(text) == (
        "[a](tutorial.md) ![b](pictures/x.svg) [c](changes.md) [d](lint/index.md) [e](x.md#there) [f](gallery/y.md)"
    )


def test_every_code_and_every_verb_is_there() -> None:
    made = diagnostics.files()
    assert {f"lint/{code}.md" for code in lint_page.codes()} == set(made)
    index = diagnostics.index_file()["lint/index.md"]
    assert all(f"/{code}.md)" in index for code in lint_page.codes())
    assert not [name for name, text in made.items() if re.search(r"^```\w+ (bad|good)$", text, re.MULTILINE)]
    commands = verbs()
    for verb in VERBS:
        assert f"### {verb.name}\n" in commands
        flags = [flag for parameter in verb.params for flag in parameter.opts if flag.startswith("--")]
        assert all(flag in commands for flag in flags)


def test_every_spec_is_in_the_gallery_beside_its_code() -> None:
    made = gallery.files()
    for file in (ROOT / "specs").glob("*.yaml"):
        name = f"gallery/{file.stem}.md"
        text = made[name]
        assert isinstance(text, str) and file.read_text(encoding="utf-8").rstrip() in text
        assert f"({file.stem}.md)" in str(made["gallery/index.md"]), f"specs/README.md does not name {file.name}"
        assert "@cute.kernel" in text and "The host, as in every module" not in text
    for spec in gallery.PICTURED:
        assert f"pages/{spec}.html" in str(made[f"gallery/{spec}.md"]) and "<svg" in str(
            made[f"gallery/pages/{spec}.html"]
        )
    codes = {name.removeprefix("gallery/code/") for name in made if name.endswith(".py")}
    assert codes == {file.name for file in (ROOT / "generated").glob("*.py")}


def test_figures_of_the_gallery_are_those_of_the_receipts() -> None:
    receipts = (DOCS / "receipts.md").read_text(encoding="utf-8")
    kernels = set(re.findall(r"^\| (\w+) \| M ", receipts, re.MULTILINE))
    rows = {name: [line for line in gallery.figures([name]) if line.startswith(f"| {name} ")] for name in kernels}
    assert len(kernels) > 20 and max(map(len, rows.values())) > 3
    assert all(found and set(found) <= set(receipts.splitlines()) for found in rows.values())
    assert gallery.figures(["no such kernel"]) == []
    machines = [line for line in gallery.figures(["linear_relu_tf32"]) if line.startswith("On ")]
    assert len(machines) == 2 and "H100" in machines[0] and "H200" in machines[1]


def test_peers_are_counted_as_the_receipts_have_them() -> None:
    found = list(compared.figures())
    fused = [one for one in found if one.peer == "cuBLAS, then torch"]
    receipts = (DOCS / "receipts.md").read_text(encoding="utf-8")
    assert fused and {one.kernel for one in fused} >= set(
        re.findall(r"^\| (\w+) .*cuBLAS, then", receipts, re.MULTILINE)
    )
    assert not [one for one in found if "," in one.peer and one not in fused]
    for line in compared.table().splitlines()[2:]:
        _, peer, shapes, *counts = (cell.strip() for cell in line.split("|")[:6])
        own = [one.times for one in found if one.peer == peer]
        assert len(own) == int(shapes) == sum(map(int, counts))
        assert [int(count) for count in counts[::2]] == [sum(x > 1.02 for x in own), sum(x < 0.98 for x in own)]


def test_the_page_on_families_shows_the_whole_toy() -> None:
    shown = re.findall('^--8<-- "(.+)"$', (DOCS / "families.md").read_text(encoding="utf-8"), re.MULTILINE)
    toy = ROOT / "tests" / "kits" / "toy_family"
    files = {str(file.relative_to(ROOT)) for file in toy.rglob("*") if file.suffix in (".py", ".j2")}
    of_roles = {f"tests/kits/toy_roles/{name}.py" for name in ("memory", "roles", "order")}  # what is its own
    files |= of_roles
    assert files - {"tests/kits/toy_family/__init__.py"} == {name for name in shown if not name.endswith(".md")}
    assert all((ROOT / name).is_file() for name in shown)


def test_what_is_made_and_committed_is_current() -> None:
    found = committed.files()
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make pages`"
    folders = ("reference", "lint")  # of which each page is made
    made = {f"{folder}/{page.name}" for folder in folders for page in (DOCS / folder).glob("*.md")}
    assert made == {str(path.relative_to(DOCS)) for path in found if path.parent.name in folders}
    assert not set(files_of_site()) & {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_links_of_all_pages_lead_somewhere_in_the_repository() -> None:
    """Before anything is made for the site."""
    pages = [page for page in DOCS.rglob("*.md") if "kernels" not in page.parts]
    lost = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]
    assert len(pages) > 25 and lost == []


def test_on_the_site_links_to_files_lead_to_their_pages() -> None:
    made = {"gallery/pages/a.html", "gallery/a.md", "gallery/b.md", "lint/CG121.md"}
    text = "[x](../specs/a.yaml) [y](../specs/b.yaml#z) [c](../cutegen/lint/pages/CG121.md) [d](../specs) [e](../no)"
    assert links.to_site(text, "reading.md", made) == (
        "[x](gallery/pages/a.html) [y](gallery/b.md#z) [c](lint/CG121.md) [d](gallery/index.md) [e](../no)"
    )
    assert links.to_site("[c](../../cutegen/lint/pages/CG121.md)", "lint/index.md", made) == "[c](CG121.md)"


def site_settings() -> dict[str, Any]:
    from mkdocs.utils.yaml import yaml_load

    found: dict[str, Any] = yaml_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    return found


def test_make_test_leaves_out_the_search_and_colours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two recipes are as strict, and the settings differ in nothing that a link or an anchor depends on."""
    pytest.importorskip("mkdocs")
    recipes = re.findall(r"^(?:docs|links):.*\n\t(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(recipes) == 2 and all("mkdocs build --strict" in recipe for recipe in recipes)
    variable = re.search(r"(\w+)=false", recipes[1])
    assert variable is not None
    full = site_settings()
    monkeypatch.setenv(variable[1], "false")
    less = site_settings()
    assert (full["plugins"], less["plugins"]) == ([{"search": {"enabled": True}}], [{"search": {"enabled": False}}])
    pairs = zip(full["markdown_extensions"], less["markdown_extensions"], strict=True)
    (old, new), *others = [pair for pair in pairs if pair[0] != pair[1]]
    assert not others and (old["pymdownx.highlight"] | {"use_pygments": False}) == new["pymdownx.highlight"]
    assert {key for key in full if full[key] != less[key]} == {"plugins", "markdown_extensions"}


@pytest.mark.parametrize("broken", ["[a](nowhere.md)", "[a](tutorial.md#nowhere)", "![a](pictures/nowhere.svg)", None])
def test_a_broken_link_ends_the_build(tmp_path: Path, broken: str | None) -> None:
    """The settings of this site, on two pages of another."""
    pytest.importorskip("mkdocs")
    settings = site_settings()
    kept = {name: settings[name] for name in ("strict", "validation", "use_directory_urls")}
    own = {"site_name": "other", "nav": ["index.md", "tutorial.md"], "plugins": [], "theme": "mkdocs"}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(kept | own))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n{broken or '[a](tutorial.md#here)'}\n")
    (tmp_path / "docs" / "tutorial.md").write_text("# Tutorial\n\n## Here\n")
    command = [sys.executable, "-m", "mkdocs", "build"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) == (broken is None), done.stdout + done.stderr
