"""Terminal sessions on the pages match the commands' output: each command is run in the order of its page, in a
matching folder."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from making.blocks import blocks, specs
from pages_kit import assert_prints, commands, pattern, write_file
from toy_family import FAMILY

from cutegen import registry
from cutegen.codegen import Module, generate

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EMPTY, SPECS = "an empty folder", "a folder with the specs of this repository"
PAGES = {"tutorial.md": EMPTY, "reading.md": SPECS, "backward.md": SPECS, "model.md": EMPTY}
ELSEWHERE = {"export.md", "run.md", "upgrade.md"}  # whose commands tests of their own run
LANGUAGE = ["docs/language.md", *sorted(f"docs/language/{page.name}" for page in (DOCS / "language").glob("*.md"))]
OTHERS = ["README.md", *sorted(f"docs/{page.name}" for page in DOCS.glob("*.md") if page.name != "language.md")]


def test_what_is_left_out_is_all_that_may_differ() -> None:
    assert re.fullmatch(pattern(["a", "...", "b ...", "c"]), "a\nx\ny\nb and more\nc  \n")
    assert re.fullmatch(pattern(["a", "...", "b"]), "a\nb\n")
    assert re.fullmatch(pattern([".../x.py: b ..."]), "/home/me/x.py: b and more\n")
    assert not re.fullmatch(pattern([".../x.py: b"]), "x.py: b\n")
    counted = pattern(["49 cases, 105 host checks,  all within bounds"])
    assert re.fullmatch(counted, "50 cases, 9 host checks,     all within bounds\n")
    assert not re.fullmatch(counted, "50 cases, 9 host checks,  some within bounds\n")
    for wrong in ("a\nb and more\n", "a\nx\nb and more\nc\nd\n", "x\na\nb and more\nc\n"):
        assert not re.fullmatch(pattern(["a", "...", "b ...", "c"]), wrong)


@pytest.mark.parametrize("name", PAGES)
def test_commands_print_what_the_page_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cutlass")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / ".cutegen-cache"))
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
    if PAGES[name] == SPECS:
        shutil.copytree(ROOT / "specs", tmp_path / "specs")
        shutil.copytree(ROOT / "generated", tmp_path / "generated")
    count = 0
    for block in blocks(f"docs/{name}"):
        if block.title:
            write_file(block, tmp_path)
        elif block.language == "console":
            for command, lines in commands(block.text):
                assert_prints(command, lines, tmp_path)
                count += 1
    assert count


def test_what_the_readme_shows_is_of_the_tutorial() -> None:
    shown = [block for block in blocks("README.md") if block.language == "console" or block.title]
    assert len(shown) > 2 and not [block for block in shown if block not in blocks("docs/tutorial.md")]


def test_all_sessions_are_run() -> None:
    pages = [*OTHERS, *LANGUAGE]
    with_sessions = {Path(page).name for page in pages if any(b.language == "console" for b in blocks(page))}
    assert with_sessions - ELSEWHERE - {"README.md"} == set(PAGES)
    for page in (page for page in pages if Path(page).name not in ELSEWHERE):
        others = [block for block in blocks(page) if block.language != "console"]
        assert not [block for block in others if re.search(r"^\$ ", block.text, re.MULTILINE)], page


@pytest.mark.parametrize("page", OTHERS)
def test_specs_of_pages_are_good(page: str) -> None:
    for block in blocks(page):
        if block.language == "yaml" and not block.title and re.match("cutegen: 1|kernel: ", block.text):
            text = block.text if block.text.startswith("cutegen:") else f"cutegen: 1\n{block.text}"
            with registry.added(FAMILY):  # which one of the pages is about
                assert generate(text, page, beside=None).modules


@pytest.mark.parametrize("page", LANGUAGE)
def test_specs_of_the_language_are_good_and_calls_fit_their_functions(page: str) -> None:
    modules = [module for spec in specs(page) for module in generate(spec, page).modules]
    functions = {module.spec.kernel: stand_in(module) for module in modules}
    for block in blocks(page):
        assert block.language in ("yaml", "python", "sh")
        if block.language == "python":
            exec(block.text, {}, Names(functions))


class Names(dict[str, Any]):
    """The names of a block: every other than a function's is a tensor's."""

    def __missing__(self, name: str) -> object:
        return f"tensor {name}"


def stand_in(module: Module) -> Any:
    """A function with the parameters of a module's, which returns as many results."""
    name, outputs = module.spec.kernel, len(module.spec.outputs)
    function = next(n for n in ast.parse(module.text).body if isinstance(n, ast.FunctionDef) and n.name == name)
    function.body, function.returns = ast.parse("return results").body, None
    for parameter in (*function.args.args, *function.args.kwonlyargs):
        parameter.annotation = None
    names = {"results": ("result",) * outputs if outputs > 1 else "result"}
    exec(compile(ast.Module([function], []), name, "exec"), names)
    return names[name]
