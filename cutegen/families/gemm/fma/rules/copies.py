"""Rules about how tensors move: the atom, the width and the alignment of an access."""

from __future__ import annotations

from functools import partial

from tensor_layouts import size

from cutegen import layouts
from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.product import well_formed
from cutegen.families.gemm.staged.rules.copies import copy_path, operands, with_bits, with_copy
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.staged.shared_memory import column_stride
from cutegen.families.gemm.words import tile_of, vector_of
from cutegen.language.model import Tensor
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import first_that_works, first_written, written


def better_bits(spec: Spec, tensor: Tensor, code: str) -> str | None:
    """A width of a tensor's accesses that works, in words."""

    def text(resolved: Spec) -> str:
        return f"write `bits: {resolved.schedule.copies[tensor.name].bits}`"

    def text_and_atom(resolved: Spec) -> str:
        copy = resolved.schedule.copies[tensor.name]
        return f"write `atom: {copy.atom}, bits: {copy.bits}`"

    given = spec.schedule.copies[tensor.name].bits or MAX_VECTOR_BITS
    trials: list[Candidate] = [
        *((text, trial) for _, trial in with_bits(spec, tensor, (128, 64, 32, 16), given)),
        (text, with_copy(spec, tensor, bits=None)),
        (text_and_atom, with_copy(spec, tensor, bits=None, atom=None)),
    ]
    return first_that_works(code, trials)


def run(spec: Spec, say: Say) -> None:
    """One access moves neighbours in memory, so a thread must own that many in a row along the contiguous mode."""
    schedule, k = spec.schedule, gemm.product_of(spec).k
    for tensor, mode, copy in operands(spec):
        vector = vector_of(copy, tensor)
        along_k = tensor.major == k
        if (along_k and copy.atom == "cp_async") or not well_formed(copy):
            continue
        found = gemm.copy_run(copy, int(along_k))
        if found % vector:
            say(
                f"an access has {vector} elements of {tensor.name}, and a thread has {found} neighbours along "
                f"{k if along_k else mode}",
                *first_written(spec, copy_path(tensor.name, "bits"), copy_path(tensor.name, "value_layout")),
                notes=(f"{copy.bits} bits / {tensor.dtype.bits} bits = {vector} elements",),
                help=partial(better_bits, spec, tensor, say.code),
            )
    output, vector = spec.output, vector_of(spec.schedule.copies[spec.output.name], spec.output)
    side = int(output.major != gemm.product_of(spec).m)
    assert output.major is not None
    extent, places = tile_of(schedule, output.major), int(size(schedule.mma.permutation[output.major]))
    assert schedule.mma.thread_layout is not None
    if extent % places or places % layouts.mode_sizes(schedule.mma.thread_layout)[side]:
        return
    found = layouts.unit_stride_run(gemm.fragment(schedule, output.major, side)[1])
    if found % vector:
        say(
            f"an access has {vector} elements of {output.name}, and a thread has {found} neighbours along "
            f"{output.major}",
            *copy_path(output.name, "bits"),
            notes=(
                f"{schedule.copies[output.name].bits} bits / {output.dtype.bits} bits = {vector} elements",
                f"the mma's permutation of {output.major} gives a thread {found}",
            ),
            help=partial(better_bits, spec, output, say.code),
        )


def scattered(spec: Spec, say: Say) -> None:
    """cp.async copies a k-major operand one element at a time: shared memory is m-major, or n-major for B."""
    k = gemm.product_of(spec).k
    for tensor, mode, copy in operands(spec):
        vector = vector_of(copy, tensor)
        if tensor.major == k and vector > 1 and copy.atom == "cp_async":

            def help(tensor: Tensor = tensor) -> str | None:
                universal = (written("write `atom: universal`"), with_copy(spec, tensor, atom="universal"))
                return first_that_works(say.code, [universal]) or better_bits(spec, tensor, say.code)

            say(
                f"{tensor.name} is {k}-major, and {vector} neighbours along {k} are not neighbours in shared memory",
                *copy_path(tensor.name, "bits"),
                notes=(
                    f"{copy.bits} bits / {tensor.dtype.bits} bits = {vector} elements",
                    f"in shared memory, which is {mode}-major, neighbours along {k} are "
                    f"{column_stride(spec.schedule, tensor, mode)} elements apart",
                ),
                help=help,
            )
