"""Packed arguments, elements taken at places, values of blocks, and segments of rows, put into documents by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.chance import Chance

PACKED, PLACES, MEMORY, BLOCKS, GROUPS, ENDS = "Packed", "ids", "slots", "NB", "X", "ends"


def with_modes(chance: Chance, document: dict[str, Any]) -> dict[str, Any]:
    """The document with one of these, or as it was where it has nothing that can be so."""
    ways: dict[Callable[[Chance, dict[str, Any]], dict[str, Any]], float]
    if document["op"] == "gemm":
        ways = {_with_segments: 5, _with_scales: 5, _with_views: 0.3, _with_places: 0.3}
    else:
        ways = {_with_views: 5, _with_places: 4, _with_blocks: 2 if document["op"] == "elementwise" else 0.2}
    found = chance.weighted(ways)(chance, document)
    for key in ("verify", "bench"):
        if found is not document:
            found.pop(key, None)
    return found


def _with_views(chance: Chance, document: dict[str, Any]) -> dict[str, Any]:
    """One or two tensors of one role become parts of an argument: halves, every other element, or planes of it."""
    tensors = document["tensors"]
    kinds = [(name, t.get("role", "in"), t["shape"]) for name, t in tensors.items() if t["shape"]]
    if not kinds:
        return document
    name, role, shape = chance.choice(kinds)
    alike = [other for other, *of in kinds if of == [role, shape] and other != name]
    names = [name, *chance.sample(alike, min(len(alike), chance.choice([0, 1, 1])))]
    cut = chance.randrange(len(shape))
    before, mode, after = shape[:cut], shape[cut], shape[cut + 1 :]
    commas = ":, " * cut
    whole: list[str]
    forms = ["parts", "parts", "steps", "planes", "ends"]
    if role == "out":  # of which views leave nothing unwritten
        forms = forms[:2] if len(names) == 1 else forms[:4]
    match chance.choice(forms):
        case "parts":
            count = len(names) if role == "out" and chance.odds(0.9) else max(2, chance.choice([len(names), 3]))
            whole = [*before, f"{count}*{mode}", *after]
            starts = chance.sample(range(count), len(names))
            views = [f"[{commas}{mode}*{i}:{mode}*{i + 1}]" if i else f"[{commas}:{mode}]" for i in starts]
        case "steps":
            whole = [*before, f"2*{mode}", *after]
            views = [f"[{commas}{i}::2]" for i in chance.sample(range(2), len(names))]
        case "planes":
            whole = [*shape, "2"]
            views = [f"[..., {i}]" for i in chance.sample(range(2), len(names))]
        case _:
            whole = [*before, f"{mode} + {chance.choice([1, 4, 8, 16])}", *after]
            names, views = names[:1], [chance.choice([f"[{commas}:{mode}]", f"[{commas}-{mode}:]"])]
    packed: dict[str, Any] = {"shape": whole, "dtype": tensors[name]["dtype"], "role": role}
    if "major" in tensors[name] and tensors[name]["major"] in [*before, *after]:
        packed["major"] = tensors[name]["major"]
    packed |= chance.some({"align": 16}, 0.3)
    found: dict[str, Any] = {}
    for other, tensor in tensors.items():
        if other == name:
            found[PACKED] = packed
        if other in names:
            found[other] = {"shape": shape, "view": PACKED + views[names.index(other)]}
        else:
            found[other] = tensor
    return {**document, "tensors": found}


def _with_places(chance: Chance, document: dict[str, Any]) -> dict[str, Any]:
    """A tensor's elements are taken at places along one of its modes, or written there."""
    tensors = document["tensors"]
    names = [name for name, t in tensors.items() if t["shape"]]
    if not names:
        return document
    name = chance.choice(names)
    tensor = tensors[name]
    mode = chance.choice(tensor["shape"]) if chance.odds(0.5) else tensor["shape"][0]
    taken = {**tensor, "shape": [MEMORY if m == mode else m for m in tensor["shape"]], "at": {MEMORY: PLACES}}
    if tensor.get("major") == mode:
        taken["major"] = MEMORY
    places = {"shape": [mode], "dtype": chance.choice(["i32", "i64"])}
    return {**document, "tensors": {**tensors, name: taken, PLACES: places}}


def _with_blocks(chance: Chance, document: dict[str, Any]) -> dict[str, Any]:
    """An input has one value for each block of a mode."""
    tensors = document["tensors"]
    names = [name for name, t in tensors.items() if t["shape"] and t.get("role", "in") == "in"]
    if not names:
        return document
    name = chance.choice(names)
    mode = chance.choice(tensors[name]["shape"])
    blocked = {**tensors[name], "shape": [BLOCKS if m == mode else m for m in tensors[name]["shape"]]}
    if blocked.get("major") == mode:
        blocked["major"] = BLOCKS
    size = chance.choice([2, 4, 8, 16, 32, 64, 128, 3, 12])
    return {
        **document,
        "tensors": {**tensors, name: blocked},
        "modes": {BLOCKS: {"blocks": mode, "size": size}},
    }


def _with_segments(chance: Chance, document: dict[str, Any]) -> dict[str, Any]:
    """Rows of a product are cut into segments, each of which has matrices of its own."""
    tensors = document["tensors"]
    m, k = tensors["A"]["shape"][-2:]
    n = tensors["C"]["shape"][-1]
    if len(tensors["A"]["shape"]) != 2 or len(tensors["C"]["shape"]) != 2 or not _is_of_warpgroups(document):
        return document
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        each = tensor["shape"] == [n, k] or (tensor["shape"] == [n] and chance.odds(0.5))
        found[name] = {**tensor, "shape": [GROUPS, *tensor["shape"]]} if each else tensor
    found[ENDS] = {"shape": [GROUPS], "dtype": "i32"}
    return _of_rows(chance, {**document, "tensors": found, "modes": {m: {"of": GROUPS, "offsets": ENDS}}}, k)


def _with_scales(chance: Chance, document: dict[str, Any]) -> dict[str, Any]:
    """The operands of a product have scales of blocks."""
    tensors, compute = document["tensors"], document["compute"]
    m, k = tensors["A"]["shape"][-2:]
    n = tensors["C"]["shape"][-1]
    if len(tensors["A"]["shape"]) != 2 or len(tensors["C"]["shape"]) != 2 or not _is_of_warpgroups(document):
        return document
    size = chance.choice([32, 64, 128, 128])
    modes = {"KB": {"blocks": k, "size": size}}
    of_rows, of_columns = chance.choice([[m, "KB"], ["KB"]]), chance.choice([["NB", "KB"], ["KB"]])
    if "NB" in of_columns:
        modes["NB"] = {"blocks": n, "size": chance.choice([8, 64, 128, 128])}
    scales = {"sA": {"shape": of_rows, "dtype": "f32"}, "sB": {"shape": of_columns, "dtype": "f32"}}
    if of_rows == [m, "KB"] and chance.odds(0.6):
        scales["sA"]["major"] = m

    def scaled(text: str) -> str:
        return text.replace("(A @ B.T)", "((A * sA) @ (B * sB).T)")

    scaled_compute = scaled(compute) if isinstance(compute, str) else [scaled(line) for line in compute]
    return _of_rows(
        chance, {**document, "tensors": {**tensors, **scales}, "modes": modes, "compute": scaled_compute}, k
    )


def _is_of_warpgroups(document: dict[str, Any]) -> bool:
    return bool(document.get("schedule", {}).get("mma", {}).get("atom") == "wgmma")


def _of_rows(chance: Chance, document: dict[str, Any], k: str) -> dict[str, Any]:
    """The document for the target that has such kernels, mostly with A's rows as those of the product, unsplit sums and
    whole steps.
    """
    schedule = {**document["schedule"]}
    if chance.odds(0.9):
        schedule["mma"] = {key: value for key, value in schedule["mma"].items() if key != "rows"}
        schedule["cluster"] = {mode: size for mode, size in schedule.get("cluster", {}).items() if mode != k}
        schedule["tiler"] = {mode: size for mode, size in schedule.get("tiler", {}).items() if mode != k}
        schedule = {key: value for key, value in schedule.items() if value}
    return {**document, "schedule": schedule} | ({"targets": ["sm_90a"]} if chance.odds(0.9) else {})
