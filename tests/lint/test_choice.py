"""`--select` and `--ignore`: what they keep, what they cannot leave out, and what they refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutegen.lint import all_rules
from cutegen.lint.choice import Choice, ChoiceError, can_be_left_out, choose, near
from cutegen.lint.contract import note_codes
from cutegen.lint.page import codes_of_lint

CODES = codes_of_lint()
OPTIONAL = sorted(code for code in CODES if can_be_left_out(code))
PREFIXES = st.sampled_from(sorted({code[:length] for code in CODES for length in range(1, 6)}))
SETS = st.lists(PREFIXES, max_size=3, unique=True).map(tuple)


@given(SETS, SETS, st.sampled_from(OPTIONAL))
def test_the_longer_prefix_decides(select: tuple[str, ...], ignore: tuple[str, ...], code: str) -> None:
    """Walked from the whole code to its first letter, the first prefix that either names wins, and `ignore` first."""
    expected = not select
    for length in range(5, 0, -1):
        if code[:length] in ignore:
            expected = False
            break
        if code[:length] in select:
            expected = True
            break
    assert Choice(select, ignore).keeps(code) == expected


@given(SETS, SETS, st.sampled_from(sorted(set(CODES) - set(OPTIONAL))))
def test_what_keeps_rules_from_being_asked_is_always_told(
    select: tuple[str, ...], ignore: tuple[str, ...], code: str
) -> None:
    assert Choice(select, ignore).keeps(code)


def test_rules_alone_can_be_left_out() -> None:
    assert {"CG234", "CG238", "CG252", "CG260", "CG275"} <= set(OPTIONAL)
    assert not {"CG121", "CG203", "CG220", "CG221", "CG231"} & set(OPTIONAL)
    assert all(code >= "CG230" for code in OPTIONAL if code not in note_codes())
    assert not any(rule.basic for rule in all_rules() if rule.code in OPTIONAL)


@pytest.mark.parametrize(
    ("texts", "prefixes"),
    [
        (["CG252"], ("CG252",)),
        (["cg252, CG27 ", "CG26"], ("CG252", "CG27", "CG26")),
        (["CG26,CG26"], ("CG26",)),
        ([], ()),
    ],
)
def test_codes_between_commas(texts: list[str], prefixes: tuple[str, ...]) -> None:
    assert choose(texts, texts) == Choice(prefixes, prefixes)


@pytest.mark.parametrize(
    ("select", "ignore", "message", "help"),
    [
        ([], ["CG121"], "CG121 cannot be ignored", "--explain CG121"),
        ([], ["CG1"], "CG1 cannot be ignored", "--explain CG101"),
        ([], ["CG221"], "CG221 cannot be ignored", "--explain CG221"),
        (["CG999"], [], "no code begins with `CG999`", "did you mean"),
        ([], ["260"], "no code begins with `260`", "did you mean CG260?"),
        (["CG401"], [], "lint never says CG401", "`cutegen build` says CG401"),
        ([], ["CG4"], "lint never says CG4", "`cutegen build` says CG401, CG402, CG403"),
        (["CG26,,CG27"], [], "missing between commas", "CG252,CG27"),
        (["all"], [], "no code begins with `ALL`", "--rules"),
        ([""], [], "missing between commas", "CG252,CG27"),
    ],
)
def test_what_cannot_be_chosen_is_refused_with_a_way_out(
    select: list[str], ignore: list[str], message: str, help: str
) -> None:
    with pytest.raises(ChoiceError) as caught:
        choose(select, ignore)
    assert message in str(caught.value) and help in caught.value.help


def test_a_prefix_may_hold_codes_that_stay() -> None:
    """CG2 has codes of layouts, which stay, and those of rules, which go."""
    choice = choose([], ["CG2"])
    assert choice.keeps("CG201") and not choice.keeps("CG260")


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("203", "did you mean CG203?"),
        ("cg2O3", "did you mean CG203?"),
        ("E0203", "did you mean"),
        ("padding", "did you mean CG251 or CG252 or CG279?"),
        ("Padding", "did you mean CG251 or CG252 or CG279?"),
        ("zzz", "`cutegen lint --rules` lists every code"),
        ("", "`cutegen lint --rules` lists every code"),
        ("[", "`cutegen lint --rules` lists every code"),
    ],
)
def test_near_codes(text: str, help: str) -> None:
    assert near(text).startswith(help)
