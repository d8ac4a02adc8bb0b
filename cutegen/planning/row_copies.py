"""How rows of a tensor that a kernel does not take where they stand are copied to memory where it does, or back."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.language.model import Tensor

WARP = 32
WORD_BITS = 32  # of what a thread writes at once to rows that are aligned, and all that their padding has room for


@dataclass(frozen=True)
class RowCopies:
    """A kernel beside a module's own that copies rows: its blocks have tiles of words along a row, and of rows.

    Neighbouring threads of a warp have neighbouring words, so that what they read lies in one cache line or two. Copied
    to aligned rows, a word has 32 bits; from there it is one element, so that what a warp stores has no holes. A thread
    has all its words under way before it stores the first.
    """

    threads: int = 256
    words: int = 4  # of a thread, along each of its rows
    rows: int = 2  # of a thread
    align: int = 16  # bytes: in whole ones of which rows are laid out at least,
    line: int = 128  # and in whole ones of these where they are longer

    @property
    def along(self) -> int:
        """Words of a row that a block has."""
        return WARP * self.words

    @property
    def band(self) -> int:
        """Rows that a block has."""
        return self.threads // WARP * self.rows

    def unit(self, tensor: Tensor) -> int:
        """Elements of a word of aligned rows."""
        return max(1, WORD_BITS // tensor.dtype.bits)
