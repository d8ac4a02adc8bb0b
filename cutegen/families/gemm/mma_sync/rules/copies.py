"""Rules about how tensors move: the atom, the width and the alignment of an access."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.families.common.dealing import copy_layouts
from cutegen.families.gemm.mma_sync.product import is_sound, threads_of
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.staged.rules.copies import copy_path, with_bits, with_copy
from cutegen.families.gemm.words import tile_of, vector_of
from cutegen.language.model import Tensor
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, first_written, written


def _moved(spec: Spec) -> Iterator[tuple[Tensor, tuple[str, str]]]:
    """A, B and the output, each with its modes."""
    a, b, m, n, k = product_of(spec)
    yield from ((a, (m, k)), (b, (n, k)), (spec.lead, (m, n)))


def better_bits(spec: Spec, tensor: Tensor, code: str) -> str | None:
    """A width of a tensor's accesses that works, in words."""
    given = spec.schedule.copies[tensor.name].bits or MAX_VECTOR_BITS
    plain = written("leave `bits` and `atom` out"), with_copy(spec, tensor, bits=None, atom=None)
    return first_that_works(code, [*with_bits(spec, tensor, (128, 64, 32, 16), given), plain])


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
            notes=(
                f"{block} * {other} = {block * other} elements do not divide evenly among {threads} threads row by row",
            ),
            help=partial(first_that_works, say.code, [plain]),
        )


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
                *copy_path(tensor.name, "bits"),
                help=partial(better_bits, spec, tensor, say.code),
            )
