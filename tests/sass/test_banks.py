"""Bank clashes of multiply-adds, on hand-written SASS."""

from __future__ import annotations

import pytest

from cutegen.sass.banks import BankClashes, bank_clashes


def sass(*lines: str) -> str:
    """Lines that end in a colon are labels."""
    return "\n".join(
        text if text.endswith(":") else f"        /*{16 * i:04x}*/                   {text} ;"
        for i, text in enumerate(lines)
    )


def test_clashes_are_counted() -> None:
    text = sass(
        "FFMA R1, R2, R4, R6",
        "FFMA R1, R2.reuse, R5, R6",
        "FFMA R1, R2, R4, R6",
        "IADD3 R1, R2, R4, R6",
        "FFMA R1, R2, R4, R6",
        "FFMA R1, R2, R2, R6",
    )
    assert bank_clashes(text) == BankClashes(2, 5) and str(bank_clashes(text)) == "2 of 5 FFMA"
    assert bank_clashes("") == BankClashes(0, 0)


@pytest.mark.parametrize(
    "line", ["R2, R4, R6", "R3, R5, R7", "-R2, R4, -R6", "R2.reuse, R4, R6.reuse", "R2, R14, R254"]
)
def test_three_of_one_bank_clash(line: str) -> None:
    assert bank_clashes(sass(f"FFMA R1, {line}")) == BankClashes(1, 1)
    assert bank_clashes(sass(f"@!P0 FFMA.FTZ R1, {line}")) == BankClashes(1, 1)


@pytest.mark.parametrize(
    "line",
    ["R2, R4, R7", "R2, R5, R7", "R2, R4, RZ", "R2, R4, R2", "R2, c[0x0][0x168], R6", "R2, UR4, R6", "R2, 2, R6"],
)
def test_fewer_of_one_bank_do_not(line: str) -> None:
    assert bank_clashes(sass(f"FFMA R1, {line}")) == BankClashes(0, 1)


@pytest.mark.parametrize(
    ("before", "clashes"),
    [
        ("FFMA R1, R2.reuse, R5, R9", 0),
        ("FFMA R1, R3, R4.reuse, R9", 0),
        ("FFMA R1, R3, R5, R6.reuse", 0),
        ("FFMA R1, R2, R5, R9", 1),  # kept nothing
        ("FFMA R1, R5, R2.reuse, R9", 1),  # in another place
        ("FFMA R1, R8.reuse, R5, R9", 1),  # another register
        ("FFMA R2, R2.reuse, R5, R9", 1),  # and then wrote another value
        ("@P0 FFMA R1, R2.reuse, R5, R9", 1),  # or did not run
        ("IADD3 R1, R2.reuse, R5, R9", 1),  # places are known of FFMA only
    ],
)
def test_what_the_one_before_kept_is_not_read(before: str, clashes: int) -> None:
    assert bank_clashes(sass(before, "FFMA R1, R2, R4, R6")).clashes == clashes


@pytest.mark.parametrize("between", [".L_x_1:", "NOP", "LDS.128 R20, [R24]"])
def test_nothing_is_kept_over_what_stands_between(between: str) -> None:
    assert bank_clashes(sass("FFMA R1, R2.reuse, R5, R9", between, "FFMA R1, R2, R4, R6")).clashes == 1


def test_pairs_of_registers_are_of_both_banks() -> None:
    assert bank_clashes(sass("FFMA2 R4, R8.F32x2.HI_LO, R10.F32x2.HI_LO, R4.F32x2.HI_LO")) == BankClashes(0, 0)
