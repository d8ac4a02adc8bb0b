"""A proof as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cutegen.analysis.occupancy import as_json as occupancy_json
from cutegen.analysis.proof import Part, Proof, Row
from cutegen.analysis.roofline import Waves
from cutegen.layouts import format_layout


def as_json(proof: Proof) -> dict[str, Any]:
    """A proof as `{holds, claims, accesses, shared_memory: {bytes, buffers}, workspaces, occupancy, roofline,
    choices}`.

    Units are seconds and bytes. For a kernel of several cases, accesses, buffers and occupancy name their `case`;
    `shared_memory.bytes` is the largest of all cases.
    """
    parts = proof.parts
    return {
        "holds": proof.holds,
        "claims": [{**asdict(claim), "path": list(claim.path)} for claim in proof.claims],
        "accesses": [_access_json(row) | _case(part) for part in parts for row in part.rows],
        "shared_memory": {
            "bytes": max(part.shared_memory for part in parts),
            "buffers": [asdict(b) | _case(part) for part in parts for b in part.buffers],
        },
        "workspaces": [
            {**asdict(x), "sizes": [{"sizes": dict(s), "bytes": x.bytes(s)} for s in _sizes(proof)]}
            for x in proof.scratch
        ],
        "occupancy": [occupancy_json(o) | _case(part) for part in parts for o in part.occupancy],
        "roofline": [
            {**asdict(r), "intensity": r.intensity, "bound": r.bound, "seconds": r.seconds, "waves": r.waves}
            | {"tiled": None if r.tiled is None else _waves(r.tiled)}
            for r in proof.rooflines
        ],
        "choices": [
            {
                "sizes": dict(choice.sizes),
                "multiprocessors": choice.multiprocessors,
                "taken": choice.taken,
                "waits_for": choice.waits_for,
            }
            | {"estimates": [{"case": case, "seconds": us / 1e6} for case, us in choice.estimates]}
            for choice in proof.choices
        ],
    }


def _waves(waves: Waves) -> dict[str, Any]:
    """The waves of tiles as `{tiles, at_once, blocks, count, last, busy}`."""
    return {**asdict(waves), "count": waves.count, "last": waves.last, "busy": waves.busy}


def _sizes(proof: Proof) -> list[Mapping[str, int]]:
    """The sizes that were asked for, each once."""
    return list({tuple(r.sizes.items()): r.sizes for r in proof.rooflines}.values())


def _case(part: Part) -> dict[str, Any]:
    return {"case": part.case} if part.case else {}


def _access_json(row: Row) -> dict[str, Any]:
    a = row.access
    return {
        "name": a.name,
        "tensor": a.tensor,
        "space": a.space,
        "kind": a.kind,
        "bytes": a.bytes,
        "instructions": a.instructions,
        "layout": format_layout(a.layout),
        "swizzle": None if a.swizzle is None else [a.swizzle.bits, a.swizzle.base, a.swizzle.shift],
        "path": list(a.path),
        "conflicts": None if row.conflicts is None else asdict(row.conflicts),
        "sectors": None if row.sectors is None else asdict(row.sectors),
        "width": None if row.width is None else {**asdict(row.width), "why": row.width.why},
    }
