"""The language in one file for programs: complete, short enough, and its specs are read. That it is current, as all
pages that are made and committed are, `test_pages` compares.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from making import llms
from making.fields import fields

from cutegen.atoms.targets import TARGETS
from cutegen.cli import VERBS
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import FUNCTIONS, REDUCTIONS
from cutegen.language.reader import read_specs

TEXT = (Path(__file__).parents[2] / "docs" / "llms.txt").read_text(encoding="utf-8")
LONGEST = 39_000  # characters, about 10000 tokens


def test_it_names_every_word_of_the_language() -> None:
    keys = {step for field in fields().values() for step in field.shown.split(".")} - {"NAME"}
    named = {step for path in re.findall(r"`([\w.]+)`|(\w+):", TEXT) for step in "".join(path).split(".")}
    assert len(keys) > 60 and keys - named == set()
    words = {choice for field in fields().values() for choice in re.findall("`([a-z]\\w+)`", field.takes)}
    words |= {*FUNCTIONS, *REDUCTIONS, *TARGETS, *(dtype.value for dtype in Dtype), "cast", "coord"}
    assert len(words) > 120 and words - set(re.findall(r"\w+", TEXT)) == set()
    assert [verb.name for verb in VERBS if f"`cutegen {verb.name}`" not in TEXT] == []


def test_it_fits_a_context_window_and_leaves_no_mark() -> None:
    assert len(TEXT) < LONGEST and "<<" not in TEXT.replace("`<< >> & | ^ ~`", "")


def test_its_specs_are_read() -> None:
    shown, *specs = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(specs) == len(llms.SPECS) == 10
    for spec in (shown, *specs):
        assert read_specs(spec, "specs/k.yaml")


def test_a_text_that_is_no_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llms, "MISTAKES", (("elementwise", "Y = X + 1", "Y = X + 2"),))
    with pytest.raises(ValueError, match="nothing is said of 'Y = X \\+ 2'"):
        llms.files()
