"""The proof of a kernel: claims, accesses, shared memory, occupancy and roofline.

What is proved is the plan that the kernel is printed from; the printed text is for the emulator and the GPU to check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import accesses
from cutegen.analysis.asked import family_of
from cutegen.analysis.buffers import Buffer, Scratch
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import claims
from cutegen.analysis.memory import Conflicts, Sectors, conflicts, sectors
from cutegen.analysis.occupancy import Occupancy, occupancy
from cutegen.analysis.roofline import Roofline, roofline
from cutegen.analysis.widths import Width, width
from cutegen.planning.plan import Plan


@dataclass(frozen=True)
class Row:
    """One access with what it costs: `conflicts` in shared memory, `sectors` and `width` in global memory."""

    access: Access
    conflicts: Conflicts | None
    sectors: Sectors | None
    width: Width | None


@dataclass(frozen=True)
class Part:
    """The accesses and resources of one kernel of a module; `case` names the calls that it is for, empty for the only
    kernel.
    """

    case: str
    rows: tuple[Row, ...]
    buffers: tuple[Buffer, ...]
    shared_memory: int  # bytes a block
    occupancy: tuple[Occupancy, ...]  # on each target that it is for


@dataclass(frozen=True)
class Choice:
    """The kernels among which a call of some sizes chooses by their cost, each with its estimate in microseconds, the
    case that is `taken`, and what the call waits for by its estimate, on a GPU of so many `multiprocessors`. Without
    estimates the sizes are those of a case that is not compared with others.
    """

    sizes: Mapping[str, int]
    multiprocessors: int
    estimates: tuple[tuple[str, float], ...]
    taken: str
    waits_for: str


@dataclass(frozen=True)
class Proof:
    """Everything that is known of a kernel before it is compiled, from its plan."""

    kernel: str
    claims: tuple[Claim, ...]
    parts: tuple[Part, ...]
    scratch: tuple[Scratch, ...]
    rooflines: tuple[Roofline, ...]
    choices: tuple[Choice, ...]

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)


def prove(plan: Plan, sizes: Sequence[Mapping[str, int]] = (), multiprocessors: int | None = None) -> Proof:
    """Proves a plan, with a roofline for each of `sizes` on each target, and estimates for a GPU of so many
    multiprocessors; None: for the one that is assumed where none is known. Raises KeyError for sizes that miss a mode.
    """
    spec = plan.spec
    return Proof(
        kernel=spec.kernel,
        claims=claims(plan),
        parts=tuple(_part(kernel) for kernel in plan.kernels),
        scratch=tuple(family_of(spec).scratch(plan)),
        rooflines=tuple(roofline(plan, target, given) for given in sizes for target in spec.targets),
        choices=tuple(_choices(plan, sizes, multiprocessors)),
    )


def _choices(plan: Plan, sizes: Sequence[Mapping[str, int]], asked: int | None) -> Iterator[Choice]:
    sms = plan.assumed_multiprocessors if asked is None else asked
    if sms is None:
        return  # nothing is estimated
    for given in sizes:
        if plan.chosen_for(given) is None:
            continue  # nothing is chosen by its cost
        estimate = plan.estimate(given, sms)
        waits_for = "" if estimate is None else estimate.waits_for
        yield Choice(given, sms, plan.estimates(given, sms), plan.taken(given, None, sms).case, waits_for)


def _part(plan: Plan) -> Part:
    spec = plan.spec
    return Part(
        case=plan.case,
        rows=tuple(_row(plan, access) for access in accesses(plan)),
        buffers=tuple(family_of(spec).buffers(plan)),
        shared_memory=plan.smem_bytes,
        occupancy=tuple(occupancy(target, plan.threads_on(target), plan.smem_on(target)) for target in spec.targets),
    )


def _row(plan: Plan, access: Access) -> Row:
    if access.space == "shared":
        return Row(access, conflicts(access), None, None)
    return Row(access, None, sectors(access), width(plan.spec, access))
