"""`cutegen lint` as people and CI use it: pages, choices, formats, exit codes, and wrong use."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from building_kit import project, spec_text
from click.testing import CliRunner, Result

from cutegen.cli import cli
from cutegen.console import print_markdown
from cutegen.lint import page

WARNS = "schedule: {partition: inner, threads: 48}\n"  # CG260
FAILS = 'schedule: {partition: inner_outer, tiler: {M: 8, N: 240}, thread_layout: "(8,32):(32,1)"}\n'  # CG234


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def lint(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["lint", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def data_of(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lint(*arguments, "--format", "json").stdout)
    return found


def specs_of(folder: Path, **more: str) -> Path:
    """A project with a spec for each name, which ends in the text given and leaves no promise to inference."""
    specs = project(folder)
    for name, text in more.items():
        (specs / f"{name}.yaml").write_text(spec_text(name, f"{text}divisible: {{N: 4}}\n"))
    return specs


# ---------------------------------------------------------------------------------------------- pages and the list


def test_explain_prints_the_page() -> None:
    assert lint("--explain", "CG203").stdout == page.read("CG203").text
    assert lint("--explain", " cg203 ").stdout == page.read("CG203").text
    assert lint("--explain", "CG203").exit_code == 0


def test_explain_as_json() -> None:
    found = page.read("CG260")
    assert data_of("--explain", "CG260") == {
        "verb": "lint",
        "ok": True,
        "exit_code": 0,
        "code": "CG260",
        "title": "threads that do not fill their last warp",
        "severity": "warning",
        "kind": "correctness",
        "text": found.text,
        "bad": found.bad,
        "good": found.good,
    }
    assert data_of("--explain", "CG275")["kind"] == "performance"
    assert data_of("--explain", "CG401")["severity"] == "error"


def test_a_page_on_a_terminal_is_not_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    text = page.read("CG203").text
    print_markdown(text)
    shown = terminal.getvalue()
    assert "```" in text and "```" not in shown and "##" not in shown and "partition" in shown and "\x1b[" in shown
    monkeypatch.setattr(sys, "stdout", plain := StringIO())
    print_markdown(text)
    assert plain.getvalue() == text


def test_explain_of_an_unknown_code_names_near_ones() -> None:
    result = lint("--explain", "padding")
    assert result.exit_code == 2 and not result.stdout
    assert result.stderr == "error: there is no code `padding`\n  help: did you mean CG251 or CG252 or CG279?\n"
    assert data_of("--explain", "padding")["help"] == "did you mean CG251 or CG252 or CG279?"
    for odd in ("", "../CG203", "CG203.md", "\N{SNOWMAN}"):
        assert lint("--explain", odd).exit_code == 2


def test_rules_lists_every_code() -> None:
    lines = lint("--rules").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(page.codes())
    rows = {line.split()[0]: line for line in lines}
    assert (
        "warning" in rows["CG252"]
        and "padding that wastes shared memory" in rows["CG252"]
        and "performance" in rows["CG275"]
    )
    rules = data_of("--rules")["rules"]
    assert {r["code"]: r["title"] for r in rules} == {code: page.read(code).title for code in page.codes()}
    assert {r["code"] for r in rules if r["severity"] == "warning"} >= {"CG252", "CG260", "CG261", "CG275"}
    assert {r["severity"] for r in rules if r["code"] < "CG230"} == {"error", "note"}
    assert {r["code"] for r in rules if r["severity"] == "note"} == {"CG225", "CG226", "CG227", "CG280"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Missing argument 'SPEC|DIR...'"),
        (["--strict"], "Missing argument 'SPEC|DIR...'"),
        (["--explain", "CG203", "specs"], "SPEC cannot go with --explain"),
        (["--explain", "CG203", "--select", "CG2", "--strict"], "--select and --strict cannot go with --explain"),
        (["--explain", "CG203", "--rules"], "--rules cannot go with --explain"),
        (["--rules", "--ignore", "CG2"], "--ignore cannot go with --rules"),
        (["--rules", "--format", "github"], "--format github cannot go with --rules"),
        (["specs", "--format", "xml"], "xml"),
        (["specs", "--explain"], "--explain"),
        (["specs", "--ignore", "CG121"], "CG121 cannot be ignored"),
        (["specs", "--select", "CG9"], "no code begins with `CG9`"),
    ],
    ids=" ".join,
)
def test_wrong_use(tmp_path: Path, arguments: list[str], error: str) -> None:
    specs_of(tmp_path, one="")
    result = lint(*arguments)
    assert result.exit_code == 2 and error in result.stderr and not result.stdout
    if "--format" not in arguments:
        data = data_of(*arguments)
        assert (data["ok"], data["exit_code"]) == (False, 2) and error in data["error"]


# ------------------------------------------------------------------------------------------------------ diagnostics


def test_the_end_says_once_where_to_read_more(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, one=WARNS, two=FAILS, three=WARNS)
    result = lint(specs)
    assert result.stdout.count("lint --explain") == 1
    assert result.stdout.endswith("\nfor more: cutegen lint --explain CG234  (also CG260)\n")
    hint = result.stdout.splitlines()[-1].split("  (")[0].removeprefix("for more: cutegen lint ")
    assert lint(*hint.split()).exit_code == 0
    assert lint(specs / "one.yaml").stdout.endswith("1 warning\nfor more: cutegen lint --explain CG260\n")
    build = CliRunner().invoke(cli, ["build", str(specs)])
    assert "for more: cutegen lint --explain CG234  (also CG260)\n" in build.stderr


def test_exit_codes(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, good="", warns=WARNS, fails=FAILS, unread="static: {Q: 4}\n")
    assert [lint(specs / f"{n}.yaml").exit_code for n in ("good", "warns", "fails", "unread")] == [0, 0, 1, 2]
    assert [lint(specs / f"{n}.yaml", "--strict").exit_code for n in ("good", "warns", "fails", "unread")] == [
        0, 1, 1, 2,
    ]  # fmt: skip
    for flags, ok in ((["--strict"], False), ([], True)):
        data = data_of(specs / "warns.yaml", *flags)
        assert data["ok"] == ok and data["exit_code"] == int(not ok) and data["diagnostics"][0]["code"] == "CG260"


def codes_of(*arguments: object) -> list[str]:
    return [d["code"] for d in data_of(*arguments)["diagnostics"]]


def test_select_and_ignore(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, fails=FAILS, warns=WARNS)
    assert codes_of(specs) == ["CG234", "CG260"]
    assert codes_of(specs, "--select", "CG26") == codes_of(specs, "--ignore", "CG23") == ["CG260"]
    assert codes_of(specs, "--select", "CG26,CG234") == codes_of(specs, "--select", "CG26", "--select", "CG234")
    assert codes_of(specs, "--select", "CG2", "--ignore", "CG26", "--select", "CG260") == ["CG234", "CG260"]
    assert codes_of(specs, "--select", "CG27") == []
    result = lint(specs, "--select", "CG27")
    assert result.exit_code == 0
    assert result.stdout == (
        "no diagnostics\nleft out: 1 CG234, 1 CG260\na spec with an error gets no advice on speed, and no build\n"
    )
    assert data_of(specs, "--select", "CG27")["left_out"] == {"CG234": 1, "CG260": 1}
    assert lint(specs / "warns.yaml", "--ignore", "CG260").stdout == "1 kernel, no diagnostics\nleft out: 1 CG260\n"
    assert data_of(specs)["left_out"] == {}


def test_strict_is_about_what_is_shown(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, warns=WARNS)
    assert lint(specs, "--strict", "--ignore", "CG260").exit_code == 0


def test_what_keeps_a_spec_from_being_understood_is_always_shown(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, warns=WARNS, unread="static: {Q: 4}\n", deep="schedule: {threads: 2048}\n")
    assert codes_of(specs, "--select", "CG27") == ["CG231", "CG116"]
    assert codes_of(specs, "--ignore", "CG2") == ["CG231", "CG116"]
    assert lint(specs, "--select", "CG27").exit_code == 2


def test_an_ignored_error_does_not_build(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, fails=FAILS)
    assert lint(specs, "--ignore", "CG234").exit_code == 0
    build = CliRunner().invoke(cli, ["build", str(specs), "--no-compile", "--no-verify"])
    assert build.exit_code == 2 and "error[CG234]" in build.stderr and not (tmp_path / "generated").exists()
    assert CliRunner().invoke(cli, ["build", str(specs), "--ignore", "CG234"]).exit_code == 2


def test_github_prints_commands_and_nothing_else(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, warns=WARNS, fails=FAILS, good="")
    assert lint(specs / "good.yaml", "--format", "github").output == ""
    result = lint(specs, "--format", "github")
    lines = result.stdout.splitlines()
    assert result.exit_code == 1 and len(lines) == 2 and not result.stderr
    place = "file=specs/fails.yaml,line=10,col=53,endColumn=56,title=CG234"
    assert lines[0].startswith(f"::error {place}::32 threads along N do not divide the tiler's 240%0A240 = 7 * 32 + 16")
    assert lines[1].startswith("::warning file=specs/warns.yaml,line=10,")
    assert len(lint(specs, "--format", "github", "--select", "CG26").stdout.splitlines()) == 1


def test_sarif_has_every_diagnostic_at_its_place_and_the_page_of_its_rule(tmp_path: Path) -> None:
    specs = specs_of(tmp_path, warns=WARNS, fails=FAILS)
    found, log = data_of(specs)["diagnostics"], json.loads(lint(specs, "--format", "sarif").stdout)
    assert log["version"] == "2.1.0" and len(log["runs"]) == 1
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({d["code"] for d in found})
    assert all(rule["help"]["markdown"] == page.read(rule["id"]).text for rule in rules)
    assert all(rule["fullDescription"]["text"] in " ".join(rule["help"]["text"].split()) for rule in rules)
    assert all(len(rule["fullDescription"]["text"]) > 20 for rule in rules)  # which GitHub asks for
    assert len(run["results"]) == len(found) > 1
    for result, d in zip(run["results"], found, strict=True):
        place = result["locations"][0]["physicalLocation"]
        assert (
            (result["ruleId"], result["level"])
            == (d["code"], d["severity"])
            == (
                rules[result["ruleIndex"]]["id"],
                d["severity"],
            )
        )
        assert result["message"]["text"].startswith(d["message"])
        assert place["artifactLocation"]["uri"] == d["path"]
        assert (place["region"]["startLine"], place["region"]["startColumn"]) == (d["line"], d["column"])
        assert place["region"]["endColumn"] > d["column"]
    assert lint(specs, "--format", "sarif").exit_code == lint(specs).exit_code == 1
