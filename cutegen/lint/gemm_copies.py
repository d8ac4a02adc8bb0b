"""Rules about how a gemm's tensors move."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tensor_layouts import Layout, LayoutError, compose, size

from cutegen.analysis.partitions import pair, positions, tiled_write
from cutegen.language.layouts import format_layout
from cutegen.language.model import KernelSpec, Tensor
from cutegen.lint.gemm_dealing import operands, schedule_of, well_formed, where
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import (
    changed,
    changed_copy,
    first_that_works,
    first_written,
    written,
)
from cutegen.planning import gemm, gemm_plan, layouts
from cutegen.planning.sound import MAX_EXTENT
from cutegen.planning.targets import BANK_BYTES, BANKS, MAX_VECTOR_BITS

CP_ASYNC_BITS = (32, 64, 128)


def _better_bits(spec: KernelSpec, tensor: Tensor, code: str) -> str | None:
    def text(resolved: KernelSpec) -> str:
        return f"write `bits: {schedule_of(resolved).copies[tensor.name].bits}`"

    def text_and_atom(resolved: KernelSpec) -> str:
        copy = schedule_of(resolved).copies[tensor.name]
        return f"write `atom: {copy.atom}, bits: {copy.bits}`"

    trials: list[Candidate] = [
        (text, changed_copy(spec, tensor.name, bits=None)),
        (text_and_atom, changed_copy(spec, tensor.name, bits=None, atom=None)),
        *((text, changed_copy(spec, tensor.name, bits=bits)) for bits in (128, 64, 32, 16)),
    ]
    return first_that_works(code, trials)


def access(spec: KernelSpec, say: Say) -> None:
    """`bits` is the width of one access: at least an element, at most 128 bits."""
    output = spec.output
    for tensor in (*(t for t, _, _ in operands(spec)), output):
        bits = schedule_of(spec).copies[tensor.name].bits
        assert bits is not None
        if bits < tensor.dtype.bits:
            message = f"an access of {bits} bits is narrower than an element of {tensor.name}"
            notes = (f"{tensor.dtype.value} has {tensor.dtype.bits} bits",)
        elif bits > MAX_VECTOR_BITS or bits & (bits - 1):
            message, notes = f"no instruction moves {bits} bits", ("there are 8, 16, 32, 64 and 128",)
        else:
            continue
        path = where(tensor, "bits")
        say(message, *path, notes=notes, help=partial(_better_bits, spec, tensor, say.code))


def run(spec: KernelSpec, say: Say) -> None:
    """One access moves neighbours in memory, so a thread must own that many in a row along the contiguous mode."""
    schedule, k = schedule_of(spec), gemm.names(spec)[4]
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
                *first_written(spec, where(tensor, "bits"), where(tensor, "value_layout")),
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
            *where(output, "bits"),
            notes=(
                f"{schedule.copies[output.name].bits} bits / {output.dtype.bits} bits = {vector} elements",
                f"the mma's permutation of {output.major} gives a thread {found}",
            ),
            help=partial(_better_bits, spec, output, say.code),
        )


def aligned(spec: KernelSpec, say: Say) -> None:
    """Every access is aligned to its own width, which is what a tensor's `align` promises."""
    moved = [(t, t, gemm.operand_vector(copy, t)) for t, _, copy in operands(spec)]
    moved.append((spec.output, spec.output, gemm.epilogue_vector(spec)))
    for tensor, owner, vector in moved:
        need = vector * tensor.dtype.bytes
        if need > (tensor.align or 1):
            say(
                f"an access of {vector} elements of {tensor.name} needs {need} bytes of alignment, and it has "
                f"{tensor.align}",
                *first_written(spec, where(owner, "bits"), ("tensors", tensor.name, "align")),
                notes=(f"{vector} * {tensor.dtype.bytes} bytes = {need} > {tensor.align}",),
                help=partial(_better_bits, spec, owner, say.code),
            )


def scattered(spec: KernelSpec, say: Say) -> None:
    """cp.async copies a k-major operand one element at a time: shared memory is m-major, or n-major for B."""
    k = gemm.names(spec)[4]
    for tensor, mode, copy in operands(spec):
        vector = gemm.operand_vector(copy, tensor)
        if tensor.major == k and vector > 1 and copy.atom == "cp_async":

            def help(tensor: Tensor = tensor) -> str | None:
                universal = (written("write `atom: universal`"), changed_copy(spec, tensor.name, atom="universal"))
                return first_that_works(say.code, [universal]) or _better_bits(spec, tensor, say.code)

            say(
                f"{tensor.name} is {k}-major, and {vector} neighbours along {k} are not neighbours in shared memory",
                *where(tensor, "bits"),
                notes=(
                    f"{copy.bits} bits / {tensor.dtype.bits} bits = {vector} elements",
                    f"in shared memory, which is {mode}-major, neighbours along {k} are "
                    f"{_stride(spec, tensor, mode)} elements apart",
                ),
                help=help,
            )


def _stride(spec: KernelSpec, tensor: Tensor, mode: str) -> int:
    return gemm.tile_of(schedule_of(spec), mode) + schedule_of(spec).smem_pad[tensor.name]


def cp_async_bytes(spec: KernelSpec, say: Say) -> None:
    """cp.async moves 4, 8 or 16 bytes."""
    for tensor, _, copy in operands(spec):
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
                *first_written(spec, where(tensor, "bits"), where(tensor, "atom")),
                notes=(f"{copy.bits} bits / 8 = {copy.bits // 8}; there are 4, 8 and 16",),
                help=help,
            )


def atom(spec: KernelSpec, say: Say) -> None:
    """The output is stored from registers: its atom is `universal`."""
    copy = schedule_of(spec).copies[spec.output.name]
    if copy.atom != "universal":
        notes = ("it copies from global to shared memory, and the output goes the other way",)
        message = f"`{copy.atom}` cannot store {spec.output.name}"
        say(message, *where(spec.output, "atom"), notes=notes, help="write `atom: universal`")


def padding_aligned(spec: KernelSpec, say: Say) -> None:
    """Every column of shared memory starts where an access can: tile plus padding is a multiple of the access."""
    schedule = schedule_of(spec)
    for tensor, mode, copy in operands(spec):
        if tensor.major != mode and copy.atom == "universal":
            continue  # it writes one element at a time
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
    pads = schedule_of(spec).smem_pad
    return {t: pad for t, pad in pads.items() if ("schedule", "smem", t, "pad") in spec.source.values}


def columns(spec: KernelSpec, say: Say) -> None:
    """A layout of shared memory has as many places as the tile is long, and keeps accesses whole."""
    schedule, (a, b, m, n, _) = schedule_of(spec), gemm.names(spec)
    for tensor, mode in ((a, m), (b, n)):
        column, block = schedule.smem_layout.get(tensor.name), gemm.tile_of(schedule, mode)
        if column is None or block > MAX_EXTENT:  # the latter never fits shared memory, which is said already
            continue
        path, shown = ("schedule", "smem", tensor.name, "layout"), format_layout(column)
        if int(size(column)) != block:
            say(
                f"{shown} has {int(size(column))} coordinates, and the tile of {tensor.name} is {block} long",
                *path,
                notes=(f"it maps coordinates along {mode} to places in a column of shared memory",),
                help=partial(_other_column, spec, tensor, block, say.code),
            )
        elif (
            tensor.major == mode
            and (copy := schedule.copies.get(tensor.name))
            and copy.bits
            and copy.atom == "cp_async"
        ):
            vector = gemm.operand_vector(copy, tensor)
            if not layouts.keeps_runs(column, vector):
                say(
                    f"cp.async writes {vector} neighbours along {mode} at once, and {shown} parts them",
                    *path,
                    notes=(f"places of 0 to {vector - 1}: {', '.join(map(str, layouts.offsets(column)[:vector]))}",),
                    help=partial(_whole_in_column, spec, tensor, say.code),
                )


def _whole_in_column(spec: KernelSpec, tensor: Tensor, code: str) -> str | None:
    """A narrower cp.async that a column of shared memory keeps whole, or else a way through registers."""
    copies = f"copies: {{{tensor.name}: {{%s}}}}"
    trials: list[Candidate] = [
        (written(f"write `{copies % f'bits: {bits}'}`"), changed_copy(spec, tensor.name, bits=bits))
        for bits in (64, 32)
    ]
    universal = changed_copy(spec, tensor.name, atom="universal")
    return first_that_works(code, [*trials, (written(f"write `{copies % 'atom: universal'}`"), universal)])


def _other_column(spec: KernelSpec, tensor: Tensor, block: int, code: str) -> str | None:
    """The same column repeated along the tile, where it is too short; or none."""
    column, trials = schedule_of(spec).smem_layout[tensor.name], []
    places = int(size(column))
    if places < block and block % places == 0:
        modes = (*layouts.modes_of(column), Layout(block // places, places))
        longer = Layout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))
        columns = {**_written_columns(spec), tensor.name: longer}
        trials.append((written(f'write `layout: "{format_layout(longer)}"`'), changed(spec, smem_layout=columns)))
    return first_that_works(code, [*trials, _without_column(spec, tensor)])


def _without_column(spec: KernelSpec, tensor: Tensor) -> Candidate:
    others = {name: layout for name, layout in _written_columns(spec).items() if name != tensor.name}
    return written(f"remove `layout` of {tensor.name}"), changed(spec, smem_layout=others)


def _written_columns(spec: KernelSpec) -> dict[str, Layout]:
    columns = schedule_of(spec).smem_layout
    return {t: x for t, x in columns.items() if ("schedule", "smem", t, "layout") in spec.source.values}


def dealt_columns(spec: KernelSpec, say: Say) -> None:
    """What a thread writes and reads of a column is a layout of places: threads and modes divide each other."""
    schedule = schedule_of(spec)
    if say.report.failed or not schedule.smem_layout:
        return  # without a plan nobody knows what threads have
    plan = gemm_plan.plan(replace(spec, schedule=replace(schedule, smem_layout={})))
    for side, x in enumerate((plan.a, plan.b)):
        column, name = schedule.smem_layout.get(x.tensor.name), x.tensor.name
        if column is None:
            continue
        read = pair(*positions(plan, side, (1, 0) if side == 0 else (0, 1)))
        wording = "reads"
        try:
            compose(column, read)
            wording = "writes"
            tiled_write(replace(x, smem_layout=column), plan.tile[plan.k])
        except LayoutError as error:
            say(
                f"no layout has the places of what a thread {wording} of {name} in columns of {format_layout(column)}",
                *("schedule", "smem", name, "layout"),
                notes=(str(error).removeprefix("compose: "),),
                help=partial(first_that_works, say.code, [_without_column(spec, x.tensor)]),
            )


def padding_wasted(spec: KernelSpec, say: Say) -> None:
    """Padding of a whole row of banks changes nothing but the memory that is used."""
    for tensor, _, _ in operands(spec):
        pad, row = schedule_of(spec).smem_pad[tensor.name], BANKS * BANK_BYTES // tensor.dtype.bytes
        if pad >= row:
            say(
                f"a padding of {pad} elements of {tensor.name} spreads columns no better than {pad % row}",
                *("schedule", "smem", tensor.name, "pad"),
                notes=(f"{pad} = {pad // row} * {row} + {pad % row}, and {row} elements are all banks once",),
                help=f"write `pad: {pad % row}`",
            )


def unused(spec: KernelSpec, say: Say) -> None:
    """`copies` holds the operands and the output, and layouts only for the operands."""
    a, b, *_ = gemm.names(spec)
    output = spec.output
    for name, copy in schedule_of(spec).copies.items():
        if name not in (a.name, b.name, output.name):
            message = f"`{name}` moves as the output `{output.name}` does: its copy would have no effect"
            say(message, "schedule", "copies", name, help=f"remove `{name}` from copies")
        elif name == output.name:
            for field in ("thread_layout", "value_layout"):
                if getattr(copy, field) is not None:
                    message = f"`{field}` has no effect on `{name}`: the mma deals it out"
                    say(message, "schedule", "copies", name, field, help=f"remove `{field}`")
