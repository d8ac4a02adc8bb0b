"""Texts for readers have no phrase that makes them read a sentence twice.

The phrases are idioms of inverted or indirect sentences. A reader wants the subject first and the field's own words:
"uninitialised", "misaligned", "at any alignment", "is distinguished by", "current".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHRASES = (
    "nothing wrote",
    "nothing has written",
    "nothing had written",
    "stand anywhere",
    "stands anywhere",
    "wherever it stands",
    "wherever one may start",
    "is told",
    "are told",
    "be told apart",
    "as it must be",
    "as they must be",
    "whatever",
    "hold to",
    "holds to",
    "held to",
    "by chance",
    "what there is",
    "that are there",
    "is there already",
    "where what is",
    "which is none",
    "is as good as",
    "once that is known",
    "no stage to come to",
    "such as stand",
    "of what nothing",
    "none of no",
    "let be taken",
    "that some bytes are",
    "than what it",
    "there is no c++ for",
    "warps have roles",
    "passes shared memory",
    "pass shared memory",
    "which was inferred",
)
"""Phrases in lower case; each has a plain alternative: "at any alignment", "`lint` reports it", "is current"."""

BETWEEN = r'[\s"\'#*]+(?:f["\'])?'  # words of one text may be on two lines, of two strings or of two comments
PATTERN = re.compile(
    r"(?<!\w)(?:" + "|".join(BETWEEN.join(map(re.escape, phrase.split())) for phrase in PHRASES) + r")(?!\w)",
    re.IGNORECASE,
)


def texts() -> Iterator[Path]:
    """The pages, and the package: its docstrings, comments, messages, help texts and templates."""
    yield from (ROOT / "README.md", ROOT / "specs" / "README.md")
    yield from sorted(page for page in (ROOT / "docs").rglob("*.md") if "kernels" not in page.parts)
    for kind in ("*.py", "*.j2", "*.md", "*.h", "*.txt"):
        yield from sorted((ROOT / "cutegen").rglob(kind))


def found_in(text: str) -> list[tuple[int, str]]:
    """The phrases in a text, each with its line."""
    return [(text.count("\n", 0, one.start()) + 1, " ".join(one[0].split())) for one in PATTERN.finditer(text)]


def test_no_text_has_such_a_phrase() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {phrase}"
        for path in texts()
        for line, phrase in found_in(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("phrase", PHRASES)
def test_each_phrase_is_found(phrase: str) -> None:
    first, *rest = phrase.split()
    assert found_in(f"A {phrase.capitalize()}.") == [(1, phrase.capitalize())]
    for between in ("\n    ", '"\n        "', '"\n        f"', "\n    # "):
        assert found_in(f"x = 1\n{between.join([first, *rest])}, and more")
    assert not found_in(f"pre{phrase} and {phrase}post")
