"""Which diagnostics a reader asked for, by codes or by what codes begin with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from cutegen.errors import CutegenError
from cutegen.lint import all_performance_rules, all_rules, page
from cutegen.lint.contract import note_codes


class ChoiceError(CutegenError):
    """Says that codes cannot be chosen so; `help` says what would work."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True)
class Choice:
    """The codes to print and those to leave out, as prefixes of codes.

    Of two prefixes that a code begins with the longer one decides; of one that is in both, `ignore`.
    """

    select: tuple[str, ...] = ()  # none: every code
    ignore: tuple[str, ...] = ()

    def keeps(self, code: str) -> bool:
        selected = max((len(p) for p in self.select if code.startswith(p)), default=-1 if self.select else 0)
        ignored = max((len(p) for p in self.ignore if code.startswith(p)), default=-1)
        return selected > ignored or not can_be_left_out(code)


def choose(select: Iterable[str], ignore: Iterable[str]) -> Choice:
    """The choice that two lists of texts stand for, each text with codes between commas.

    Raises `ChoiceError` for a code that lint never says, and for one to ignore that it always says.
    """
    choice, said = Choice(_prefixes(select), _prefixes(ignore)), page.codes_of_lint()
    for prefix in (*choice.select, *choice.ignore):
        if not _beginning_with(prefix, said):
            later = _beginning_with(prefix, page.codes())
            if later:
                raise ChoiceError(f"lint never says {prefix}", f"`cutegen build` says {', '.join(later)}")
            raise ChoiceError(f"no code begins with `{prefix}`", near(prefix))
    for prefix in choice.ignore:
        always = [code for code in _beginning_with(prefix, said) if not can_be_left_out(code)]
        if len(always) == len(_beginning_with(prefix, said)):
            message = f"{prefix} cannot be ignored: where it is said, not all rules could be asked"
            raise ChoiceError(message, f"mend the spec; `cutegen lint --explain {always[0]}` says how")
    return choice


def can_be_left_out(code: str) -> bool:
    """Whether what says `code` is optional, so that every rule is asked even where it is said."""
    if code in note_codes():
        return True
    rules = all_rules()
    optional = {rule.code for rule in rules} | {rule.code for rule in all_performance_rules()}
    return code in optional - {rule.code for rule in rules if rule.basic}


def near(text: str) -> str:
    """A help for someone who named a code that there is not, or a word of its title."""
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
