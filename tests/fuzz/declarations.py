"""Tensors, modes and scalars by chance, in the parts that all ops share."""

from __future__ import annotations

from typing import Any

from cutegen.atoms.targets import TARGETS
from cutegen.dtypes import Dtype
from tests.fuzz.chance import Chance

MODES = (("M", "N", "P", "Q", "R"), ("T", "H", "D", "E", "F"), ("rows", "cols", "depth", "i1", "j_2"))
INPUTS = ("X", "A", "S", "G", "U", "bias", "W", "x1", "Q8", "mask", "residual")
OUTPUTS = ("D", "Y", "Z", "C2", "out_1")
SCALARS = ("alpha", "beta", "eps", "lr", "s0")
WEIGHTS = {
    **{"f32": 5.0, "bf16": 4.0, "f16": 3.0, "f64": 1.0, "f8e4m3": 1.0, "f8e5m2": 0.7},
    **{"i64": 1.2, "i32": 1.5, "i16": 0.8, "u32": 0.8, "u8": 1.5, "i8": 1.0, "bool": 0.8},
}
SIZES = (1, 2, 3, 6, 7, 8, 16, 31, 40, 64, 100)


def tensor(chance: Chance, shape: list[str], dtype: str, small: bool = False, **fields: Any) -> dict[str, Any]:
    """A tensor's declaration; `small` keeps its alignment to 16 bytes."""
    found: dict[str, Any] = {"shape": shape, "dtype": dtype}
    if chance.odds(0.4):
        found["major"] = chance.choice(shape)
    if chance.odds(0.4):
        least = Dtype(dtype).bytes
        wide = [32, 64, 128, 1024] if not small and chance.odds(0.15) else []
        found["align"] = chance.choice([a for a in (least, 4, 8, 16, *wide) if a >= least])
    return found | fields


def scalars(chance: Chance, most: int = 3) -> dict[str, str]:
    names = chance.sample(SCALARS, chance.choice([0, 0, 0, *range(1, most + 1)]))
    return {name: chance.weighted({"f32": 5, "f64": 1, "i32": 1, "i64": 0.5}) for name in names}


def targets(chance: Chance, small: bool) -> dict[str, Any]:
    if chance.odds(0.5):
        return {}
    known = list(TARGETS)
    return {"targets": chance.sample(known, 1 if small else chance.randint(1, len(known)))}


def dtype_of(chance: Chance, *among: str) -> str:
    return chance.weighted({name: WEIGHTS[name] for name in among or WEIGHTS})


def sizes(chance: Chance, modes: list[str], promised: dict[str, Any]) -> dict[str, int]:
    """A size for each mode, as `static` and `divisible` of `promised` want it; mostly one that a vector divides."""
    static, divisible = promised.get("static", {}), promised.get("divisible", {})
    among = SIZES if chance.odds(0.3) else (16, 32, 64)
    return {m: static.get(m, chance.choice(among) * divisible.get(m, 1)) for m in modes}


def shapes(chance: Chance, modes: list[str], promised: dict[str, Any], small: bool) -> dict[str, Any]:
    """`verify` and `bench`, rarely."""
    found: dict[str, Any] = {}
    if chance.odds(0.15):
        verify: dict[str, Any] = {"shapes": [sizes(chance, modes, promised) for _ in range(chance.randint(1, 2))]}
        if not small and chance.odds(0.4):
            verify["tolerance"] = chance.some({"rtol": chance.choice([0, 1e-3, 0.1]), "atol": 1e-5})
        found["verify"] = verify
    if chance.odds(0.1):
        found["bench"] = {"shapes": [sizes(chance, modes, promised)]}
    return found


def expect(chance: Chance) -> dict[str, Any]:
    """Assertions on what the compiler makes, which nothing has to meet."""
    counts = (0, 4, ">= 512", "<= 255", "!= 0", "> 0")
    sass = {chance.choice(["LDG.E.128", "LDG*", "FFMA", "STG.E.*"]): chance.choice(counts)}
    fields = {"spills": chance.choice(counts), "registers": "<= 255", "bank_clashes": 0, "sass": sass}
    return {"expect": chance.some(fields) or {"spills": 0}}
