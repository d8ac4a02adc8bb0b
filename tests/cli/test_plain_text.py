"""Text of compilers and libraries without what is meant for a terminal."""

from __future__ import annotations

import pytest

from cutegen.errors import plain
from cutegen.verification.runner import describe


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("\x1b[91m\x1b[1merror:\x1b[0m NameError in `launch`", "error: NameError in `launch`"),
        ("\x1b[38;5;196mred\x1b[m\x1b[K", "red"),
        ("\x1b]8;;https://x.y\x1b\\a link\x1b]8;;\x07 here", "a link here"),
        ("\x1b(Btext\x1b=", "text"),
        ("one\ttwo\nthree\r\n", "one\ttwo\nthree\r\n"),
        ("cut off \x1b[3", "cut off 3"),
        ("a\x00b\x07c", "abc"),
    ],
)
def test_no_orders_to_a_terminal_are_left(written: str, left: str) -> None:
    assert plain(written) == left


def test_a_report_of_an_exception_is_plain() -> None:
    assert describe(ValueError("\x1b[91mno\x1b[0m  such\nthing")) == "ValueError: no such thing"
