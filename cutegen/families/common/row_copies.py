"""Claims about a kernel that copies rows, and cases that it adds to those of the kernel that uses the copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensor_layouts import Layout

from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import covered_once
from cutegen.language.kinds import Path
from cutegen.language.model import Tensor
from cutegen.planning.row_copies import WARP, WORD_BITS, RowCopies
from cutegen.verification.case_request import CaseRequest


def rows_copied(copies: RowCopies, tensors: Sequence[Tensor], path: Path) -> Iterator[Claim]:
    """The claims on the copies of some tensors' rows: each word of a tile once, and none beyond an end."""
    warps, names = copies.threads // WARP, " and ".join(tensor.name for tensor in tensors)
    layout = Layout(
        ((WARP, warps), (copies.words, copies.rows)), ((1, copies.along * copies.rows), (WARP, copies.along))
    )
    text = f"the threads that copy rows of {names} have each word of a tile, along a row and of rows, exactly once"
    yield covered_once(text, layout, (copies.along, copies.band), path, copies.threads)
    units = [copies.unit(t) for t in tensors]
    whole = all(bytes_ * 8 % WORD_BITS == 0 for bytes_ in (copies.align, copies.line))
    because = (
        "beyond an end the last element is loaded, and a word is stored only if its coordinates are below both sizes",
        f"of aligned rows a word has {' or '.join(map(str, sorted(set(units))))} elements, of others one",
        f"aligned rows are whole {copies.align} bytes, which {'are' if whole else 'are not'} whole words",
    )
    yield Claim("bounds", f"copies of rows of {names} stay within these, and within their like", because, whole, path)


def long_rows(copies: RowCopies, tensors: Sequence[Tensor]) -> Iterator[CaseRequest]:
    """Cases in which rows that are copied are several tiles long, and there are a tile of them and one more, and others
    in which an element is missing to two whole tiles of a row, and a row to two of rows; in several matrices where a
    tensor has those. Both for each mode along which some of the tensors are contiguous.
    """
    for tensor in {t.major: t for t in reversed(tensors)}.values():
        unit, outer = copies.unit(tensor), [mode for mode in reversed(tensor.shape) if mode != tensor.major]
        sizes = {str(tensor.major): 2 * copies.along * unit + unit + 1}
        sizes |= dict(zip(outer, (copies.band + 1, 2), strict=False))
        why = "rows are copied in several tiles, and some end beyond them"
        yield CaseRequest(f"long rows along {tensor.major}", why, sizes, every_way=True, once=True)
        sizes = {str(tensor.major): 2 * copies.along * unit - 1}
        sizes |= dict(zip(outer, (2 * copies.band - 1, 2), strict=False))
        why = "one element is missing to whole tiles of a row, and one row to whole tiles of rows"
        yield CaseRequest(f"long rows along {tensor.major}, one less", why, sizes, every_way=True, once=True)
