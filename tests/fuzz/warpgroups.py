"""Gemm specs by chance for Hopper's tensor cores: roles, clusters, products of several tensors, ways of the output."""

from __future__ import annotations

from typing import Any

from tests.fuzz import declarations as declare
from tests.fuzz.chance import Chance
from tests.fuzz.statements import Writer

UNARY = ("relu", "gelu", "silu", "tanh", "abs", "sigmoid")


def warpgroups(chance: Chance, small: bool) -> dict[str, Any]:
    """The document of one, whose atom is wgmma; `small` ones are cheap to compile and run."""
    m, n, k = chance.choice([("M", "N", "K"), ("rows", "cols", "depth")]) if chance.odds(0.2) else ("M", "N", "K")
    kind = chance.weighted({"bf16": 5, "f16": 2, "f8e4m3": 2, "f8e5m2": 1, "f32": 0 if small else 0.2})
    bs = ["B", "U", "V"][: chance.weighted({1: 7, 2: 2, 3: 0.5})]
    tensors = {"A": _operand(chance, [m, k], kind, small)}
    alike = _operand(chance, [n, k], kind, small)
    for name in bs:
        tensors[name] = alike if chance.odds(0.9) else _operand(chance, [n, k], kind, small)
    read: dict[str, str] = {}
    for name in chance.sample(["X", "bias", "W"], chance.choice([0, 0, 1, 2])):
        shape = chance.choice([[m, n], [n], [m]])
        tensors[name] = declare.tensor(chance, shape, declare.dtype_of(chance, "f32", "bf16", "f16"), small)
        read[name] = tensors[name]["dtype"]
    out = chance.weighted({"bf16": 4, "f16": 2, "f32": 3, "f8e4m3": 0.5, "f64": 0.3})
    role = "inout" if chance.odds(0.15) else "out"
    tensors["C"] = declare.tensor(chance, [m, n], out, small, role=role)
    read |= {"C": out} if role == "inout" else {}
    second = second_output(chance, tensors, [m, n], small)
    scalars = declare.scalars(chance, 2)
    document: dict[str, Any] = {"op": "gemm", "tensors": tensors} | ({"scalars": scalars} if scalars else {})
    value = _compute(chance, bs, {**read, **scalars}, [m, n], small)
    document["compute"] = statements(chance, value, second)
    schedule, promised = _schedule(chance, (m, n, k), bs, kind, small)
    document["schedule"] = schedule
    document |= {key: value for key, value in promised.items() if value}
    document |= {"targets": ["sm_90a"]} if chance.odds(0.3) else {}
    document |= declare.targets(chance, small) if chance.odds(0.03) else {}
    document |= declare.shapes(chance, [m, n, k], promised, small)
    if not small and chance.odds(0.1):
        document |= declare.expect(chance)
    if not small and chance.odds(0.1):
        document["tune"] = {"schedule.pipeline.stages": [2, 3], "schedule.warps.roles": ["cooperative", "pingpong"]}
    return document


def second_output(chance: Chance, tensors: dict[str, Any], modes: list[str], small: bool) -> str:
    """A tensor that keeps what C is made of, now and then, which is added to the others: its type, or none."""
    if not chance.odds(0.2):
        return ""
    kind = chance.choice(["bf16", "f16", "f32", "f8e4m3", "bool", "i32"])
    tensors["Kept"] = declare.tensor(chance, modes, kind, small, role="out")
    return kind


def statements(chance: Chance, value: str, second: str) -> str | list[str]:
    """The statements that give C a value, and with a `second` type keep it as that before."""
    if not second:
        return [f"C = {value}"] if chance.odds(0.1) else f"C = {value}"
    if chance.odds(0.5) and second not in ("bool", "i32"):
        return [f"Kept = {value}", f"C = {chance.choice(UNARY)}(Kept)"]
    kept = {"bool": "value > 1", "i32": "cast(value, i32)"}.get(second, "value")
    return [f"value = {value}", f"C = {chance.choice(UNARY)}(value)", f"Kept = {kept}"]


def _operand(chance: Chance, shape: list[str], kind: str, small: bool) -> dict[str, Any]:
    """A tensor that is multiplied: more often than others as tensor maps take it."""
    found = declare.tensor(chance, shape, kind, small)
    if kind.startswith("f8") and chance.odds(0.9):
        found.pop("major", None)  # wgmma takes these along k alone
    return found | {"align": 16} if chance.odds(0.4) else found


def _compute(chance: Chance, bs: list[str], types: dict[str, str], modes: list[str], small: bool) -> str:
    writer = Writer(chance, types, modes, plain=small)
    value = "(A @ B.T)"
    if chance.odds(0.4):
        value = f"{chance.choice(UNARY)}({value})"
    for name in bs[1:]:
        value = f"{value} {chance.choice('+-*')} (A @ {name}.T)"
    if types and chance.odds(0.6):
        value = f"{value} {chance.choice('+-*')} {writer.number(2)}"
    if chance.odds(0.1):
        value = f"where({writer.truth(1)}, {value}, {writer.leaf()})"
    for name in [name for name in writer.types if name not in writer.used]:
        value = f"{value} + {name}"
    return value


def _schedule(
    chance: Chance, modes: tuple[str, str, str], bs: list[str], kind: str, small: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schedule, and the promises about sizes that go with it."""
    m, n, k = modes
    exchanged = chance.odds(0.25)
    rows, columns = (n, m) if exchanged else (m, n)
    roles = chance.weighted({"": 4, "cooperative": 3, "pingpong": 4})
    consumers = 2 if roles == "pingpong" else chance.choice([1, 2] if small else [1, 2, 2, 3])
    groups = 1 if roles == "pingpong" else consumers
    tile = {rows: 64 * groups * chance.choice([1, 1, 2])}
    tile[columns] = chance.choice([8, 16, 24, 32, 48] if small else [8, 16, 40, 64, 96, 128, 192, 256])
    tile[k] = chance.choice([32, 64, 16] if not kind.startswith("f8") else [32, 64, 128])
    mma: dict[str, Any] = {"atom": "wgmma"} | ({"rows": rows} if exchanged or chance.odds(0.1) else {})
    mma |= {"in_flight": chance.choice([0, 1])} if chance.odds(0.2) else {}
    schedule: dict[str, Any] = {"mma": mma, "tiler": tile if small or chance.odds(0.6) else chance.some(tile)}
    warps: dict[str, Any] = {"roles": roles} if roles else {}
    if chance.odds(0.5) or small:
        warps["consumers"] = consumers
    if chance.odds(0.1):
        warps["registers"] = {"producer": chance.choice([24, 40, 56]), "consumer": chance.choice([152, 232, 240])}
    schedule |= {"warps": warps} if warps else {}
    if chance.odds(0.6):
        among = [1, 1, 2, 2, 4] if not small else [1, 2]
        blocks = {m: chance.choice(among), n: chance.choice(among), k: chance.choice([1, 2, 2, 4])}
        schedule["cluster"] = chance.some(blocks, 0.6)
    copies: dict[str, Any] = {}
    for name in ("A", *bs):
        entry = {"multicast": chance.choice(["cluster", "none"]), "misaligned": chance.choice(["refuse", "workspace"])}
        copies[name] = chance.some(entry, 0.15)
    entry = {
        "columns": chance.choice([16, 32, 48, 64]),
        "stages": chance.choice([1, 2, 3]),
        "bits": chance.choice([16, 32]),
    }
    copies["C"] = chance.some(entry, 0.25) | chance.some({"misaligned": chance.choice(["refuse", "workspace"])}, 0.1)
    if chance.odds(0.25):
        copies["C"] = {"atom": chance.choice(["universal", "universal", "tma"])}
    schedule["copies"] = {name: copy for name, copy in copies.items() if copy}
    if chance.odds(0.1):
        schedule["smem"] = {name: {"swizzle": chance.choice([128, 64, 32])} for name in chance.part(["A", *bs])}
    if small or chance.odds(0.4):
        schedule["pipeline"] = {"stages": chance.choice([1, 2, 3, 4])}
    if chance.odds(0.5):
        walk: dict[str, Any] = {"raster": chance.choice([m, n]), "swizzle": chance.choice([1, 2, 3, 8])}
        walk |= {"launch": chance.choice(["dependent", "serial"])}
        walk |= chance.choice([{"kind": "grid"}, {"kind": "persistent"}, {"blocks": chance.choice([4, 8, 16, 132])}])
        schedule["scheduler"] = chance.some(walk)
    if chance.odds(0.2):
        schedule["predication"] = {mode: chance.choice(["none", "mask"]) for mode in chance.part([m, n])}
    free = [mode for mode in modes if schedule.get("predication", {}).get(mode) != "none"]
    divisible = {mode: chance.choice([2, 4, 8, 16]) for mode in modes if chance.odds(0.15)}
    fixed = {mode: chance.choice([8, 41, 64, 72, 200]) for mode in free if mode not in divisible and chance.odds(0.1)}
    return {key: value for key, value in schedule.items() if value}, {"divisible": divisible, "static": fixed}
