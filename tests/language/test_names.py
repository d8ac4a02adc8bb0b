"""Names that kernels cannot have, because their files would be imported in place of modules."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, files, requires
from pathlib import Path

import pytest

from cutegen.language.names import MODULES, RESERVED, name_problem, shown


def test_no_kernel_is_named_like_a_standard_module() -> None:
    public = {name for name in sys.stdlib_module_names if not name.startswith("_")}
    assert public <= set(RESERVED)
    assert {"distutils", "tomllib", "copy", "select"} <= set(RESERVED)  # on every Python, there or not


def required(names: set[str]) -> set[str]:
    """The distributions and all that they require here, extras left out."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        try:
            wanted = requires(name) or []
        except PackageNotFoundError:
            continue
        found.add(name)
        plain = {re.split(r"[^A-Za-z0-9._-]", line)[0].lower() for line in wanted if "extra ==" not in line}
        waiting |= plain - found
    return found


def test_no_kernel_is_named_like_a_module_of_a_dependency() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    listed = project[project.index("dependencies = [") : project.index("[project.optional")]
    named = set(re.findall(r'^ +"([A-Za-z0-9-]+)>=', listed, re.MULTILINE))
    assert len(named) > 10
    modules = set()
    for distribution in required(named):
        for file in files(distribution) or ():
            top = file.parts[0]
            if len(file.parts) > 1 and file.suffix == ".py" and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", top):
                modules.add(top)
            elif len(file.parts) == 1 and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*\.py", top):
                modules.add(file.stem)
    assert {"torch", "yaml", "click"} <= modules
    assert modules <= set(RESERVED), modules - set(RESERVED)


def test_what_is_proposed_instead_can_be_taken() -> None:
    for name in RESERVED:
        better = f"{name}_rows"
        assert better not in RESERVED and name_problem(better, 64) is None


def test_names_can_be_kernel_names_at_all() -> None:
    assert all(name_problem(name, 64) is None for name in MODULES)


@pytest.mark.parametrize(
    ("value", "text"),
    [("add ", "add "), (" \n add", " add"), ("a \n b", "a b"), ("x" * 41, "x" * 37 + "..."), (4, "4")],
)
def test_white_space_at_the_ends_stays_visible(value: object, text: str) -> None:
    assert shown(value) == text
