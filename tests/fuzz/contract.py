"""Contractions by chance, near to what is valid: attention in named modes, with or without a softmax, masks, biases and
grouped heads, and a schedule whose tiles warps share or nearly do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fuzz import declarations as declare
from tests.fuzz.chance import Chance

NAMES = ({"M": "M", "N": "N", "D": "D", "E": "E"}, {"M": "rows", "N": "keys", "D": "depth", "E": "wide"})
BATCHES = ((), ("H",), ("B", "H"), ("B", "H", "R"))
CONDITIONS = (
    *("coord({N}) <= coord({M})", "coord({N}) - len({N}) <= coord({M}) - len({M})"),
    *("coord({M}) - coord({N}) <= 40 and coord({N}) - coord({M}) < 9", "coord({N}) < len({N}) - 3"),
    *("seen_q == seen_k", "coord({N}) <= coord({M}) and seen_q == seen_k", "coord({N}) % 3 != 1"),
)
DOCUMENTS = ("seen_q", "seen_k")


def contract(chance: Chance, small: bool) -> dict[str, Any]:
    """The document of one; `small` ones are cheap to compile and run, and expect nothing of the compiler."""
    name = chance.choice(NAMES)
    m, n, d = name["M"], name["N"], name["D"]
    e = chance.choice([d, name["E"]])
    batch = chance.choice(BATCHES[:2] if small else BATCHES)
    of_keys = tuple(mode for mode in batch if mode != "R" and chance.odds(0.9))
    dtype = chance.choice(["f16", "bf16"])
    other = chance.choice(["f16", "f32"]) if chance.odds(0.05) else dtype
    tensors = {
        "Q": _factor(chance, [*batch, m], d, dtype),
        "K": _factor(chance, [*of_keys, n], d, dtype),
        "V": _factor(chance, [*of_keys, n], e, other),
    }
    condition = chance.choice(CONDITIONS).format(M=m, N=n) if chance.odds(0.6) else ""
    for document, mode in zip(DOCUMENTS, (m, n), strict=True):
        if document in condition:
            tensors[document] = declare.tensor(chance, chance.choice([[mode], [*batch[:1], mode]]), "i32", small)
    score = f"sum(Q * K, {d})"
    if chance.odds(0.3):
        tensors["bias"] = declare.tensor(chance, chance.choice([[m, n], [n], [*batch, m, n]]), dtype, small)
        score += " + bias"
    scalars = {"scale": "f32"} if chance.odds(0.6) else {}
    score = f"({score}) * scale" if scalars else score
    score = f"20 * tanh(({score}) / 20)" if chance.odds(0.15) else score
    softmax = chance.odds(0.75)
    excluded = "-inf" if softmax else "0"
    compute = [f"s = where({condition}, {score}, {excluded})" if condition and softmax else f"s = {score}"]
    weight = "exp(s - max(s, {n}))" if softmax else chance.choice(["sigmoid(s)", "relu(s)", "s"])
    weight = weight.format(n=n)
    compute.append(f"p = where({condition}, {weight}, 0)" if condition and not softmax else f"p = {weight}")
    value = f"sum(cast(p, {dtype}) * V, {n})" + (f" / sum(p, {n})" if softmax else "")
    if chance.odds(0.15):
        tensors["gate"] = declare.tensor(chance, [*batch, m, e], dtype, small, major=e)
        value += " * sigmoid(gate)"
    compute.append(f"O = {value}")
    tensors["O"] = {**_factor(chance, [*batch, m], e, chance.choice([dtype, "f32"])), "role": "out"}
    if softmax and chance.odds(0.3):
        tensors["lse"] = declare.tensor(chance, [*batch, m], "f32", small, role="out")
        compute.append(f"lse = max(s, {n}) + log(sum(p, {n}))")
    document: dict[str, Any] = {"op": "contract", "tensors": tensors} | ({"scalars": scalars} if scalars else {})
    document["compute"] = compute
    if batch and chance.odds(0.2):
        of = chance.choice(batch) if chance.odds(0.95) else m
        tensors["used"] = {"shape": [of], "dtype": "i32"}
        document["modes"] = {n if chance.odds(0.95) else m: {"of": of, "lengths": "used"}}
    widths = (32, 48) if small else (32, 64, 64, 96, 128, 128, 256, *([40] if chance.odds(0.2) else []))
    fixed = {mode: chance.choice(widths) for mode in dict.fromkeys((d, e))}
    document["static"] = dict(fixed)
    alone = [mode for mode in batch if mode not in of_keys]
    if schedule := _schedule(chance, m, n, alone, small):
        document["schedule"] = schedule
    document |= declare.targets(chance, small)
    modes = list(dict.fromkeys((*batch, m, n, d, e)))
    document |= declare.shapes(chance, modes, {"static": fixed}, small)
    if not small and chance.odds(0.1):
        document |= declare.expect(chance)
    if not small and chance.odds(0.1):
        document["tune"] = {"schedule.pipeline.stages": [1, 2], "schedule.tiler": [{m: 64, n: 32}, {m: 64, n: 64}]}
    return document


def _factor(chance: Chance, modes: list[str], width: str, dtype: str) -> dict[str, Any]:
    """A tensor whose rows of `width` elements are contiguous, with its other modes in any order."""
    shape = [*(chance.sample(modes, len(modes)) if chance.odds(0.3) else modes), width]
    return {"shape": shape, "dtype": dtype} | chance.some({"align": 16}, 0.2)


def _schedule(chance: Chance, m: str, n: str, alone: Sequence[str], small: bool) -> dict[str, Any]:
    """A schedule, some of its keys left out; `alone` are modes that rows of a tile may have besides."""
    warps = chance.choice([1, 2] if small else [1, 2, 3, 4, 8])
    rows = chance.choice([16, 32]) if chance.odds(0.9) else 24
    split = chance.odds(0.3)
    rows = rows if split and chance.odds(0.6) else rows * warps
    key = "*".join([m, *alone]) if chance.odds(0.5) else m
    schedule: dict[str, Any] = {
        "tiler": {key: rows, n: chance.choice([16, 32] if small else [16, 32, 48, 64, 128, 20])},
        "mma": {"atom": "mma_sync", "warps": warps},
        "pipeline": {"stages": chance.choice([1, 2, 3])},
        "math": chance.choice(["fast", "precise"]),
    }
    schedule = chance.some(schedule, 0.9 if small else 0.5)
    return schedule | ({"split": {n: chance.choice([2, 3, 5, "auto"])}} if split else {})
