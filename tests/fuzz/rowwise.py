"""Rowwise specs by chance, near to what is valid: reductions along the last or another mode, and over the rows."""

from __future__ import annotations

import re
from typing import Any

from cutegen.dtypes import Dtype
from tests.fuzz import declarations as declare
from tests.fuzz.chance import Chance
from tests.fuzz.several_modes import with_several_modes
from tests.fuzz.statements import Writer

FUNCTIONS = ("sum", "mean", "max", "min")
SCANS = ("cumsum", "cumprod")
KEPT = "Kept"  # the mode of the largest values
UNORDERED = ("bool", "u32", "i64", "f64")  # types whose largest values are not found


def rowwise(chance: Chance, small: bool) -> dict[str, Any]:
    """The document of one; `small` ones are cheap to compile and run, and expect nothing of the compiler."""
    rank = chance.weighted({1: 1, 2: 7, 3: 2, 4: 0.7})
    modes = list(chance.choice(declare.MODES)[:rank])
    row = modes[-1] if chance.odds(0.85) else chance.choice(modes)
    inputs, outputs = _tensors(chance, modes, row, small)
    scalars = declare.scalars(chance, 2)
    document: dict[str, Any] = {"op": "rowwise", "tensors": {**inputs, **outputs}}
    document |= {"scalars": scalars} if scalars else {}
    document["compute"] = _compute(chance, inputs, outputs, scalars, modes, row, small)
    widest = max(Dtype(tensor["dtype"]).bits for tensor in document["tensors"].values())
    schedule, promised = _schedule(chance, modes, row, widest, small)
    if schedule and chance.odds(0.8):
        document["schedule"] = schedule
    document |= {key: value for key, value in promised.items() if value}
    document |= declare.targets(chance, small) | declare.shapes(chance, modes, promised, small)
    written = document.get("schedule", {})
    if ("cluster" in written or written.get("keep") == "smem") and chance.odds(0.7):
        document["targets"] = ["sm_90a"]
    if not small and chance.odds(0.1):
        document |= declare.expect(chance)
    if not small and chance.odds(0.1):
        document["tune"] = {"schedule.threads_per_row": [16, 64], "schedule.keep": ["reload", "registers"]}
    if 1 < rank < 5 and row == modes[-1] and chance.odds(0.1):
        return _with_selection(chance, document, modes, row, small)
    scans = any(f"{scan}(" in statement for scan in SCANS for statement in document["compute"])
    if 1 < rank < 5 and row == modes[-1] and not scans and chance.odds(0.2):
        return with_several_modes(chance, document, row)
    return document


def _tensors(chance: Chance, modes: list[str], row: str, small: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs, of which the first has all modes; outputs of each element, of each row and of each column."""
    others = [mode for mode in modes if mode != row]
    inputs, outputs = {}, {}
    names = chance.sample(declare.INPUTS, chance.weighted({1: 40, 2: 40, 3: 20}))
    for number, name in enumerate(names):
        shape = modes if number == 0 or chance.odds(0.4) else chance.part(modes, 1)
        inputs[name] = _tensor(chance, shape, row, small)
    for name in chance.sample(declare.OUTPUTS, chance.weighted({1: 60, 2: 30, 3: 10})):
        shape = chance.weighted({"elements": 6, "rows": 3 * bool(others), "columns": 1.5 * bool(others)})
        modes_of = {"elements": modes, "rows": others, "columns": [row]}[shape]
        role = "inout" if shape == "elements" and chance.odds(0.15) else "out"
        among = ("f32", "f64") if shape == "columns" and chance.odds(0.9) else ()
        outputs[name] = _tensor(chance, modes_of, row, small, *among) | {"role": role}
    return inputs, outputs


def _tensor(chance: Chance, shape: list[str], row: str, small: bool, *among: str) -> dict[str, Any]:
    found = declare.tensor(chance, shape, declare.dtype_of(chance, *among), small)
    if row in shape and chance.odds(0.95):
        found |= {"major": row}
    return found


def _compute(
    chance: Chance,
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    scalars: dict[str, str],
    modes: list[str],
    row: str,
    small: bool,
) -> list[str]:
    along = {name: t["dtype"] for name, t in inputs.items() if row in t["shape"]}
    once = {name: t["dtype"] for name, t in inputs.items() if row not in t["shape"]} | scalars
    others = [mode for mode in modes if mode != row]
    elements = Writer(chance, {**along, **once}, modes, plain=small)
    rows = Writer(chance, dict(once), others or modes, plain=small)
    statements = []

    def varying(depth: int = 2) -> str:
        """An expression that varies along the row."""
        elements.used.clear()
        x = elements.number(depth)
        return x if _names(x) & along.keys() or not along else f"({x} + {chance.choice(list(along))})"

    def reduced() -> str:
        """A reduction along the row of what lies along it."""
        return f"{chance.choice(FUNCTIONS)}({varying()}, {row})"

    def unused() -> list[str]:
        """The names that no statement reads so far."""
        targets = [target for target, _, _ in (statement.partition(" = ") for statement in statements)]
        read = {name for statement in statements for name in _names(statement.partition(" = ")[2])}
        return [name for name in (*inputs, *scalars, *targets) if name not in read and name not in outputs]

    for number in range(chance.choice([1, 1, 2, 3])):
        name = f"r{number}"
        statements.append(f"{name} = {reduced()}" if number == 0 or chance.odds(0.6) else f"{name} = {rows.number()}")
        elements.types[name] = rows.types[name] = "f32"
        if chance.odds(0.3):
            statements.append(f"v{number} = {varying(3)}")
            elements.types[f"v{number}"] = "f32"
            along[f"v{number}"] = "f32"
        if chance.odds(0.08):
            statements.append(f"c{number} = {chance.choice(SCANS)}({varying()}, {row})")
            elements.types[f"c{number}"] = "f32"
            along[f"c{number}"] = "f32"
    kinds = [_kind(own["shape"], row, others) for own in outputs.values()]
    if "elements" not in kinds and "rows" in kinds and (left := [name for name in unused() if name in along]):
        statements.append(f"left = {chance.choice(FUNCTIONS)}({' + '.join(left)}, {row})")
        elements.types["left"] = rows.types["left"] = "f32"
    for kind, (name, own) in zip(kinds, outputs.items(), strict=True):
        dtype = own["dtype"]
        if kind == "columns":
            left = [one for one in unused() if one in elements.types]
            x = " + ".join([elements.number(2), *left, *[chance.choice(list(along))] * (not left)])
            function = chance.choice(FUNCTIONS)
            for mode in others:
                x = f"{function}({x}, {mode})"
            statements.append(f"{name} = {x}")
            continue
        writer = elements if kind == "elements" else rows
        before = dict(writer.types)
        if own["role"] == "inout":
            writer.types = {**before, name: dtype}
            writer.used.discard(name)
        writer.used |= {used for used in writer.types if used not in unused() and used != name}
        statements.append(f"{name} = {writer.stored(dtype, last=True)}")
        writer.types = before
    return statements


def _names(text: str) -> set[str]:
    """The words of an expression, names among them."""
    return set(re.findall(r"\w+", text))


def _kind(shape: list[str], row: str, others: list[str]) -> str:
    """Whether an output of that shape has a value for each of the `elements`, `rows` or `columns`."""
    return "columns" if others and shape == [row] else "elements" if row in shape else "rows"


def _with_selection(
    chance: Chance, document: dict[str, Any], modes: list[str], row: str, small: bool
) -> dict[str, Any]:
    """The document with outputs of the largest values of a row, or of their places."""
    tensors = document["tensors"]
    read = [
        name
        for name, t in tensors.items()
        if row in t["shape"] and t.get("role", "in") == "in" and t["dtype"] not in UNORDERED
    ]
    over_rows = any(t["shape"] == [row] and t.get("role", "in") != "in" for t in tensors.values())
    if not read or over_rows:  # whose modes may not stand beside that of what is kept
        return document
    x = chance.choice([chance.choice(read), f"abs({chance.choice(read)})", f"{chance.choice(read)} * 0.5"])
    added, compute = dict[str, Any](), list[str](document["compute"])
    if chance.odds(0.8):
        added["Top"] = declare.tensor(chance, [*modes[:-1], KEPT], "f32", small, role="out")
        compute.append(chance.choice([f"Top = topk({x}, {row}, {KEPT})", f"Top = 2 * topk({x}, {row}, {KEPT})"]))
    if not added or chance.odds(0.6):
        added["At"] = declare.tensor(chance, [*modes[:-1], KEPT], "i32", small, role="out")
        compute.append(f"At = argtopk({x}, {row}, {KEPT})")
    fixed = {row: chance.choice([16, 41, 64, 128]), **document.get("static", {})}
    fixed = {**fixed, KEPT: chance.choice([n for n in (1, 2, 3, 5, 8, 16) if n <= fixed.get(row, 16)])}
    found = {**document, "tensors": {**tensors, **added}, "compute": compute, "static": fixed}
    if row in (divisible := found.get("divisible", {})):
        found["divisible"] = {mode: step for mode, step in divisible.items() if mode != row}
    return {key: value for key, value in found.items() if value and key not in ("verify", "bench")}


def _schedule(
    chance: Chance, modes: list[str], row: str, widest: int, small: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schedule, and the promises about sizes that go with it. An element has `widest` bits at most."""
    threads = chance.choice([1, 2, 4, 8, 16, 32, 64, 128] + ([] if small else [256, 1024, 24]))
    schedule: dict[str, Any] = chance.some(
        {"threads_per_row": threads, "keep": chance.choice(["registers", "reload"])}, 0.4
    )
    beside = next((mode for mode in reversed(modes) if mode != row), None)
    tiler: dict[str, int] = {}
    if chance.odds(0.3):
        tiler[row] = threads * chance.choice([1, 2, 4, 8, 16])
    if beside and chance.odds(0.3):
        tiler[beside] = chance.choice([1, 2, 4, 3])
    if tiler:
        schedule["tiler"] = tiler
    if chance.odds(0.2):
        schedule["copy"] = {"bits": chance.choice([bits for bits in (8, 16, 32, 64, 128) if bits >= widest])}
    if chance.odds(0.15):
        schedule.setdefault("copy", {})["fallback"] = chance.choice(["narrow", "refuse", "refuse"])
    if chance.odds(0.2):
        schedule["predication"] = {m: chance.choice(["none", "mask", "mask"]) for m in chance.part(modes)}
    if chance.odds(0.25):
        walk = {"kind": chance.choice(["grid", "persistent", "persistent"])}
        walk |= {"blocks": chance.choice([1, 3, 8])} if walk["kind"] == "persistent" else {}
        walk |= {"raster": chance.choice([mode for mode in modes if mode != row] or modes)} if chance.odds(0.3) else {}
        schedule["scheduler"] = chance.some(walk, 0.9)
    if chance.odds(0.1):
        schedule["cluster"] = {row: chance.choice([1, 2, 2, 4, 4, 8, 16, 3])}
    if chance.odds(0.12):
        lengths = {"shorter": chance.choice(["fewer_threads", "mask"]), "longer": chance.choice(["reload", "refuse"])}
        schedule |= chance.some(lengths, 0.7)
    if chance.odds(0.06):
        exponentials = {"online": chance.choice(["walked", "never"]), "math": chance.choice(["fast", "precise"])}
        schedule |= chance.some(exponentials, 0.6)
    if chance.odds(0.1):
        schedule["pipeline"] = {"stages": chance.choice([1, 2, 2])}
    divisible = {m: chance.choice([1, 2, 8, 16]) for m in modes if chance.odds(0.12)}
    fixed = {m: chance.choice([1, 6, 41, 64, 128, 300]) for m in modes if m not in divisible and chance.odds(0.1)}
    if chance.odds(0.6):
        divisible.pop(row, None)
        fixed[row] = chance.choice([1, 3, 16, 41, 64, 100, 128, 200, 512] + ([] if small else [4096, 50000]))
    if row in fixed and chance.odds(0.9):  # which are all as long
        for key in ("shorter", "longer"):
            schedule.pop(key, None)
    if chance.odds(0.1):
        _keep_in_smem(chance, schedule, beside)
        divisible.pop(row, None)
        fixed[row] = chance.choice([16, 128, 208, 512, 1040] + ([] if small else [4096, 50000]))
    return schedule, {"divisible": divisible, "static": fixed}


def _keep_in_smem(chance: Chance, schedule: dict[str, Any], beside: str | None) -> None:
    """Has rows wait in shared memory, of which a block has one at a time, or the next one besides."""
    schedule["keep"] = "smem"
    schedule.get("tiler", {}).pop(beside, None)
    for key in ("tiler", "shorter", "longer", "pipeline", "copy"):
        if key != "tiler" or not schedule.get(key):
            schedule.pop(key, None)
    if chance.odds(0.6):
        schedule["scheduler"] = {"kind": "persistent", "blocks": chance.choice([1, 3, 8])}
        schedule["pipeline"] = {"stages": chance.choice([1, 2, 2])}
