"""An operand's tiles in shared memory: how columns along m or n are laid out and padded, and how much they take.

A stage holds a column for each k. `pad` elements between columns keep threads that write across them out of each
other's banks; a `layout` puts the coordinates of a column elsewhere than in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from tensor_layouts import size

from cutegen import layouts
from cutegen.atoms.targets import BANK_BYTES, BANKS
from cutegen.families.gemm.staged.copies import operand_along_k
from cutegen.families.gemm.staged.product import FRAGMENT_BYTES, column_of, fragment, is_sound, product_of
from cutegen.families.gemm.staged.schedule import Copy, GemmSchedule, Spec
from cutegen.families.gemm.words import tile_of
from cutegen.language.edits import with_value
from cutegen.language.kinds import Path
from cutegen.language.model import Tensor
from cutegen.planning.report import Report

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    "smem.*.pad": ("tiler", "mma.thread_layout", "mma.permutation", "copies.*.thread_layout", "workspace.*.major"),
}


def pad_path(tensor: str) -> Path:
    """Where a spec says by how much the columns of a tensor are padded."""
    return ("schedule", "smem", tensor, "pad")


def _given_pad(schedule: GemmSchedule, tensor: Tensor) -> int | None:
    smem = schedule.smem.get(tensor.name)
    return None if smem is None else smem.pad


def pad_of(schedule: GemmSchedule, tensor: Tensor) -> int:
    """Elements of padding between two columns of a tensor; 0 as long as none was inferred."""
    return _given_pad(schedule, tensor) or 0


def column_stride(schedule: GemmSchedule, tensor: Tensor, mode: str) -> int:
    """Elements from one column of a tensor to the next, which lies one k further; `mode` is m or n."""
    return tile_of(schedule, mode) + pad_of(schedule, tensor)


def smem_elements(schedule: GemmSchedule, tensor: Tensor, mode: str, k: str) -> int:
    """The elements from the first of a tensor's buffer to its last; there is no pad behind the last column."""
    assert schedule.pipeline.stages is not None
    columns = tile_of(schedule, k) * schedule.pipeline.stages
    return column_stride(schedule, tensor, mode) * (columns - 1) + tile_of(schedule, mode)


def smem_bytes(spec: Spec) -> tuple[dict[str, int], int]:
    """The bytes of shared memory of A's and B's buffers by name, and those of both.

    Each is rounded up to 16 bytes: of a fragment that starts between them the compiler reads whole vectors, and the
    last one must end in the buffer.
    """
    schedule, (a, b, m, n, k) = spec.schedule, product_of(spec)
    buffers = {}
    for tensor, mode in ((a, m), (b, n)):
        exact = smem_elements(schedule, tensor, mode, k) * tensor.dtype.bytes
        buffers[tensor.name] = -(-exact // FRAGMENT_BYTES) * FRAGMENT_BYTES
    return buffers, sum(buffers.values())


def smem_products(spec: Spec) -> tuple[str, ...]:
    """The arithmetic of A's and B's bytes, such as `A: (128 + 4) * 16 * 3 stages * 4 bytes less ... = 25328`."""
    schedule, (a, b, m, n, k) = spec.schedule, product_of(spec)
    buffers, _ = smem_bytes(spec)
    found = []
    for tensor, mode in ((a, m), (b, n)):
        block, pad = tile_of(schedule, mode), pad_of(schedule, tensor)
        column = f"({block} + {pad})" if pad else f"{block}"
        product = f"{column} * {tile_of(schedule, k)} * {schedule.pipeline.stages} stages * {tensor.dtype.bytes} bytes"
        rest = " less the last pad" if pad else ""
        if smem_elements(schedule, tensor, mode, k) * tensor.dtype.bytes % FRAGMENT_BYTES:
            rest += f", rounded up to {FRAGMENT_BYTES}"
        found.append(f"{tensor.name}: {product}{rest} = {buffers[tensor.name]}")
    return tuple(found)


def infer_padding(spec: Spec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """The schedule with a padding of both operands' columns."""
    a, b, m, n, k = product_of(spec)
    for tensor, mode in ((a, m), (b, n)):
        if _given_pad(schedule, tensor) is not None:
            continue
        pad, why = 0, "written and read along rows"
        if tensor.major == k:
            sound = is_sound(replace(spec, schedule=schedule))
            pad = _spreading_pad(spec, schedule, tensor, mode) if sound else FRAGMENT_BYTES // tensor.dtype.bytes
            why = "written across rows, which padding spreads over the banks"
        what = f"{tensor.name}'s workspace" if tensor.name in schedule.workspace else tensor.name
        report.infer(f"{what} is {tensor.major}-major: {why}", *pad_path(tensor.name))
        schedule = with_value(schedule, pad_path(tensor.name)[1:], pad)
    return replace(schedule, smem={tensor.name: schedule.smem[tensor.name] for tensor in (a, b)})


def _spreading_pad(spec: Spec, schedule: GemmSchedule, tensor: Tensor, mode: str) -> int:
    """The least padding, in elements, with which threads along k write to most banks and fragments are read whole."""
    block, width, side = tile_of(schedule, mode), tensor.dtype.bytes, int(mode != product_of(spec).m)
    column = column_of(schedule, tensor.name)
    if column is not None and int(size(column)) != block:
        return FRAGMENT_BYTES // width  # lint says why
    place = layouts.offsets(column) if column is not None else tuple(range(block))
    own = sorted(place[i] for i in fragment(schedule, mode, side)[1])  # in any order: the compiler merges reads
    whole = min(FRAGMENT_BYTES // width, layouts.unit_stride_run(own))
    given = schedule.copies.get(tensor.name, Copy())
    vector, layout = operand_along_k(spec, schedule, tensor, mode, given)
    if given.value_layout is not None and len(layouts.modes_of(given.value_layout)) == 2:
        vector = layouts.mode_sizes(given.value_layout)[1]
    layout = given.thread_layout or layout
    if layout is None or len(layouts.modes_of(layout)) != 2:
        return whole
    lanes = BANKS * BANK_BYTES // max(width, BANK_BYTES)  # that shared memory serves at once
    along = min(layouts.mode_sizes(layout)[1], lanes)

    def ways(pad: int) -> int:
        """Words that a bank has to deliver, one after the other."""
        places = {
            (place[row % block] + deep * vector * (block + pad)) * width // BANK_BYTES
            for row in range(lanes // along)
            for deep in range(along)
        }
        return max(Counter(word % BANKS for word in places).values())

    return min(range(0, BANKS * BANK_BYTES // width, whole), key=lambda pad: (ways(pad), pad))
