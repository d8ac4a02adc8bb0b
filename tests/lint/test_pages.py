"""Every code has a page, and every page is true: its bad spec has the problem, and its good one has none."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cutegen.cli import cli
from cutegen.language.diagnostics import Diagnostic
from cutegen.lint import page
from cutegen.lint.page import Page
from cutegen.project.selection import select
from cutegen.project.sources import gather, notes_on
from cutegen.registry import families

ROOT = Path(__file__).parents[2]
BUILDING = {"CG401", "CG402", "CG403"}
PAGES = {code: page.read(code) for code in page.codes()}
LINTED = [found for code, found in PAGES.items() if code not in BUILDING]


def said_about(
    folder: Path, text: str, *, shell: bool = False, performance: bool = False, notes: bool = False
) -> tuple[Diagnostic, ...]:
    """The diagnostics of a folder with `text` as a spec, or of its commands' output."""
    if shell:
        subprocess.run(["sh", "-c", text], cwd=folder, check=True)
        assert [path.name for path in folder.iterdir()] == ["spec.yaml"]
    else:
        (folder / "spec.yaml").write_text(text, encoding="utf-8")
    gathered = gather(select([folder]), performance=performance)
    return (*gathered.diagnostics, *(notes_on(gathered.units) if notes else ()))


def test_every_code_that_the_source_names_has_a_page() -> None:
    """Also one in a table that this test does not know."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "cutegen").rglob("*.py"))
    named = set(re.findall(r"\bCG\d{3}\b", source)) - {"CG200"}  # a bound, in the help of lint
    assert named == set(PAGES)


def test_no_two_pages_are_of_one_code() -> None:
    assert len(page.codes()) == len(PAGES)
    assert len({found.title for found in PAGES.values()}) == len(PAGES)


def test_nothing_else_lies_among_the_pages() -> None:
    lying = [file.name for folder in page.folders() for file in folder.iterdir()]
    assert sorted(lying) == sorted(f"{code}.md" for code in PAGES)
    there = {path.name for path in (ROOT / "cutegen").rglob("pages/*")}
    assert there == set(lying), "pages that nobody finds"


def test_a_page_stands_with_whoever_says_its_code() -> None:
    """With the one family whose rules say it; with what families share where several do; with lint else."""
    common = ROOT / "cutegen" / "families" / "common" / "pages"
    for found in PAGES:
        rules = [
            f for f in families() if found in {r.code for r in (*f.rules(), *f.performance_rules(), *f.note_rules())}
        ]
        if len(rules) > 1:
            assert (common / f"{found}.md").is_file(), found
        for family in rules[:1] if len(rules) == 1 else ():
            assert family.folder.joinpath("pages", f"{found}.md").is_file(), found


def test_a_wheel_holds_every_page() -> None:
    """The globs of package data, from the folder of the package that each is for."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.findall(r'^"cutegen([.\w]*)" = \[(.*)\]$', text, re.MULTILINE)
    held = {
        path
        for package, globs in found
        for glob in re.findall('"([^"]*)"', globs)
        for path in (ROOT / "cutegen").joinpath(*package.split(".")).glob(glob)
    }
    assert set((ROOT / "cutegen").rglob("pages/*")) <= held


@pytest.mark.parametrize("code", PAGES)
def test_a_page_has_the_form_of_one(code: str) -> None:
    found = PAGES[code]
    blocks = {"bad": found.bad, "good": found.good}
    fences = {"bad": found.kind_of_bad, "good": "yaml"}
    parts = [f"\n## {n.capitalize()}\n\n```{fences[n]} {n}\n{b}```\n" for n, b in blocks.items()]
    head, *rest = found.text.partition(parts[0])
    assert rest[0] + rest[1] == "".join(parts), "first the prose, then the bad spec and the good one, and no more"
    prose = head.removeprefix(f"# {code}: {found.title}\n\n")
    assert prose != head and len(prose) > 100 and "```" not in prose
    assert all(len(line) <= 120 for line in prose.splitlines())


@pytest.mark.parametrize(
    "text", ["", "# CG203: a title\n", "# CG204: a title\n\n```yaml good\na\n```\n", "# CG203: a\n\n```yaml\na\n```\n"]
)
def test_what_has_not_the_form_of_a_page_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(page, "folders", lambda: (tmp_path,))
    (tmp_path / "CG203.md").write_text(text)
    assert page.codes() == ("CG203",)
    with pytest.raises(ValueError, match="CG203"):
        page.read("CG203")


@pytest.mark.parametrize("found", LINTED, ids=lambda found: found.code)
def test_the_bad_spec_has_the_problem(tmp_path: Path, found: Page) -> None:
    shell, performance, notes = found.kind_of_bad == "sh", found.kind == "performance", found.severity == "note"
    said = said_about(tmp_path, found.bad, shell=shell, performance=performance, notes=notes)
    errors = [d.code for d in said if d.severity == "error"]
    if found.severity == "error":
        assert errors[0] == found.code
    else:
        assert not errors and found.code in [d.code for d in said]


# Of a product without a schedule 29 kernels are printed; that nothing is said of one, `choosing/test_atoms` says
PLAINEST = ("CG266", "CG280")


@pytest.mark.parametrize(
    "found",
    [pytest.param(found, marks=[pytest.mark.sweep] * (code in PLAINEST)) for code, found in PAGES.items()],
    ids=lambda found: found.code,
)
def test_the_good_spec_has_no_problem(tmp_path: Path, found: Page) -> None:
    performance, notes = found.kind == "performance", found.severity == "note"
    assert not said_about(tmp_path, found.good, performance=performance, notes=notes)


def test_the_two_specs_of_a_page_are_of_one_kernel() -> None:
    """So that the difference is the point. What is said about a file, and not about a spec, has nothing to compare."""
    for found in LINTED:
        if found.code >= "CG101":
            bad, good = set(found.bad.splitlines()), set(found.good.splitlines())
            assert len(bad & good) >= 0.5 * len(good), found.code


# -------------------------------------------------------------------------------------- what only a build can say


def built(folder: Path, codes: list[str], *flags: str) -> tuple[Result, dict[str, list[str]]]:
    """One build of the bad and the good specs, each in a project of its own; the codes that are said about each."""
    blocks = [(PAGES[code], which) for code in codes for which in ("bad", "good")]
    specs = {f"{p.code}.{w}": getattr(p, w) for p, w in blocks if w == "good" or p.kind_of_bad == "yaml"}
    for name, text in specs.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "pyproject.toml").touch()
        (folder / name / "spec.yaml").write_text(text)
    result = CliRunner().invoke(cli, ["build", *(str(folder / name) for name in specs), "--format", "json", *flags])
    found: dict[str, list[str]] = {name: [] for name in specs}
    for diagnostic in json.loads(result.stdout)["diagnostics"]:
        found[Path(diagnostic["path"]).parent.name].append(diagnostic["code"])
    return result, found


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / "cache"))


def test_expect_says_so(tmp_path: Path) -> None:
    result, found = built(tmp_path / "specs", ["CG401", "CG402"], "--no-verify")
    assert result.exit_code == 1, result.output
    assert found == {"CG401.bad": ["CG401"], "CG401.good": [], "CG402.good": []}
    compiled = [[t["compiled"] for t in kernel["targets"].values()] for kernel in json.loads(result.stdout)["kernels"]]
    assert compiled == [[True], [True], [True]]


def test_verification_says_so(tmp_path: Path) -> None:
    result, found = built(tmp_path / "specs", ["CG403"])
    assert result.exit_code == 1 and found == {"CG403.bad": ["CG403"], "CG403.good": []}, result.output
    verdicts = [kernel["verification"]["verdict"] for kernel in json.loads(result.stdout)["kernels"]]
    assert verdicts == ["failed", "passed"]


def test_these_are_all_that_only_a_build_can_say() -> None:
    assert set(page.codes()) - set(page.codes_of_lint()) == BUILDING
