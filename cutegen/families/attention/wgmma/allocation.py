"""The shared memory of a block whose warpgroups multiply: tiles, stages and barriers, declared once."""

from __future__ import annotations

from cutegen.families.attention.operands import operands_of
from cutegen.families.attention.wgmma.plan import ROWS
from cutegen.families.attention.wgmma.schedule import Spec
from cutegen.language.model import Tensor
from cutegen.ops.contract import walked_of
from cutegen.parts.declared import Barriers, Buffer, Declared, bytes_of

ALIGNMENT = 1024  # bytes, in which places are exchanged


def buffers(spec: Spec) -> tuple[Buffer, ...]:
    """Rows of the left tensor for each warpgroup, stages of the others, and rows of the output, if these do not take
    the place of the left tensor's.
    """
    found = walked_of(spec)
    tiler = spec.schedule.tiler
    assert tiler is not None
    q, k, v, o = operands_of(spec, found)
    keys, depth, columns = tiler[found.walked], spec.static[found.scores.mode], spec.static[found.columns]
    of_group = "the {number}th warpgroup's rows of "
    return (
        _buffer(q, "CONSUMERS", ROWS * depth, f"{of_group}{q.name}"),
        _buffer(k, "STAGES", keys * depth, f"stage {{number}} of {k.name}"),
        _buffer(v, "STAGES", keys * columns, f"stage {{number}} of {v.name}"),
        _buffer(o, "CONSUMERS", ROWS * columns, f"{of_group}{o.name}", f"s{q.name}" if is_overlaid(spec) else ""),
    )


def is_overlaid(spec: Spec) -> bool:
    """Whether the tile of the output takes the place of that of the left tensor: it has as many bytes, in rows of as
    many.
    """
    found = walked_of(spec)
    q, _, _, o = operands_of(spec, found)
    return spec.static[found.scores.mode] * q.dtype.bytes == spec.static[found.columns] * o.dtype.bytes


def _buffer(tensor: Tensor, copies: str, elements: int, what: str, within: str = "") -> Buffer:
    return Buffer(
        variable=f"s{tensor.name}",
        cells=(tensor.name,),
        element=f"cutlass.{tensor.dtype.cutlass}",
        layout=f"s{tensor.name}_layout.outer",
        copies=copies,
        bytes=elements * tensor.dtype.bytes,
        alignment=ALIGNMENT,
        swizzle=f"s{tensor.name}_layout.inner",
        within=within,
        title=tensor.name,
        what=what,
    )


def barriers(spec: Spec) -> tuple[Barriers, ...]:
    """For the left tensor one that its rows have come; of each stage of the others that it has come, and that all
    warpgroups have read it.
    """
    q, k, v, _ = (tensor.name for tensor in operands_of(spec, walked_of(spec)))
    return (
        _barriers(f"full_{q}", "1", "1", f"that {q} has come"),
        _barriers(f"full_{k}", "STAGES", "1", f"that stage {{number}} of {k} has come"),
        _barriers(f"empty_{k}", "STAGES", "CONSUMERS", f"that stage {{number}} of {k} is free"),
        _barriers(f"full_{v}", "STAGES", "1", f"that stage {{number}} of {v} has come"),
        _barriers(f"empty_{v}", "STAGES", "CONSUMERS", f"that stage {{number}} of {v} is free"),
    )


def _barriers(name: str, length: str, arrivals: str, says: str) -> Barriers:
    title = f"{name} barrier{'s' * (length != '1')}"
    return Barriers(name=name, length=length, arrivals=arrivals, title=title, what=f"the barrier which says {says}")


def declared(spec: Spec) -> tuple[Declared, ...]:
    """All of it, in the order in which a kernel allocates it."""
    return (*buffers(spec), *barriers(spec))


def counts_of(spec: Spec) -> dict[str, int]:
    """The constants that lengths speak of."""
    tiler = spec.schedule.tiler
    assert tiler is not None
    return {"STAGES": spec.schedule.pipeline.stages or 1, "CONSUMERS": tiler[walked_of(spec).rows[0]] // ROWS}


def smem_bytes(spec: Spec) -> int:
    """Bytes of shared memory of a block."""
    return bytes_of(declared(spec), counts_of(spec))
