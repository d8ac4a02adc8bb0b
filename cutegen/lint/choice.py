"""Which diagnostics a reader asked for, by codes or by what codes begin with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from cutegen.language.codes import CODES
from cutegen.lint import ALL_RULES, RULES, page


class ChoiceError(Exception):
    """Codes that cannot be chosen so; `help` says what would work."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True)
class Choice:
    """Of two prefixes that a code begins with the longer one decides; of one that is in both, `ignore`."""

    select: tuple[str, ...] = ()  # none: every code
    ignore: tuple[str, ...] = ()

    def keeps(self, code: str) -> bool:
        selected = max((len(p) for p in self.select if code.startswith(p)), default=-1 if self.select else 0)
        ignored = max((len(p) for p in self.ignore if code.startswith(p)), default=-1)
        return selected > ignored or not can_be_left_out(code)


def choose(select: Iterable[str], ignore: Iterable[str]) -> Choice:
    """From texts that hold codes between commas.

    Raises `ChoiceError` for a code that lint never says, and for one to ignore that it always says.
    """
    choice = Choice(_prefixes(select), _prefixes(ignore))
    for prefix in (*choice.select, *choice.ignore):
        if not _beginning_with(prefix, CODES):
            later = _beginning_with(prefix, page.codes())
            if later:
                raise ChoiceError(f"lint never says {prefix}", f"`cutegen build` says {', '.join(later)}")
            raise ChoiceError(f"no code begins with `{prefix}`", near(prefix))
    for prefix in choice.ignore:
        always = [code for code in _beginning_with(prefix, CODES) if not can_be_left_out(code)]
        if len(always) == len(_beginning_with(prefix, CODES)):
            message = f"{prefix} cannot be ignored: where it is said, not all rules could be asked"
            raise ChoiceError(message, f"mend the spec; `cutegen lint --explain {always[0]}` says how")
    return choice


def can_be_left_out(code: str) -> bool:
    """Whether every rule is asked all the same where `code` is said."""
    return code in {rule.code for rule in ALL_RULES} - {rule.code for rule in RULES if rule.basic}


def near(text: str) -> str:
    """Help for one who named a code that there is not, or a word of its title."""
    known, digits = page.codes(), re.sub("[^0-9]", "", text.upper().replace("O", "0"))
    close = [code for code in known if code == f"CG{digits:0>3}"]
    if not close and len(text) > 3:
        close = [code for code in known if text.lower() in page.read(code).title.lower()]
    close = close or sorted(get_close_matches(text.upper(), known, 3))
    return f"did you mean {' or '.join(close)}?" if close else "`cutegen lint --rules` lists every code"


def _beginning_with(prefix: str, codes: Iterable[str]) -> list[str]:
    return [code for code in codes if code.startswith(prefix)]


def _prefixes(texts: Iterable[str]) -> tuple[str, ...]:
    found = [part.strip().upper() for text in texts for part in text.split(",")]
    if not all(found):
        raise ChoiceError("a code is missing between commas", "write codes or what they begin with, as in CG252,CG27")
    return tuple(dict.fromkeys(found))
