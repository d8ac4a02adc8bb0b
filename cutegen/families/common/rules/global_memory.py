"""Rules on the cost of global memory accesses: partly filled sectors, and accesses narrower than they could be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from cutegen.analysis import Access, sectors
from cutegen.analysis.memory import Sectors
from cutegen.analysis.widths import Width, width
from cutegen.analysis.words import count
from cutegen.atoms.targets import SECTOR
from cutegen.dtypes import Dtype
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec
from cutegen.lint.rule import Accesses, Candidate, Finding
from cutegen.lint.trial import first_written

_CACHED = 0.5  # of the excess of a request, where the warp's other requests use the rest of its sectors
_ISSUE = 0.25  # of the excess of more instructions than needed, where they move no more sectors
Others = Callable[[Access], Iterable[Candidate]]  # what may be better for an access


def uncoalesced(
    spec: KernelSpec, made: Accesses, others: Others, counts: Callable[[Access], bool] = lambda _: True
) -> Iterator[Finding]:
    """A warp's instruction touches no more sectors of global memory than its bytes fill, where an access `counts`."""
    alike: dict[tuple[Path, Sectors], list[Access]] = {}
    for access in made:
        if access.space == "global" and counts(access) and (found := sectors(access)).sectors > found.least:
            alike.setdefault((access.path, found), []).append(access)
    for (path, found), group in alike.items():
        cached, times = found.over_tile == found.least_over_tile, group[0].instructions
        notes = [
            f"warp {found.warp}: {found.bytes} bytes fill {count(found.least, 'sector')} of {SECTOR} bytes, and touch "
            f"{found.sectors}"
        ]
        if cached:
            notes.append("the warp's other accesses use the rest, if the L1 cache keeps the sectors until then")
        elif times > 1:
            notes.append(f"over all {times} of them: {found.over_tile} sectors instead of {found.least_over_tile}")
        yield Finding(
            f"{_names(group)} accessed in {count(found.sectors, 'sector')} per request instead of {found.least}",
            first_written(spec, path, path[:-1], ("tensors", group[0].tensor)),
            tuple(notes),
            (found.ratio - 1) * (_CACHED if cached else 1) * len(group),
            others(group[0]),
        )


def _names(group: Sequence[Access]) -> str:
    """The tensors of some accesses with a verb, such as `A is` or `A and B are`."""
    names = list(dict.fromkeys(a.tensor + "'s workspace" * (a.workspace is not None) for a in group))
    joined = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{joined} {'is' if len(names) == 1 else 'are'}"


def narrow(
    spec: KernelSpec,
    made: Accesses,
    others: Others,
    whole: Callable[[Access], bool],
    place: Callable[[Access, bool], Path],
) -> Iterator[Finding]:
    """An access is as wide as the alignment and 128 bits allow, where the kernel could access the tensor in vectors.

    `whole` says where it could. `place` is where the spec decides on the width: it is given whether a thread's values
    would allow more than `bits` asks for.
    """
    alike: dict[tuple[Path, Width, Dtype], list[Access]] = {}
    for access in made:
        if access.space == "global" and whole(access):
            found = width(spec, access)
            if found.vector < found.allowed:
                where = place(access, found.vector < found.possible)
                alike.setdefault((where, found, access.dtype), []).append(access)
    for (where, found, dtype), group in alike.items():
        bits, allowed = found.vector * dtype.bits, found.allowed * dtype.bits
        yield Finding(
            f"{_names(group)} accessed {bits} bits at a time, and the alignment allows {allowed}",
            where,
            (_why(spec, found, group[0]), _instructions(group[0], found)),
            (found.allowed / found.vector - 1) * _ISSUE * len(group),
            others(group[0]),
        )


def _why(spec: KernelSpec, found: Width, access: Access) -> str:
    if found.vector < found.possible:
        return (
            f"a thread has {found.run} in a row, the alignment allows {found.aligned}, and `bits` takes {found.vector}"
        )
    has = f"{found.run} in a row" if found.run > 1 else "no two in a row"
    return f"a thread has {has} along {access.memory(spec).major}, and the alignment allows {found.aligned}"


def _instructions(access: Access, found: Width) -> str:
    most = access.values // min(found.allowed, access.values)
    return (
        f"{access.instructions} accesses per thread instead of {most}"
        if most < access.instructions
        else ("a thread with more values would need no more accesses")
    )
