"""Rules about bank conflicts of shared memory, and about the padding of its columns that takes them away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cutegen.analysis import Access, accesses, conflicts
from cutegen.atoms.targets import BANK_BYTES, BANKS, MAX_VECTOR_BITS
from cutegen.families.gemm.fma.planning import plan as make_plan
from cutegen.families.gemm.fma.rules.operands import other_permutations
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.families.gemm.staged.rules.copies import operands
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.staged.shared_memory import column_stride, pad_of, pad_path
from cutegen.families.gemm.words import vector_of
from cutegen.language.diagnostics import has_errors
from cutegen.language.model import Tensor
from cutegen.lint.rule import Accesses, Candidate, Finding, Say
from cutegen.lint.trial import changed, first_that_works, first_written, try_out, written

_PADS = (0, 1, 2, 4, 8, 16)  # elements, to suggest
_SHOWN = 4
_IDLE = 0.1  # excess of what only takes room


def _padded(spec: Spec, tensor: str, pad: int) -> Spec:
    """The spec as it was written, with another padding of a tensor's columns, in elements."""
    return changed(spec, {".".join(map(str, pad_path(tensor)[1:])): pad})


def padding_aligned(spec: Spec, say: Say) -> None:
    """Every column of shared memory starts where an access can: tile plus padding is a multiple of the access."""
    schedule = spec.schedule
    for tensor, mode, copy in operands(spec):
        if tensor.major != mode and copy.atom == "universal":
            continue  # it writes one element at a time
        vector, pad = vector_of(copy, tensor), pad_of(schedule, tensor)
        column, size_ = column_stride(schedule, tensor, mode), tensor.dtype.bytes
        if column * size_ % (vector * size_) == 0:
            continue

        def help(tensor: Tensor = tensor, pad: int = pad, vector: int = vector) -> str | None:
            near = [-(-pad // vector) * vector, pad // vector * vector, 0]
            trials: list[Candidate] = [(written(f"write `pad: {x}`"), _padded(spec, tensor.name, x)) for x in near]
            return first_that_works(say.code, trials)

        say(
            f"with a padding of {pad} the columns of {tensor.name} are not aligned to an access of {vector} elements",
            *pad_path(tensor.name),
            notes=(
                f"({column - pad} + {pad}) * {size_} bytes = {column * size_}, "
                f"which {vector} * {size_} = {vector * size_} does not divide",
            ),
            help=help,
        )


def padding_wasted(spec: Spec, say: Say) -> None:
    """Padding of a whole row of banks changes nothing but the memory that is used."""
    for tensor, _, _ in operands(spec):
        pad, row = pad_of(spec.schedule, tensor), BANKS * BANK_BYTES // tensor.dtype.bytes
        if pad >= row:
            say(
                f"a padding of {pad} elements of {tensor.name} spreads columns no better than {pad % row}",
                *pad_path(tensor.name),
                notes=(f"{pad} = {pad // row} * {row} + {pad % row}, and {row} elements are all banks once",),
                help=f"write `pad: {pad % row}`",
            )


# --------------------------------------------------------------------------------------------- advice on speed


def bank_conflicts(spec: Spec, plan: GemmPlan, made: Accesses) -> Iterator[Finding]:
    """The lanes of a warp that shared memory serves at once want different banks, or the same word of one."""
    for access in made:
        if access.space != "shared" or (found := conflicts(access)).passes == found.least:
            continue
        shown = ", ".join(map(str, found.lanes[:_SHOWN])) + (", ..." if len(found.lanes) > _SHOWN else "")
        words = ", ".join(map(str, found.words[:_SHOWN])) + (", ..." if len(found.words) > _SHOWN else "")
        direction = "written to" if access.kind == "write" else "read from"
        yield Finding(
            f"{access.tensor} is {direction} shared memory with {found.ways}-way bank conflicts",
            first_written(spec, access.path, pad_path(access.tensor), access.path[:-1], ("tensors", access.tensor)),
            (
                f"warp {found.warp}: threads {shown} want words {words}, all of bank {found.bank}",
                f"{access.bytes} bytes a thread take {found.passes} passes of the warp instead of {found.least}",
            ),
            found.passes / found.least - 1,
            _other_banks(spec, plan, access),
        )


def _other_banks(spec: Spec, plan: GemmPlan, access: Access) -> Iterator[Candidate]:
    if access.kind == "write":
        for pad in _PADS:
            yield written(f"write `pad: {pad}` for {access.tensor}"), _padded(spec, access.tensor, pad)
    side = 0 if access.tensor == plan.a.tensor.name else 1
    yield from other_permutations(spec, (plan.m, plan.n)[side], side)


def idle_padding(spec: Spec, plan: GemmPlan, made: Accesses) -> Iterator[Finding]:
    """Padding takes bank conflicts away."""
    now = shared_cost(made)
    for x in (plan.a, plan.b):
        name, pad = x.tensor.name, x.smem_stride - x.block
        if not pad:
            continue
        plain = _padded(spec, name, 0)
        resolved, found = try_out(plain)
        if has_errors(found):
            continue
        without = make_plan(resolved)
        then = shared_cost(accesses(without))
        if then <= now:
            yield Finding(
                f"a padding of {pad} elements of {name} removes no bank conflicts",
                pad_path(name),
                (
                    f"for a tile a warp takes {now[1]} passes to shared memory, and {then[1]} without it",
                    f"a block takes {plan.smem_bytes} bytes of shared memory, and {without.smem_bytes} without it",
                ),
                _IDLE,
                ((written(f"write `pad: 0` for {name}"), plain),),
            )


def shared_cost(made: Accesses) -> tuple[int, int]:
    """The instructions to shared memory that a warp makes for a tile, and the passes that these take."""
    shared = [access for access in made if access.space == "shared"]
    return sum(a.instructions for a in shared), sum(conflicts(a).passes * a.instructions for a in shared)


def narrow_reads(plan: GemmPlan, made: Sequence[Access]) -> float:
    """Instructions that fragments spend on reads narrower than 16 bytes, for a hundred multiply-adds of a thread.

    No finding of its own, since a permutation or a padding is always its cause, but a price that a change of these must
    not pay unseen.
    """
    reads = [access for access in made if access.space == "shared" and access.kind == "read"]
    more = sum(a.instructions * (1 - a.vector * a.dtype.bits / MAX_VECTOR_BITS) for a in reads)  # for one k
    return 100 * more / plan.pointwise.values
