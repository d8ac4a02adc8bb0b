"""Rules about how a gemm's tensors move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from tensor_layouts import size

from cutegen.language.model import Copy, GemmSchedule, KernelSpec, Path, Tensor
from cutegen.lint.rule import Say
from cutegen.lint.trial import (
    Candidate,
    changed,
    changed_copy,
    changed_tiler,
    first_that_works,
    first_written,
    say_layout,
    written,
)
from cutegen.planning import gemm, layouts
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES, deals_out
from cutegen.planning.targets import MAX_VECTOR_BITS, TARGETS

CP_ASYNC_BITS = (32, 64, 128)
BANKS = 128  # bytes: the width of shared memory


def _schedule(spec: KernelSpec) -> GemmSchedule:
    assert isinstance(spec.schedule, GemmSchedule)
    return spec.schedule


def _operands(spec: KernelSpec) -> Iterator[tuple[Tensor, str, Copy]]:
    """A and B, each with its own mode and its copy."""
    a, b, m, n, _ = gemm.names(spec)
    for tensor, mode in ((a, m), (b, n)):
        yield tensor, mode, _schedule(spec).copies[tensor.name]


def _where(tensor: Tensor, *field: str) -> Path:
    return ("schedule", "copies", tensor.name, *field)


def _well_formed(copy: Copy) -> bool:
    """Whether the two layouts can be combined; the rules on ranks and coverage say it where they cannot."""
    threads, values = copy.thread_layout, copy.value_layout
    if threads is None or values is None or {len(layouts.modes_of(x)) for x in (threads, values)} != {2}:
        return False
    return deals_out(threads, MAX_THREADS) and deals_out(values, MAX_VALUES)


def _better_bits(spec: KernelSpec, tensor: Tensor, code: str) -> str | None:
    def text(resolved: KernelSpec) -> str:
        return f"write `bits: {_schedule(resolved).copies[tensor.name].bits}`"

    def text_and_atom(resolved: KernelSpec) -> str:
        copy = _schedule(resolved).copies[tensor.name]
        return f"write `atom: {copy.atom}, bits: {copy.bits}`"

    trials: list[Candidate] = [
        (text, changed_copy(spec, tensor.name, bits=None)),
        (text_and_atom, changed_copy(spec, tensor.name, bits=None, atom=None)),
        *((text, changed_copy(spec, tensor.name, bits=bits)) for bits in (128, 64, 32, 16)),
    ]
    return first_that_works(code, trials)


def _better_layouts(spec: KernelSpec, tensor: Tensor, code: str) -> str | None:
    def text(resolved: KernelSpec) -> str:
        layout = _schedule(resolved).copies[tensor.name].thread_layout
        assert layout is not None
        return say_layout("thread_layout", layout)

    def both(resolved: KernelSpec) -> str:
        copy = _schedule(resolved).copies[tensor.name]
        assert copy.value_layout is not None
        return f"{text(resolved)} and {say_layout('value_layout', copy.value_layout).removeprefix('write ')}"

    trials: list[Candidate] = [
        (text, changed_copy(spec, tensor.name, thread_layout=None)),
        (both, changed_copy(spec, tensor.name, thread_layout=None, value_layout=None)),
        (both, changed_copy(spec, tensor.name, thread_layout=None, value_layout=None, bits=None, atom=None)),
    ]
    return first_that_works(code, trials)


def threads_agree(spec: KernelSpec, say: Say) -> None:
    """The same threads copy and multiply, so every copy's thread layout has as many threads as the mma's.

    With more, the surplus part of the tile is never copied; with fewer, the surplus threads copy outside of it.
    """
    wanted = gemm.threads_of(_schedule(spec))
    for tensor, _, copy in _operands(spec):
        if copy.thread_layout is not None and int(size(copy.thread_layout)) != wanted:
            found = int(size(copy.thread_layout))
            say(
                f"{tensor.name} is copied by {found} threads, and the mma has {wanted}",
                *_where(tensor, "thread_layout"),
                notes=(f"{' * '.join(map(str, layouts.mode_sizes(copy.thread_layout)))} = {found} != {wanted}",),
                help=partial(_better_layouts, spec, tensor, say.code),
            )


def copy_divides(spec: KernelSpec, say: Say) -> None:
    """Threads times values of a copy divide the tile, mode by mode.

    Together they cover a part of the tile, which CuTe repeats. Where it does not divide the tile, the last repetition
    reaches past it: into another stage of shared memory, and past the tensor's predicated rows in global memory.
    """
    schedule, k = _schedule(spec), gemm.names(spec)[4]
    for tensor, own, copy in _operands(spec):
        if not _well_formed(copy) or copy.thread_layout is None or copy.value_layout is None:
            continue
        sizes = zip(layouts.mode_sizes(copy.thread_layout), layouts.mode_sizes(copy.value_layout), strict=True)
        notes, whole = [], {}
        for mode, (threads, values) in zip((own, k), sizes, strict=True):
            extent, covered = gemm.tile_of(schedule, mode), threads * values
            if extent % covered:
                whole[mode] = max(1, round(extent / covered)) * covered
                notes.append(f"{mode}: {threads} threads * {values} values = {covered} does not divide {extent}")
        if notes:
            say(
                f"the copy of {tensor.name} does not divide its tile",
                *first_written(spec, _where(tensor, "thread_layout"), _where(tensor, "value_layout")),
                notes=tuple(notes),
                help=partial(_divided, spec, tensor, whole, say.code),
            )


def _divided(spec: KernelSpec, tensor: Tensor, whole: Mapping[str, int], code: str) -> str | None:
    """Other layouts, where some deal the tile out; else a tile that those which were written do deal out."""
    extents = ", ".join(f"{mode}: {extent}" for mode, extent in whole.items())
    candidate = (written(f"take {extents} in the tiler"), changed_tiler(spec, **whole))
    return _better_layouts(spec, tensor, code) or first_that_works(code, [candidate])


def access(spec: KernelSpec, say: Say) -> None:
    """`bits` is the width of one access: at least an element, at most 128 bits.

    The epilogue's other tensors move as many elements at a time as the output does, or fewer where 128 bits or their
    alignment allow only that.
    """
    output = spec.output
    for tensor in (*(t for t, _, _ in _operands(spec)), output):
        bits = _schedule(spec).copies[tensor.name].bits
        assert bits is not None
        if bits < tensor.dtype.bits:
            message = f"an access of {bits} bits is narrower than an element of {tensor.name}"
            notes = (f"{tensor.dtype.value} has {tensor.dtype.bits} bits",)
        elif bits > MAX_VECTOR_BITS or bits & (bits - 1):
            message, notes = f"no instruction moves {bits} bits", ("there are 8, 16, 32, 64 and 128",)
        else:
            continue
        path = _where(tensor, "bits")
        say(message, *path, notes=notes, help=partial(_better_bits, spec, tensor, say.code))


def run(spec: KernelSpec, say: Say) -> None:
    """One access moves neighbours in memory, so a thread must own that many in a row along the contiguous mode.

    For A and B the run is what the copy's value layout gives a thread next to each other, in its order of values. For
    the output it is what the mma's permutation gives a thread: with `(16,4):(4,1)` each thread has 4 neighbours.
    """
    schedule, k = _schedule(spec), gemm.names(spec)[4]
    for tensor, mode, copy in _operands(spec):
        vector = gemm.operand_vector(copy, tensor)
        if tensor.major == k or not _well_formed(copy):
            continue
        found = gemm.copy_run(copy)
        if found % vector:
            say(
                f"an access of {vector} elements of {tensor.name}, and a thread has {found} in a row along {mode}",
                *first_written(spec, _where(tensor, "bits"), _where(tensor, "value_layout")),
                notes=(f"{copy.bits} bits / {tensor.dtype.bits} bits = {vector} elements",),
                help=partial(_better_bits, spec, tensor, say.code),
            )
    output, vector = spec.output, gemm.epilogue_vector(spec)
    side = int(output.major != gemm.names(spec)[2])
    assert output.major is not None
    extent, places = gemm.tile_of(schedule, output.major), int(size(schedule.mma.permutation[output.major]))
    assert schedule.mma.thread_layout is not None
    if extent % places or places % layouts.mode_sizes(schedule.mma.thread_layout)[side]:
        return
    found = layouts.unit_stride_run(gemm.fragment(schedule, output.major, side)[1])
    if found % vector:
        say(
            f"an access of {vector} elements of {output.name}, and a thread has {found} in a row along {output.major}",
            *_where(output, "bits"),
            notes=(
                f"{schedule.copies[output.name].bits} bits / {output.dtype.bits} bits = {vector} elements",
                f"the mma's permutation of {output.major} gives a thread {found}",
            ),
            help=partial(_better_bits, spec, output, say.code),
        )


def aligned(spec: KernelSpec, say: Say) -> None:
    """Every access must be aligned to its own width, which is what a tensor's `align` promises.

    If `align` is less, a slice of a larger tensor may start in the middle of an access: a misaligned address ends the
    launch. Promise more with `align:` (checked at every call), or take fewer bits.
    """
    k = gemm.names(spec)[4]
    moved = [(t, t, gemm.operand_vector(copy, t)) for t, _, copy in _operands(spec) if t.major != k]
    moved.append((spec.output, spec.output, gemm.epilogue_vector(spec)))
    for tensor, owner, vector in moved:
        need = vector * tensor.dtype.bytes
        if need > (tensor.align or 1):
            say(
                f"an access of {vector} elements of {tensor.name} needs {need} bytes of alignment, and it has "
                f"{tensor.align}",
                *first_written(spec, _where(owner, "bits"), ("tensors", tensor.name, "align")),
                notes=(f"{vector} * {tensor.dtype.bytes} bytes = {need} > {tensor.align}",),
                help=partial(_better_bits, spec, owner, say.code),
            )


def scattered(spec: KernelSpec, say: Say) -> None:
    """A k-major operand is copied one element at a time.

    Shared memory is m-major (n-major for B), which is how the mma reads it. Neighbours along k are neighbours in global
    memory but not there, and a copy has one width for both sides. Padding keeps those single writes free of bank
    conflicts.
    """
    k = gemm.names(spec)[4]
    for tensor, mode, copy in _operands(spec):
        vector = gemm.operand_vector(copy, tensor)
        if tensor.major == k and vector > 1:
            say(
                f"{tensor.name} is {k}-major, and {vector} neighbours along {k} are not neighbours in shared memory",
                *_where(tensor, "bits"),
                notes=(
                    f"{copy.bits} bits / {tensor.dtype.bits} bits = {vector} elements",
                    f"in shared memory, which is {mode}-major, neighbours along {k} are "
                    f"{_stride(spec, tensor, mode)} elements apart",
                ),
                help=partial(_better_bits, spec, tensor, say.code),
            )


def _stride(spec: KernelSpec, tensor: Tensor, mode: str) -> int:
    return gemm.tile_of(_schedule(spec), mode) + _schedule(spec).smem_pad[tensor.name]


def cp_async_bytes(spec: KernelSpec, say: Say) -> None:
    """cp.async moves 4, 8 or 16 bytes.

    The instruction has no other sizes. Single elements of a 2-byte type go through registers with `universal`.
    """
    for tensor, _, copy in _operands(spec):
        if copy.atom == "cp_async" and copy.bits not in CP_ASYNC_BITS:
            assert copy.bits is not None

            def help(tensor: Tensor = tensor) -> str | None:
                wider: list[Candidate] = [
                    (written(f"write `bits: {bits}`"), changed_copy(spec, tensor.name, bits=bits))
                    for bits in reversed(CP_ASYNC_BITS)
                ]
                universal = (written("write `atom: universal`"), changed_copy(spec, tensor.name, atom="universal"))
                return first_that_works(say.code, [*wider, universal])

            say(
                f"cp.async cannot move {copy.bits // 8} byte{'s' * (copy.bits != 8)}",
                *first_written(spec, _where(tensor, "bits"), _where(tensor, "atom")),
                notes=(f"{copy.bits} bits / 8 = {copy.bits // 8}; there are 4, 8 and 16",),
                help=help,
            )


def atom(spec: KernelSpec, say: Say) -> None:
    """The output is stored from registers: its atom is `universal`. `cp_async` only copies to shared memory."""
    copy = _schedule(spec).copies[spec.output.name]
    if copy.atom != "universal":
        notes = ("it copies from global to shared memory, and the output goes the other way",)
        message = f"`{copy.atom}` cannot store {spec.output.name}"
        say(message, *_where(spec.output, "atom"), notes=notes, help="write `atom: universal`")


def padding_aligned(spec: KernelSpec, say: Say) -> None:
    """Every column of shared memory starts where an access can: tile plus padding is a multiple of the access.

    A copy writes shared memory with the same width that it reads global memory with. Padding by 1 element moves every
    second column off a 16-byte boundary, and the first wide store there ends the launch.
    """
    schedule = _schedule(spec)
    for tensor, mode, copy in _operands(spec):
        vector, pad = gemm.operand_vector(copy, tensor), schedule.smem_pad[tensor.name]
        column, size_ = gemm.tile_of(schedule, mode) + pad, tensor.dtype.bytes
        if column * size_ % (vector * size_) == 0:
            continue

        def help(tensor: Tensor = tensor, pad: int = pad, vector: int = vector) -> str | None:
            near = [-(-pad // vector) * vector, pad // vector * vector, 0]
            trials: list[Candidate] = []
            for value in near:
                pads = {**_written_pads(spec), tensor.name: value}
                trials.append((written(f"write `pad: {value}`"), changed(spec, smem_pad=pads)))
            return first_that_works(say.code, trials)

        say(
            f"with a padding of {pad} the columns of {tensor.name} are not aligned to an access of {vector} elements",
            *("schedule", "smem", tensor.name, "pad"),
            notes=(
                f"({column - pad} + {pad}) * {size_} bytes = {column * size_}, "
                f"which {vector} * {size_} = {vector * size_} does not divide",
            ),
            help=help,
        )


def _written_pads(spec: KernelSpec) -> dict[str, int]:
    pads = _schedule(spec).smem_pad
    return {t: pad for t, pad in pads.items() if ("schedule", "smem", t, "pad") in spec.source.values}


def padding_wasted(spec: KernelSpec, say: Say) -> None:
    """Padding of a whole row of banks, 128 bytes, changes nothing but the memory that is used.

    Which bank a column starts in follows from its start modulo 128 bytes, so only the rest of the padding spreads
    columns over the banks. It works, so this is a warning.
    """
    for tensor, _, _ in _operands(spec):
        pad, row = _schedule(spec).smem_pad[tensor.name], BANKS // tensor.dtype.bytes
        if pad >= row:
            say(
                f"a padding of {pad} elements of {tensor.name} spreads columns no better than {pad % row}",
                *("schedule", "smem", tensor.name, "pad"),
                notes=(f"{pad} = {pad // row} * {row} + {pad % row}, and {row} elements are all banks once",),
                help=f"write `pad: {pad % row}`",
            )


def unused(spec: KernelSpec, say: Say) -> None:
    """`copies` holds the operands and the output, and layouts only for the operands.

    The other tensors of an epilogue move as the output does, and the output is dealt out by the mma. Anything else
    written there would have no effect.
    """
    a, b, *_ = gemm.names(spec)
    output = spec.output
    for name, copy in _schedule(spec).copies.items():
        if name not in (a.name, b.name, output.name):
            message = f"`{name}` moves as the output `{output.name}` does: its copy would have no effect"
            say(message, "schedule", "copies", name, help=f"remove `{name}` from copies")
        elif name == output.name:
            for field in ("thread_layout", "value_layout"):
                if getattr(copy, field) is not None:
                    message = f"`{field}` has no effect on `{name}`: the mma deals it out"
                    say(message, "schedule", "copies", name, field, help=f"remove `{field}`")


def targets(spec: KernelSpec, say: Say) -> None:
    """Every target has every atom that the kernel uses.

    `cp_async` came with Ampere, sm_80; the compiler refuses it for anything older.
    """
    schedule = _schedule(spec)
    used: dict[str, Path] = {str(schedule.mma.atom): ("schedule", "mma", "atom")}
    for tensor in (*(t for t, _, _ in _operands(spec)), spec.output):
        used.setdefault(str(schedule.copies[tensor.name].atom), ("schedule", "copies", tensor.name, "atom"))
    for i, target in enumerate(spec.targets):
        known = TARGETS[target].atoms
        for found in sorted(set(used) - known):
            message = f"{target} has no `{found}`"
            notes = (f"it is used at {'.'.join(map(str, used[found]))}", f"{target} has {', '.join(sorted(known))}")
            say(message, "targets", i, notes=notes, help=f"remove `{target}`, or use another atom")
