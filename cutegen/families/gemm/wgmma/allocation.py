"""The shared memory of a warp-specialised gemm's block, declared once for all modules that need it."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.families.gemm.wgmma.names import source_name, stack_name
from cutegen.families.gemm.wgmma.product import (
    SWIZZLED,
    groups_of,
    in_turn,
    passing,
    peers_of,
    piece_bytes,
    product_of,
    sent_bytes,
    shares_buffers,
    source_buffers,
    sources,
    split_of,
)
from cutegen.families.gemm.wgmma.schedule import Spec
from cutegen.families.gemm.words import tile_of
from cutegen.language.model import Tensor
from cutegen.parts.acting import value_of
from cutegen.parts.declared import Barriers, Buffer, Declared, bytes_of


def operands(spec: Spec) -> tuple[Buffer, ...]:
    """The stages of A and of B."""
    product = product_of(spec)
    depth, sides = tile_of(spec.schedule, product.k), ((product.a, product.m), (product.b, product.n))
    return tuple(
        _swizzled(
            tensors,
            stack_name(spec, tensors),
            tuple(tensor.name for tensor in tensors),
            len(tensors) * tile_of(spec.schedule, mode) * depth * tensors[0].dtype.bytes,
            "STAGES",
            title=" and ".join(tensor.name for tensor in tensors),
            what="stage {number} of " + " and ".join(tensor.name for tensor in tensors),
        )
        for tensors, mode in sides
    )


def outputs(spec: Spec) -> tuple[Buffer, ...]:
    """Those that outputs pass on their way: in the place of others' sums where they share it."""
    within = "sums" if shares_buffers(spec) else ""
    own, whose = ("BUFFERS", "the warpgroup that stores {name}") if in_turn(spec) else (
        "CONSUMERS * BUFFERS", f"{_multiplying(spec)} for {{name}}"
    )  # fmt: skip
    return tuple(_piece(spec, t, t.name, own, "BUFFERS", whose, within) for t in passing(spec))


def brought(spec: Spec) -> tuple[Buffer, ...]:
    """Those of what epilogues read."""
    whose = f"{_multiplying(spec)} for what is read of {{name}}"
    return tuple(
        _piece(spec, t, source_name(t), "CONSUMERS * SOURCES", "SOURCES", whose, title=", read" * t.writes)
        for t in sources(spec)
    )


def sums(spec: Spec, any_consumers: bool = False) -> tuple[Buffer, ...]:
    """Where other blocks of a cluster along k send their part of the sums that this one stores; as it is printed for
    any number of warpgroups too.
    """
    if split_of(spec) == 1:
        return ()
    product, several = product_of(spec), any_consumers or (spec.schedule.warps.consumers or 1) > 1
    copies = "CLUSTER_K - 1" + ", CONSUMERS" * several
    vectors = "PRODUCTS * VALUES // 4" if len(product.stacked) > 1 else "VALUES // 4"
    to = "sends to warpgroup {group} of those that multiply"
    return (
        Buffer(
            variable="sums",
            cells=("sums",),
            element="cutlass.Float32",
            layout=f"cute.make_layout((4, 128, {vectors}, {copies}))",
            copies=copies,
            bytes=sent_bytes(spec),
            alignment=SWIZZLED if shares_buffers(spec) else 16,
            title="sums of others",
            what=f"what another block of the cluster along {product.k} {to}",
            each="CLUSTER_K - 1",
        ),
    )


def stage_barriers(
    spec: Spec, any_consumers: bool = False, any_peers: bool = False, sharing: str = "CONSUMERS", one_too: bool = False
) -> tuple[Barriers, ...]:
    """Of each stage: `full` waits for its loads, `empty` for all warpgroups that read it, in each block that loads it
    or whose loads it gets; as it is printed for any number of these, too. `sharing` counts those that share a tile, and
    `one_too` says that it is printed for blocks that load alone, too.
    """
    peers = peers_of(spec)
    factors = [sharing] * (any_consumers or groups_of(spec.schedule) > 1)
    factors += ["PEERS" if any_peers else str(peers)] * (peers > 1 or one_too)
    return (
        _barriers("full", "STAGES", "1", "that the loads of stage {number} have come"),
        _barriers("empty", "STAGES", " * ".join(factors) or "1", "that stage {number} is free"),
    )


def source_barriers(spec: Spec) -> tuple[Barriers, ...]:
    """Of each buffer of what epilogues read."""
    what = "that buffer {place} of warpgroup {group} for what it reads "
    return tuple(
        _barriers(name, "CONSUMERS * SOURCES", "1", what + says, "SOURCES")
        for name, says in (("brought", "has been brought"), ("used", "is free"))
        if sources(spec)
    )


def sum_barriers(spec: Spec, any_consumers: bool = False) -> tuple[Barriers, ...]:
    """Of the sums that others send: `read` where they send more than once, for all warps that read what one sent; as
    it is printed for any number of warpgroups, too.
    """
    if split_of(spec) == 1:
        return ()
    warps = "4 * CONSUMERS" if any_consumers or (spec.schedule.warps.consumers or 1) > 1 else "4"
    sent = _barriers("sent", "1", "1", "that all have sent their sums")
    read = _barriers("read", "1", f"(CLUSTER_K - 1) * {warps}", "that all have read what this block sent")
    return (sent, read) if spec.schedule.scheduler.kind == "persistent" else (sent,)


def declared(spec: Spec) -> tuple[Declared, ...]:
    """All of it, in the order in which a kernel allocates it."""
    mine, more = outputs(spec), sums(spec)
    early, late = ((), mine) if shares_buffers(spec) else (mine, ())
    buffers = (*operands(spec), *early, *brought(spec), *more, *late)
    return (*buffers, *stage_barriers(spec), *source_barriers(spec), *sum_barriers(spec))


def counts_of(spec: Spec) -> dict[str, int]:
    """The constants that lengths speak of."""
    schedule = spec.schedule
    return {
        "STAGES": schedule.pipeline.stages or 1,
        "CONSUMERS": schedule.warps.consumers or 1,
        "CLUSTER_K": split_of(spec),
        "BUFFERS": max((schedule.copies[t.name].stages or 1 for t in passing(spec)), default=0),
        "SOURCES": source_buffers(spec),
    }


def size_of(spec: Spec, *of: Declared) -> int:
    """Bytes of some of it."""
    return sum(int(value_of(one.length, counts_of(spec))) * one.bytes for one in of)


def smem_bytes(spec: Spec) -> int:
    """Bytes of shared memory of a block."""
    return bytes_of(declared(spec), counts_of(spec))


def _piece(
    spec: Spec, tensor: Tensor, name: str, copies: str, each: str, whose: str, within: str = "", title: str = ""
) -> Buffer:
    what = "buffer {place} of " + whose.replace("{name}", tensor.name)
    return _swizzled(
        (tensor,), name, (name,), piece_bytes(spec, tensor), copies, each, tensor.name + title, what, within
    )


def _swizzled(
    tensors: Sequence[Tensor],
    name: str,
    cells: tuple[str, ...],
    size: int,
    copies: str,
    each: str = "",
    title: str = "",
    what: str = "",
    within: str = "",
) -> Buffer:
    return Buffer(
        variable=f"s{name}",
        cells=cells,
        element=f"cutlass.{tensors[0].dtype.cutlass}",
        layout=f"s{name}_layout.outer",
        copies=copies,
        bytes=size,
        alignment=SWIZZLED,
        swizzle=f"s{name}_layout.inner",
        within=within,
        title=title,
        what=what,
        each=each,
    )


def _barriers(name: str, length: str, arrivals: str, says: str, each: str = "") -> Barriers:
    title = f"{name} barrier{'s' * (length != '1')}"
    what = f"the barrier which says {says}"
    return Barriers(name=name, length=length, arrivals=arrivals, title=title, what=what, each=each)


def _multiplying(spec: Spec) -> str:
    return f"warpgroup {{group}}, of the {spec.schedule.warps.consumers} that multiply,"
