"""The spec of a number: what it starts from, and what is changed of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cutegen.language.document import parse_documents, plain
from tests.fuzz import fields
from tests.fuzz.cases import with_cases
from tests.fuzz.chance import Chance
from tests.fuzz.contract import contract
from tests.fuzz.elementwise import elementwise
from tests.fuzz.gemm import gemm
from tests.fuzz.modes import with_modes
from tests.fuzz.probe import probe
from tests.fuzz.rowwise import rowwise
from tests.fuzz.spoiling import spoil, spoil_text
from tests.fuzz.writing import text_of

SPECS = Path(__file__).parents[2] / "specs"
MAKERS: Mapping[str, Callable[[Chance, bool], dict[str, Any]]] = {
    "contract": contract,
    "elementwise": elementwise,
    "gemm": gemm,
    "probe": probe,
    "rowwise": rowwise,
}
KERNELS = (
    "SPACE_A",
    "Trial",
    "a" * 64,
    "sum",
    "torch",
    "tidx",
    "copy",
    "relu",
    "trial_kernel",
    "M",
    "x1",
    "class",
    "é",
)
OPS = {"contract": 2.0, "elementwise": 6.0, "gemm": 4.0, "probe": 1.5, "rowwise": 6.0}


@dataclass(frozen=True)
class Made:
    """A spec's bytes; `origin` is what it was made from, `changes` how often that was changed."""

    raw: bytes
    origin: str
    op: str
    changes: int


def make(seed: int, number: int) -> Made:
    """The spec of that number; the same one each time."""
    chance = Chance(f"{seed}/{number}")
    origin = chance.weighted({"maker": 70, "fields": 8, "specs": 12, "text": 10})
    if origin == "text":
        text = chance.choice(examples())[1] if chance.odds(0.5) else text_of(_document(chance), chance)
        times = chance.choice([1, 1, 2, 3, 10])
        return Made(spoil_text(chance, text, times), origin, "any", times)
    if origin == "specs":
        name, text = chance.choice(examples())
        data = plain(parse_documents(text)[0][0])
    else:
        data = _document(chance)
        if origin == "fields":
            modes = list(dict.fromkeys(m for t in data["tensors"].values() for m in t["shape"]))
            share = chance.choice([0.1, 0.25, 0.5])
            data["schedule"] = fields.schedule(chance, data["op"], [*modes, *data["tensors"]], share)
    times = chance.weighted({0: 50, 1: 28, 2: 14, 4: 6, 8: 2})
    times = max(1, times) if origin == "specs" else times
    op = data["op"]
    text = text_of(spoil(chance, data, times), chance)
    if chance.odds(0.02):
        text += "---\n" + text_of(_document(chance), chance)
    return Made(text.encode("utf-8", "replace"), origin, op, times)


def make_small(seed: int, number: int) -> Made:
    """A spec that is cheap to build, and expects nothing of the compiler."""
    chance = Chance(f"build/{seed}/{number}")
    data = _document(chance, small=True)
    return Made(text_of(data, chance).encode(), "maker", data["op"], 0)


def _document(chance: Chance, small: bool = False) -> dict[str, Any]:
    op = chance.weighted(OPS)
    data = {"cutegen": 1, "kernel": "trial"} | MAKERS[op](chance, small)
    if op not in ("probe", "contract") and chance.odds(0.12):
        data = with_modes(chance, data)
    if op != "probe" and chance.odds(0.12):
        data = with_cases(chance, data, small)
    if small:
        return data
    if chance.odds(0.1):
        data["summary"] = chance.choice(["Adds.", "a: b # c", "é" * 40, "{{x}}", 'He said "no"', "\\", "x" * 900])
    if chance.odds(0.03):
        data["kernel"] = chance.choice(KERNELS)
    if chance.odds(0.08):
        data = _with_matrix(chance, data)
    return data


def _with_matrix(chance: Chance, data: dict[str, Any]) -> dict[str, Any]:
    """The document with a tensor's type or majorness chosen by a matrix."""
    name = chance.choice(list(data["tensors"]))
    field, values = chance.choice(
        [("dtype", ["f32", "bf16"]), ("major", data["tensors"][name]["shape"]), ("align", [8, 16])]
    )
    tensors = {**data["tensors"], name: {**data["tensors"][name], field: "{a}"}}
    matrix: dict[str, Any] = {"a": list(values)}
    if chance.odds(0.05):
        matrix["b"] = list(range(chance.choice([2, 40, 1024])))
    return {**data, "kernel": f"trial_{{a}}{'{b}' * ('b' in matrix)}", "matrix": matrix, "tensors": tensors}


@lru_cache
def examples() -> tuple[tuple[str, str], ...]:
    """The specs of this repository: names and texts."""
    return tuple((file.stem, file.read_text(encoding="utf-8")) for file in sorted(SPECS.glob("*.yaml")))
