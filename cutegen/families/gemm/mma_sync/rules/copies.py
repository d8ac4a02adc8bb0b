"""Rules about how tensors move: the atom, the width and the alignment of an access."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutegen.atoms.copies import ATOMS
from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.families.common.rules import accesses
from cutegen.families.gemm.mma_sync.product import (
    copy_layouts,
    is_sound,
    product_of,
    threads_of,
    tile_of,
    vector_of,
)
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.language.kinds import Path
from cutegen.language.model import Tensor
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, first_written, nearest_first, written

CP_ASYNC_BITS = ATOMS["cp_async"].bits


def _moved(spec: Spec) -> Iterator[tuple[Tensor, tuple[str, str]]]:
    """A, B and the output, each with its modes."""
    a, b, m, n, k = product_of(spec)
    yield from ((a, (m, k)), (b, (n, k)), (spec.output, (m, n)))


def _path(tensor: str, field: str) -> Path:
    return ("schedule", "copies", tensor, field)


def _with(spec: Spec, tensor: Tensor, **fields: object) -> Spec:
    return changed(spec, {f"copies.{tensor.name}.{field}": value for field, value in fields.items()})


def _better_bits(spec: Spec, tensor: Tensor, code: str) -> str | None:
    """The nearest width that works, in words."""
    given = spec.schedule.copies[tensor.name].bits or MAX_VECTOR_BITS
    trials: list[Candidate] = [
        (written(f"write `bits: {bits}`"), _with(spec, tensor, bits=bits))
        for bits in nearest_first((128, 64, 32, 16), given)
    ]
    trials.append((written("leave `bits` and `atom` out"), _with(spec, tensor, bits=None, atom=None)))
    return first_that_works(code, trials)


def copied(spec: Spec, say: Say) -> None:
    """The threads can copy the tiles of A, B and the output in whole rows."""
    schedule = spec.schedule
    if not is_sound(spec) or schedule.mma.atom_layout is None:
        return
    threads = threads_of(schedule)
    for tensor, modes in _moved(spec):
        if schedule.copies.get(tensor.name) is not None and schedule.copies[tensor.name].bits is not None:
            continue
        block, other = (tile_of(schedule, mode) for mode in modes)
        plain = (written("leave `atom_layout` out"), changed(spec, {"mma.atom_layout": None}))
        say(
            f"no way was found for {threads} threads to copy {tensor.name}'s tile of {block} x {other}",
            *first_written(spec, ("schedule", "mma", "atom_layout"), ("schedule", "tiler")),
            notes=(f"{block} * {other} = {block * other} elements do not deal out to {threads} threads row by row",),
            help=partial(first_that_works, say.code, [plain]),
        )


def access(spec: Spec, say: Say) -> None:
    """`bits` is the width of one access: at least an element, at most 128 bits."""
    for tensor, _ in _moved(spec):
        bits = spec.schedule.copies[tensor.name].bits
        assert bits is not None
        help = partial(_better_bits, spec, tensor, say.code)
        accesses.access(say, tensor, bits, _path(tensor.name, "bits"), help)


def run(spec: Spec, say: Say) -> None:
    """All threads take accesses of one width, which deal a tile out in whole rows."""
    for tensor, modes in _moved(spec):
        vector = vector_of(spec.schedule.copies[tensor.name], tensor)
        block, other = (tile_of(spec.schedule, mode) for mode in modes)
        threads = threads_of(spec.schedule)
        if copy_layouts(threads, (block, other), vector, tensor.major == modes[1]) is None:
            say(
                f"accesses of {vector} elements of {tensor.name} along {tensor.major} do not deal its tile of "
                f"{block} x {other} out to {threads} threads",
                *_path(tensor.name, "bits"),
                help=partial(_better_bits, spec, tensor, say.code),
            )


def aligned(spec: Spec, say: Say) -> None:
    """Every access is aligned to its own width, which is what a tensor's `align` promises."""
    for tensor, _ in _moved(spec):
        vector, help = (
            vector_of(spec.schedule.copies[tensor.name], tensor),
            partial(_better_bits, spec, tensor, say.code),
        )
        accesses.aligned(spec, say, tensor, vector, _path(tensor.name, "bits"), help)


def atom(spec: Spec, say: Say) -> None:
    """The output is stored from registers: its atom is `universal`."""
    copy = spec.schedule.copies[spec.output.name]
    if copy.atom != "universal":
        notes = ("it copies from global to shared memory, and the output goes the other way",)
        message = f"`{copy.atom}` cannot store {spec.output.name}"
        say(message, *_path(spec.output.name, "atom"), notes=notes, help="write `atom: universal`")


def cp_async_bytes(spec: Spec, say: Say) -> None:
    """cp.async moves 4, 8 or 16 bytes."""
    a, b, *_ = product_of(spec)
    for tensor in (a, b):
        copy = spec.schedule.copies[tensor.name]
        if copy.atom == "cp_async" and copy.bits not in CP_ASYNC_BITS:
            assert copy.bits is not None
            trials: list[Candidate] = [
                (written(f"write `bits: {bits}`"), _with(spec, tensor, bits=bits))
                for bits in nearest_first(CP_ASYNC_BITS, copy.bits)
            ]
            trials.append((written("write `atom: universal`"), _with(spec, tensor, atom="universal")))
            say(
                f"cp.async cannot move {copy.bits // 8} byte{'s' * (copy.bits != 8)}",
                *first_written(spec, _path(tensor.name, "bits"), _path(tensor.name, "atom")),
                notes=(f"{copy.bits} bits / 8 = {copy.bits // 8}; there are 4, 8 and 16",),
                help=partial(first_that_works, say.code, trials),
            )


def unused(spec: Spec, say: Say) -> None:
    """`copies` holds the operands and the output."""
    known = [tensor.name for tensor, _ in _moved(spec)]
    for name in spec.schedule.copies:
        if name not in known:
            message = f"`{name}` moves as the output `{spec.output.name}` does: its copy would have no effect"
            say(message, "schedule", "copies", name, help=f"remove `{name}` from copies")
