"""The proof report of a kernel: claims, accesses, shared memory, occupancy and roofline, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cutegen.analysis.accesses import Access, accesses
from cutegen.analysis.claims import Claim, claims
from cutegen.analysis.memory import Conflicts, Sectors, conflicts, sectors
from cutegen.analysis.occupancy import Occupancy, most_registers, occupancy
from cutegen.analysis.occupancy import as_json as occupancy_json
from cutegen.analysis.roofline import Roofline, roofline
from cutegen.analysis.widths import Width, width
from cutegen.planning.plan import GemmPlan, Plan

_BLOCKS = 4  # for which the most registers a thread are told


@dataclass(frozen=True)
class Row:
    """One access with what it costs: `conflicts` in shared memory, `sectors` and `width` in global memory."""

    access: Access
    conflicts: Conflicts | None
    sectors: Sectors | None
    width: Width | None


@dataclass(frozen=True)
class Buffer:
    """A tensor's part of shared memory. `stride` is elements between neighbours in k, padding included."""

    tensor: str
    rows: int
    stride: int
    depth: int
    stages: int
    bytes: int


@dataclass(frozen=True)
class Proof:
    """Everything that is known of a kernel before it is compiled."""

    kernel: str
    claims: tuple[Claim, ...]
    rows: tuple[Row, ...]
    buffers: tuple[Buffer, ...]
    shared_memory: int
    occupancy: tuple[Occupancy, ...]
    rooflines: tuple[Roofline, ...]

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)


def prove(plan: Plan, sizes: Sequence[Mapping[str, int]] = ()) -> Proof:
    """Of a plan, with a roofline for each of `sizes` on each target. Raises KeyError for sizes that miss a mode."""
    spec, smem = plan.spec, plan.smem_bytes if isinstance(plan, GemmPlan) else 0
    return Proof(
        kernel=spec.kernel,
        claims=claims(plan),
        rows=tuple(_row(plan, access) for access in accesses(plan)),
        buffers=tuple(_buffers(plan)) if isinstance(plan, GemmPlan) else (),
        shared_memory=smem,
        occupancy=tuple(occupancy(target, plan.threads, smem) for target in spec.targets),
        rooflines=tuple(roofline(plan, target, given) for given in sizes for target in spec.targets),
    )


def _row(plan: Plan, access: Access) -> Row:
    if access.space == "shared":
        return Row(access, conflicts(access), None, None)
    return Row(access, None, sectors(access), width(plan.spec, access))


def _buffers(plan: GemmPlan) -> Iterator[Buffer]:
    depth = plan.tile[plan.k]
    for x in (plan.a, plan.b):
        # Behind the last column of the last stage no padding is needed.
        elements = x.smem_stride * (depth * plan.stages - 1) + x.block
        yield Buffer(x.tensor.name, x.block, x.smem_stride, depth, plan.stages, elements * x.tensor.dtype.bytes)


# --------------------------------------------------------------------------------------------------------- text


def as_lines(proof: Proof) -> list[str]:
    """The report as a person reads it, without a line's end or a comment sign."""
    lines = [f"proof of {proof.kernel}"]
    titles = {"coverage": "coverage", "bounds": "bounds, for every size that the host accepts"}
    for kind, title in titles.items():
        found = [claim for claim in proof.claims if claim.kind == kind]
        if found:
            lines += ["", f"  {title}", *(line for claim in found for line in _claim(claim))]
    lines += ["", "  accesses, one instruction of one warp", *_table([_cells(row) for row in proof.rows])]
    if proof.buffers:
        lines += ["", "  shared memory", *_shared(proof)]
    lines += ["", "  occupancy", *(f"    {_occupied(o)}" for o in proof.occupancy)]
    if proof.rooflines:
        lines += ["", "  roofline", *_table([_roof(r) for r in proof.rooflines])]
    return lines


def _claim(claim: Claim) -> Iterator[str]:
    yield f"    {'holds' if claim.holds else 'FAILS'}: {claim.text}"
    yield from (f"           {line}" for line in claim.because)


def _cells(row: Row) -> list[str]:
    access = row.access
    times = f"{access.instructions} times" if access.instructions > 1 else "once"
    cells = [access.name, f"{access.bytes} B a thread, {times}"]
    if row.conflicts is not None:
        c = row.conflicts
        cost = "no bank conflicts" if c.free else f"{c.ways}-way bank conflicts in warp {c.warp}"
        cells.append(f"{cost} ({c.passes} pass{'es' * (c.passes > 1)}, least {c.least})")
    if row.sectors is not None and row.width is not None:
        cells.append(f"{row.sectors.sectors} sectors (least {row.sectors.least}); {row.width.why}")
    return cells


def _shared(proof: Proof) -> Iterator[str]:
    for b in proof.buffers:
        padded = f" + {b.stride - b.rows}" if b.stride > b.rows else ""
        yield f"    {b.tensor}: ({b.rows}{padded}) * {b.depth} of k * {b.stages} stages, {b.bytes} bytes"
    yield f"    together {proof.shared_memory} bytes a block, each buffer at a multiple of 16"


def _occupied(o: Occupancy) -> str:
    registers = [most_registers(o.target, o.threads, blocks) for blocks in range(1, min(o.blocks, _BLOCKS) + 1)]
    needs = ", ".join(f"{count} for {blocks}" for blocks, count in enumerate(registers, 1))
    return f"{o.target}: {o.text}; registers a thread at most {needs}"


def _roof(r: Roofline) -> list[str]:
    sizes = " ".join(f"{mode}={size}" for mode, size in r.sizes.items())
    return [
        f"{sizes} on {r.gpu} ({r.target})",
        f"{r.intensity:.3g} operations a byte",
        f"bound by {r.bound}: at least {1e6 * r.seconds:.4g} us",
        f"{r.blocks} blocks on {r.sms} SMs",
    ]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["    " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


# --------------------------------------------------------------------------------------------------------- JSON


def as_json(proof: Proof) -> dict[str, Any]:
    """`{holds, claims, accesses, shared_memory: {bytes, buffers}, occupancy, roofline}`; seconds and bytes."""
    return {
        "holds": proof.holds,
        "claims": [{**asdict(claim), "path": list(claim.path)} for claim in proof.claims],
        "accesses": [_access_json(row) for row in proof.rows],
        "shared_memory": {"bytes": proof.shared_memory, "buffers": [asdict(b) for b in proof.buffers]},
        "occupancy": [occupancy_json(o) for o in proof.occupancy],
        "roofline": [
            {**asdict(r), "intensity": r.intensity, "bound": r.bound, "seconds": r.seconds} for r in proof.rooflines
        ],
    }


def _access_json(row: Row) -> dict[str, Any]:
    from cutegen.language.layouts import format_layout

    a = row.access
    return {
        "name": a.name,
        "tensor": a.tensor,
        "space": a.space,
        "kind": a.kind,
        "bytes": a.bytes,
        "instructions": a.instructions,
        "layout": format_layout(a.layout),
        "path": list(a.path),
        "conflicts": None if row.conflicts is None else asdict(row.conflicts),
        "sectors": None if row.sectors is None else asdict(row.sectors),
        "width": None if row.width is None else {**asdict(row.width), "why": row.width.why},
    }
