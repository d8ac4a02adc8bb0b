"""The claim that a kernel's warps may come in any order, proved on the statement trees that print the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from cutegen.analysis.claim import Claim
from cutegen.language.kinds import Path
from cutegen.parts.acts import Run
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove

Sizes = TypeVar("Sizes")


def rounds(places: int) -> int:
    """The steps after which a ring of so many places has gone round three times, and one more: what is wrong from the
    second or third round on shows.
    """
    return 3 * places + 1


def ordered(
    tried: Iterable[Sizes], run: Callable[[Sizes], Run], words: Callable[[Sizes], str], over: str, path: Path
) -> Claim:
    """That warps may come in any order, proved of what they do for each of some sizes.

    `words` name one of these if it fails, `over` all of them.
    """
    text = "no order of warps deadlocks, reads data that have not arrived, or overwrites data in use"
    acts = phases = 0
    shown: dict[str, None] = {}
    for sizes in tried:
        try:
            found = prove(run(sizes))
        except Unproved as error:
            return Claim("order", text, (f"{words(sizes)}: {error.fault.text}",), False, path)
        acts, phases = acts + found.acts, phases + found.phases
        shown[str(sizes)] = None
    done = f"{acts} acts on barriers and shared memory, by the statements that print them"
    sizes_of = f"for {over} of {', '.join(shown)}, and each one is multiplied once"
    return Claim("order", text, (f"{done}, and {phases} phases" if phases else done, sizes_of), True, path)
