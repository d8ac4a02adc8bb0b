"""Rules about how tensors move: the atom, the width and the alignment of an access."""

from __future__ import annotations

from functools import partial

from tensor_layouts import size

from cutegen import layouts
from cutegen.atoms.copies import ATOMS
from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.families.common.rules import accesses
from cutegen.families.gemm.fma.rules.operands import copy_path, operands, well_formed, with_copy
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.staged.shared_memory import column_stride
from cutegen.language.model import Tensor
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import first_that_works, first_written, nearest_first, written

CP_ASYNC_BITS = ATOMS["cp_async"].bits


def _better_bits(spec: Spec, tensor: Tensor, code: str) -> str | None:
    def text(resolved: Spec) -> str:
        return f"write `bits: {resolved.schedule.copies[tensor.name].bits}`"

    def text_and_atom(resolved: Spec) -> str:
        copy = resolved.schedule.copies[tensor.name]
        return f"write `atom: {copy.atom}, bits: {copy.bits}`"

    given = spec.schedule.copies[tensor.name].bits or MAX_VECTOR_BITS
    trials: list[Candidate] = [
        *((text, with_copy(spec, tensor, bits=bits)) for bits in nearest_first((128, 64, 32, 16), given)),
        (text, with_copy(spec, tensor, bits=None)),
        (text_and_atom, with_copy(spec, tensor, bits=None, atom=None)),
    ]
    return first_that_works(code, trials)


def access(spec: Spec, say: Say) -> None:
    """`bits` is the width of one access: at least an element, at most 128 bits."""
    for tensor in (*(t for t, _, _ in operands(spec)), spec.output):
        bits = spec.schedule.copies[tensor.name].bits
        assert bits is not None
        help = partial(_better_bits, spec, tensor, say.code)
        accesses.access(say, tensor, bits, copy_path(tensor.name, "bits"), help)


def run(spec: Spec, say: Say) -> None:
    """One access moves neighbours in memory, so a thread must own that many in a row along the contiguous mode."""
    schedule, k = spec.schedule, gemm.product_of(spec).k
    for tensor, mode, copy in operands(spec):
        vector = gemm.operand_vector(copy, tensor)
        along_k = tensor.major == k
        if (along_k and copy.atom == "cp_async") or not well_formed(copy):
            continue
        found = gemm.copy_run(copy, int(along_k))
        if found % vector:
            say(
                f"an access of {vector} elements of {tensor.name}, and a thread has {found} in a row along "
                f"{k if along_k else mode}",
                *first_written(spec, copy_path(tensor.name, "bits"), copy_path(tensor.name, "value_layout")),
                notes=(f"{copy.bits} bits / {tensor.dtype.bits} bits = {vector} elements",),
                help=partial(_better_bits, spec, tensor, say.code),
            )
    output, vector = spec.output, gemm.epilogue_vector(spec)
    side = int(output.major != gemm.product_of(spec).m)
    assert output.major is not None
    extent, places = gemm.tile_of(schedule, output.major), int(size(schedule.mma.permutation[output.major]))
    assert schedule.mma.thread_layout is not None
    if extent % places or places % layouts.mode_sizes(schedule.mma.thread_layout)[side]:
        return
    found = layouts.unit_stride_run(gemm.fragment(schedule, output.major, side)[1])
    if found % vector:
        say(
            f"an access of {vector} elements of {output.name}, and a thread has {found} in a row along {output.major}",
            *copy_path(output.name, "bits"),
            notes=(
                f"{schedule.copies[output.name].bits} bits / {output.dtype.bits} bits = {vector} elements",
                f"the mma's permutation of {output.major} gives a thread {found}",
            ),
            help=partial(_better_bits, spec, output, say.code),
        )


def aligned(spec: Spec, say: Say) -> None:
    """Every access is aligned to its own width, which is what a tensor's `align` promises."""
    moved = [(tensor, gemm.operand_vector(copy, tensor)) for tensor, _, copy in operands(spec)]
    for tensor, vector in (*moved, (spec.output, gemm.epilogue_vector(spec))):
        help = partial(_better_bits, spec, tensor, say.code)
        accesses.aligned(spec, say, tensor, vector, copy_path(tensor.name, "bits"), help)


def scattered(spec: Spec, say: Say) -> None:
    """cp.async copies a k-major operand one element at a time: shared memory is m-major, or n-major for B."""
    k = gemm.product_of(spec).k
    for tensor, mode, copy in operands(spec):
        vector = gemm.operand_vector(copy, tensor)
        if tensor.major == k and vector > 1 and copy.atom == "cp_async":

            def help(tensor: Tensor = tensor) -> str | None:
                universal = (written("write `atom: universal`"), with_copy(spec, tensor, atom="universal"))
                return first_that_works(say.code, [universal]) or _better_bits(spec, tensor, say.code)

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


def cp_async_bytes(spec: Spec, say: Say) -> None:
    """cp.async moves 4, 8 or 16 bytes."""
    for tensor, _, copy in operands(spec):
        if copy.atom == "cp_async" and copy.bits not in CP_ASYNC_BITS:
            assert copy.bits is not None

            def help(tensor: Tensor = tensor, given: int = copy.bits) -> str | None:
                wider: list[Candidate] = [
                    (written(f"write `bits: {bits}`"), with_copy(spec, tensor, bits=bits))
                    for bits in nearest_first(CP_ASYNC_BITS, given)
                ]
                universal = (written("write `atom: universal`"), with_copy(spec, tensor, atom="universal"))
                return first_that_works(say.code, [*wider, universal])

            say(
                f"cp.async cannot move {copy.bits // 8} byte{'s' * (copy.bits != 8)}",
                *first_written(spec, copy_path(tensor.name, "bits"), copy_path(tensor.name, "atom")),
                notes=(f"{copy.bits} bits / 8 = {copy.bits // 8}; there are 4, 8 and 16",),
                help=help,
            )


def atom(spec: Spec, say: Say) -> None:
    """The output is stored from registers: its atom is `universal`."""
    copy = spec.schedule.copies[spec.output.name]
    if copy.atom != "universal":
        notes = ("it copies from global to shared memory, and the output goes the other way",)
        message = f"`{copy.atom}` cannot store {spec.output.name}"
        say(message, *copy_path(spec.output.name, "atom"), notes=notes, help="write `atom: universal`")


def unused(spec: Spec, say: Say) -> None:
    """`copies` holds the operands and the output, and layouts only for the operands."""
    a, b, *_ = gemm.product_of(spec)
    output = spec.output
    for name, copy in spec.schedule.copies.items():
        if name not in (a.name, b.name, output.name):
            message = f"`{name}` moves as the output `{output.name}` does: its copy would have no effect"
            say(message, "schedule", "copies", name, help=f"remove `{name}` from copies")
        elif name == output.name:
            for field in ("thread_layout", "value_layout"):
                if getattr(copy, field) is not None:
                    message = f"`{field}` has no effect on `{name}`: the mma deals it out"
                    say(message, "schedule", "copies", name, field, help=f"remove `{field}`")
