"""Gemms of tensors that do not stand as tensor maps take them: calls copy those to workspaces, and from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from anywhere_kit import SPEC, failures, made
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.language.writer import write_spec
from cutegen.verification.cases import derive_cases


def test_any_tensor_is_taken(tmp_path: Path) -> None:
    """Each tensor that tensor maps move is copied alone, in one case at least, for its address, its rows or its end."""
    module = made()
    names = [case.name for case in derive_cases(module.plan)]
    assert {f"{name} alone has rows elsewhere" for name in "ABC"} <= set(names) and "N alone does not fit" in names
    assert failures(module, tmp_path) == []


BACK, INTO = "!= 0:\n        _copy_rows(_standing(", "!= 0:\n        _copy_rows(given_C, mC"
MISTAKES = {
    "nothing is copied from a workspace": (BACK, BACK.replace("!= 0", "== 1")),
    "nothing is copied to one": ("    if spare_A != 0:\n", "    if spare_A == 1:\n"),
    "what is read of an output is not": (INTO, INTO.replace("!= 0", "== 1")),
    "an element too few is copied": ("if 32 * j * unit < columns and", "if 32 * j * unit + 1 < columns and"),
    "a row too few is copied": ("i < rows:", "i + 1 < rows:"),
    "a row too many is copied": ("i < rows:", "i <= rows:"),
    "a word too many is copied": ("if 32 * j * unit < columns and", "if 32 * j * unit <= columns and"),
    "another column is copied": ("column, row = 32 * j * unit + part, i", "column, row = 32 * j * unit + part + 1, i"),
    "elements of a word are exchanged": ("elements[j * unit + part, i] =", "elements[j * unit + unit - 1 - part, i] ="),
    "columns are clipped too early": ("(column, columns - 1)", "(column, columns - 2)"),
    "rows are clipped too early": ("(row, rows - 1)", "(row, rows - 2)"),
    "a part of a row is whole": ("if within and band", "if band"),
    "memory is elsewhere than its rows are copied to": ("address = spare +", "address = spare + 16 * (1 - here) +"),
    "rows are further apart than in memory": ("= cute.assume(step +", "= cute.assume(step + 8 +"),
    "memory is gone before the launch": (
        "*_addresses(spare))",
        "*_addresses([_spare(*one) for one in zip(TENSORS, arguments) if one[0] in PADDED]))",
    ),
    "an address counts for nothing": ("(x.data_ptr(), *(n * x.itemsize", "(0, *(n * x.itemsize"),
    "rows count for nothing": ("(*pitches, row)", "(row,)"),
    "an end counts for nothing": ("c.shape[1] % 8 or ", ""),
    "an end is no reason to copy": ("if role != \"in\" else 0", "if role == \"in\" else 0"),
}  # fmt: skip
WHOLE = "gD[32 * j, i, 0] = words[j, i]\n            else"
LONG = {  # mistakes that show where rows have several tiles, or there are several matrices
    "a part of a band is whole": ("if within and band * COPY_BAND + COPY_BAND <= mS.shape[1]:", "if within:"),
    "each tile is the first": ("word = part *", "word = part * 0 *"),
    "each band is the first": ("row = band *", "row = band * 0 *"),
    "a tile is one word too far": ("+ tidx % 32", "+ tidx % 32 + part"),
    "a tile too few is launched": ("words.shape, (32 * COPY_WORDS,", "words.shape, (64 * COPY_WORDS,"),
    "tiles are counted across": ("divisor_v2(tiles[0])", "divisor_v2(tiles[1])"),
    "a row of a whole tile is skipped": (WHOLE, WHOLE.replace("i, 0]", "0, 0]")),
    "elements of a whole tile are another's": ("= 32 * j * unit + part, i\n", "= 32 * (j - j // 3) * unit + part, i\n"),
    "a tile that lacks an element is whole": ("+ 32 * COPY_WORDS * unit <= mS", "+ 32 * COPY_WORDS * unit <= 1 + mS"),
    "a band that lacks a row is whole": ("COPY_BAND <= mS.shape[1]:", "COPY_BAND <= mS.shape[1] + 1:"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = MISTAKES[mistake]
    module = made()
    assert module.text.count(old) == 1, module.text
    assert failures(module, tmp_path, module.text.replace(old, new), "alone")


@pytest.mark.parametrize("mistake", sampled(LONG))
def test_a_mistake_in_long_rows_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = LONG[mistake]
    module = made()
    assert module.text.count(old) == 1, module.text
    assert failures(module, tmp_path, module.text.replace(old, new), "long rows")


def test_what_is_promised_is_refused_elsewhere() -> None:
    aligned = made(SPEC.replace("bf16", "bf16, align: 16"))
    assert "PADDED" not in aligned.text and "c.shape[1] % 8" not in aligned.text and '"N": 8' in aligned.text
    refusing = SPEC + "  copies: {A: {misaligned: refuse}, B: {misaligned: refuse}, C: {misaligned: refuse}}\n"
    assert made(refusing).plan.spec.tensor("A").align == 16
    contradiction = SPEC.replace("dtype: bf16}", "dtype: bf16, align: 2}") + "  copies: {A: {misaligned: refuse}}\n"
    assert [d.code for d in found_in(contradiction) if d.severity == "error"] == ["CG306"]
    meaningless = SPEC + "  copies: {C: {atom: universal, misaligned: workspace}}\n"
    assert [d.code for d in found_in(meaningless)] == ["CG203"]


def test_what_is_read_of_a_workspace_is_brought_from_there_whether_its_alignment_was_inferred_or_written() -> None:
    module = made(SPEC + "divisible: {N: 8}\n")
    assert "VECTOR = 2" in module.text and "tiled_load_C_in" in module.text
    written = made(write_spec(module.spec))
    assert "align: 2" in write_spec(module.spec)
    assert written.text.partition('"""')[2] == module.text.partition('"""')[2]
