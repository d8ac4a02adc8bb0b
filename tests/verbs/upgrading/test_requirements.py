"""The argument of `--with`: requirements as for pip, classified by whether they name one version."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from wheels import write_wheel

from cutegen.verbs.upgrading.requirements import RequirementError, read_requirements, too_old


def test_what_names_one_thing_can_be_kept(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "tiny", "1.0", {"tiny.py": ""})
    found = read_requirements(["Nvidia_Cutlass.DSL == 4.8.0.dev0", str(wheel), "torch===2.13.0+cpu", "a[x,y]==1"])
    assert [one.name for one in found] == ["nvidia-cutlass-dsl", "tiny", "torch", "a"]
    assert [one.content is not None for one in found] == [True] * 4
    assert found[0].text == "Nvidia_Cutlass.DSL==4.8.0.dev0" and found[1].text == str(wheel)
    write_wheel(tmp_path, "tiny", "1.0", {"tiny.py": "1"})  # rebuilt, under the same name
    assert read_requirements([str(wheel)])[0].content != found[1].content


@pytest.mark.parametrize(
    "text",
    ["torch", "torch>=2.6", "torch==2.*", "torch>=2,==2.6", "tiny @ git+https://x/y", "git+https://x/y@main", "./"],
)
def test_what_is_another_thing_tomorrow_is_not_kept(text: str) -> None:
    (found,) = read_requirements([text])
    assert found.content is None
    assert found.name == ("torch" if text.startswith("torch") else "tiny" if text.startswith("tiny") else "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--index-url=http://x", "is not a requirement"),
        ("", "is not a requirement"),
        ("torch 2.6", "is not a requirement"),
        ("no/such/folder", "does not exist"),
        ("no-such-1.0-py3-none-any.whl", "cannot be read"),
    ],
)
def test_what_is_no_requirement_is_refused(text: str, said: str) -> None:
    with pytest.raises(RequirementError, match=said):
        read_requirements([text])


def test_older_than_what_cutegen_asks_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["nvidia-cutlass-dsl>=4.8", "torch>=2.6", 'ruff>=9; extra == "dev"']
    monkeypatch.setattr(metadata, "requires", lambda name: wanted)
    assert too_old({"nvidia-cutlass-dsl": "4.8.0.dev0", "torch": "2.6.0+cpu", "ruff": "0.1", "other": "0.1"}) == []
    (said,) = too_old({"nvidia-cutlass-dsl": "4.7.1", "torch": "2.10"})
    assert said.startswith("nvidia-cutlass-dsl 4.7.1 is older") and "4.8 and later" in said
