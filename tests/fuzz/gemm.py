"""Gemm specs by chance, near to what is valid: tiles that threads divide, copies and stages as they come; those of
warpgroups are in a file of their own.
"""

from __future__ import annotations

from typing import Any

from tests.fuzz import declarations as declare
from tests.fuzz.chance import Chance
from tests.fuzz.layouts import compact
from tests.fuzz.statements import Writer
from tests.fuzz.warpgroups import second_output, statements, warpgroups

FLOATS = ("f32", "bf16", "f16", "f64")


def gemm(chance: Chance, small: bool) -> dict[str, Any]:
    """The document of one; `small` ones are cheap to compile and run, and expect nothing of the compiler."""
    if chance.odds(0.3):
        return warpgroups(chance, small)
    m, n, k = chance.choice([("M", "N", "K"), ("rows", "cols", "depth")]) if chance.odds(0.2) else ("M", "N", "K")
    kind = declare.dtype_of(chance, *FLOATS)
    out = chance.choice([kind, "f32", "f64"]) if chance.odds(0.4) else kind
    role = "inout" if chance.odds(0.2) else "out"
    batch = [chance.choice(["L", "heads"])] if chance.odds(0.2) else []
    shared = chance.choice(["A", "B", "", ""]) if batch else ""  # the operand that is the same in every product
    tensors = {
        "A": declare.tensor(chance, [*batch * (shared != "A"), m, k], kind, small),
        "B": declare.tensor(chance, [*batch * (shared != "B"), n, k], kind, small),
    }
    for name in chance.sample(["X", "bias", "W"], chance.choice([0, 0, 1, 2])):
        shape = chance.choice([[m, n], [n], [m]])
        shape = [*batch, *shape] if batch and chance.odds(0.6) else shape
        tensors[name] = declare.tensor(chance, shape, declare.dtype_of(chance, *FLOATS), small)
    tensors["C"] = declare.tensor(chance, [*batch, m, n], out, small, role=role)
    second = second_output(chance, tensors, [*batch, m, n], small)
    scalars = declare.scalars(chance, 2)
    document: dict[str, Any] = {"op": "gemm", "tensors": tensors} | ({"scalars": scalars} if scalars else {})
    document["compute"] = statements(chance, _compute(chance, tensors, scalars, [*batch, m, n], small), second)
    schedule, promised = _schedule(chance, (m, n, k), tensors, small)
    if schedule and chance.odds(0.9):
        document["schedule"] = schedule
    document |= {key: value for key, value in promised.items() if value}
    document |= declare.targets(chance, small) | declare.shapes(chance, [*batch, m, n, k], promised, small)
    if not small and chance.odds(0.1):
        document |= declare.expect(chance)
    if not small and chance.odds(0.15):
        document["tune"] = {"schedule.pipeline.stages": [2, 3], "schedule.tiler": [{m: 64, n: 64, k: 16}]}
    return document


def _compute(chance: Chance, tensors: dict[str, Any], scalars: dict[str, str], modes: list[str], small: bool) -> str:
    read = {name: t["dtype"] for name, t in tensors.items() if name not in "AB" and t.get("role") != "out"}
    writer = Writer(chance, {**read, **scalars}, modes, plain=small)
    value = "(A @ B.T)"
    if scalars and chance.odds(0.5):
        value = f"{writer.name('f32', 'f64', 'i64', 'i32') or 1} * {value}"
    if chance.odds(0.4):
        value = f"{chance.choice(['relu', 'gelu', 'silu', 'tanh', 'abs', 'sigmoid'])}({value})"
    if writer.types and chance.odds(0.6):
        value = f"{value} {chance.choice('+-*')} {writer.number(2)}"
    if chance.odds(0.1):
        value = f"where({writer.truth(1)}, {value}, {writer.leaf()})"
    for name in [name for name in writer.types if name not in writer.used]:
        value = f"{value} + {name}"
    return value


def _schedule(
    chance: Chance, modes: tuple[str, str, str], tensors: dict[str, Any], small: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schedule, and the promises about sizes that go with it."""
    if chance.odds(0.15):
        return _of_warps(chance, modes, small)
    m, n, k = modes
    sides = tuple(chance.choice([4, 8] if small else [4, 8, 16, 32]) for _ in "mn")
    shares = tuple(chance.choice([1, 2, 4] if small else [1, 2, 4, 8]) for _ in "mn")
    tile = {mode: side * share for mode, side, share in zip((m, n), sides, shares, strict=True)}
    tile[k] = chance.choice([4, 8, 16] if small else [4, 8, 16, 32, 64, 1])
    mma: dict[str, Any] = {"thread_layout": compact(chance, (*sides, 1))} if chance.odds(0.6) else {}
    if mma and chance.odds(0.4):
        own = [chance.choice([v for v in (1, 2, 4, 8) if v <= share]) for share in shares]
        pairs = zip((m, n), sides, own, strict=True)
        mma["permutation"] = {mode: compact(chance, (side, v)) for mode, side, v in pairs if chance.odds(0.6)}
    if chance.odds(0.15):
        mma |= chance.some({"atom": "fma", "accumulator": chance.choice(["f32", "f64"])})
    schedule: dict[str, Any] = chance.some({"tiler": tile}, 0.9) | ({"mma": mma} if mma else {})
    if chance.odds(0.4):
        schedule["pipeline"] = chance.some({"stages": chance.choice([2, 3, 4, 5]), "store": chance.randint(0, 8)})
    if chance.odds(0.3):
        smem: dict[str, Any] = {name: {"pad": chance.choice([0, 1, 2, 3, 4, 8, 16])} for name in chance.part("AB")}
        if chance.odds(0.2):
            smem["B"] = {"layout": compact(chance, (tile[n],), 0.8)}
        schedule["smem"] = smem
    if chance.odds(0.35):
        atoms, bits = ["universal", "cp_async"], [16, 32, 64, 128]
        entry = {name: chance.some({"atom": chance.choice(atoms), "bits": chance.choice(bits)}) for name in "ABC"}
        schedule["copies"] = chance.some(entry)
    turned = {"A": m, "B": n}
    if chance.odds(0.25):
        spaces: dict[str, Any] = {
            name: {"major": mode}
            for name, mode in turned.items()
            if tensors[name].get("major", k) == k and chance.odds(0.6)
        }
        for space in spaces.values():
            if chance.odds(0.4):
                space["thread_layout"] = compact(chance, (chance.choice([4, 16]), chance.choice([8, 16])))
        schedule["workspace"] = spaces
    if chance.odds(0.3):
        walk = {"raster": chance.choice([m, n]), "swizzle": chance.choice([1, 2, 3, 5, 8, 64])}
        schedule["scheduler"] = chance.some(walk)
    if chance.odds(0.3):
        guards = {m: ["none", "mask"], n: ["none", "mask"], k: ["none", "residue_first"]}
        schedule["predication"] = {mode: chance.choice(guards[mode]) for mode in chance.part(modes)}
    free = [mode for mode in modes if schedule.get("predication", {}).get(mode) != "none"]
    divisible = {mode: chance.choice([2, 4, 8, 16]) for mode in modes if chance.odds(0.12)}
    fixed = {mode: chance.choice([1, 6, 41, 64]) for mode in free if mode not in divisible and chance.odds(0.1)}
    return schedule, {"divisible": divisible, "static": fixed}


def _of_warps(chance: Chance, modes: tuple[str, str, str], small: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same for tensor cores: tiles that warps share, or nearly."""
    m, n, k = modes
    warps = tuple(chance.choice([1, 2] if small else [1, 2, 3, 4]) for _ in "mn")
    each = tuple(chance.choice([1, 2] if small else [1, 2, 3, 4, 5]) for _ in "mn")
    tile = {mode: 16 * x * y for mode, x, y in zip((m, n), warps, each, strict=True)}
    tile[k] = chance.choice([16, 32] if small else [8, 16, 32, 48, 64, 96])
    mma: dict[str, Any] = {"atom": "mma_sync"}
    if chance.odds(0.5):
        mma["atom_layout"] = compact(chance, (*warps, 1))
    if chance.odds(0.1):
        mma["operands"] = "tf32"
    schedule: dict[str, Any] = {"mma": mma} | chance.some({"tiler": tile}, 0.8)
    if chance.odds(0.4):
        schedule["pipeline"] = {"stages": chance.choice([2, 3, 4, 5])}
    if chance.odds(0.2):
        schedule["smem"] = {name: {"swizzle": chance.choice([128, 64, 32])} for name in chance.part("AB")}
    if chance.odds(0.35):
        atoms, bits = ["universal", "cp_async"], [16, 32, 64, 128]
        entry = {name: chance.some({"atom": chance.choice(atoms), "bits": chance.choice(bits)}) for name in "ABC"}
        schedule["copies"] = chance.some(entry)
    if chance.odds(0.3):
        schedule["scheduler"] = chance.some({"raster": chance.choice([m, n]), "swizzle": chance.choice([1, 3, 8])})
    if chance.odds(0.3):
        guards = {m: ["none", "mask"], n: ["none", "mask"], k: ["none", "residue_first"]}
        schedule["predication"] = {mode: chance.choice(guards[mode]) for mode in chance.part(modes)}
    free = [mode for mode in modes if schedule.get("predication", {}).get(mode) != "none"]
    fixed = {mode: chance.choice([1, 6, 41, 64]) for mode in free if chance.odds(0.1)}
    return schedule, {"divisible": {}, "static": fixed}
