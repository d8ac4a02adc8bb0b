"""Changes that make a good spec another one, rather a bad one: of its data, and of its text."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.fuzz import fields
from tests.fuzz.chance import Chance
from tests.fuzz.statements import DTYPES

ODD_NUMBERS = (
    0, -1, 1, 2, 3, 5, 7, 13, 31, 33, 63, 65, 100, 127, 129, 255, 257, 1000, 1023, 1025, 4096, 65535, 65537, 2**20,
    2**24 + 1, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63, 2**64, 10**30, 10**390, -(2**31), 0.5, 1e-300, 1.5e300, 2.0,
    float("inf"), float("nan"), -0.0,
)  # fmt: skip
ODD_TEXTS = (
    "", " ", "null", "~", "yes", "no", "1_000", "0x10", "0b1", "1e3", ".5", "1.", "a" * 33, "a" * 3000, "{", "}",
    "{M}", "{{M}}", "é", "ß", "ﬁ", "Ａ", "x\u0301", "\u200b", "\u2028", "\u0085", "\ufeff", "\U0001f600", "a\tb",
    "a\nb", "a\x7fb", "class", "None", "self", "tidx", "sizes", "torch", "SPACE_A", "BLK_M", "tAgA", "M", "N", "K", "A",
    "B", "C", "f32", "bf16", "bool", "complex", "f8e4m3", "cp_async", "tma", "wgmma", "mask", "none", "residue_first",
    "inout", "in", "out", "sm_90", "sm_90a", "sm_999", "(4,32):(32,1)", "4", "C = A @ B.T", "D = A + B", "D = 1 / 0",
    ">= 512", "*", "[", "&a", "inf", "nan", "-inf", "../x", "/", "con", "schedule.tiler", "𝐌", "ſ", "İ", "ı",
)  # fmt: skip
SYMBOLS = "()[]{}:,.*&!|>'\"%@`#-?=+/<\\ \t\n0123456789aMN_~^;$é😀\u0085\u2028\u00a0\ufeff\x00\x07\x7f"
BEFORE = ("  ", " ", "\t", "- ", "? ", "# ", "---", "...", "&a ", "*a", "!!int ")  # a line
BETWEEN = (": &a ", ": *a ", ": !!str ", ": |\n  ", ":", ": >-\n  ")  # a key and its value

Place = tuple[Any, Any]  # a mapping or a list, and the key or index in it


def places(data: Any) -> list[Place]:
    """Every place of a document's tree."""
    found: list[Place] = []
    waiting = [data]
    while waiting:
        node = waiting.pop()
        inner = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
        found += [(node, key) for key, _ in inner]
        waiting += [value for _, value in inner if isinstance(value, dict | list)]
    return found


def spoil(chance: Chance, data: dict[str, Any], times: int) -> dict[str, Any]:
    """A changed copy of a document: most of them are changed gently, so that they may still be kernels."""
    data = copy.deepcopy(data)
    kinds = _GENTLE if chance.odds(0.6) else _KINDS
    for _ in range(times):
        known = places(data)
        if not known:
            break
        chance.weighted(kinds)(chance, data, known)
    return data


def _delete(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    node, key = chance.choice(known)
    del node[key]


def _replace(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    node, key = chance.choice(known)
    node[key] = odd_value(chance)


def _nudge(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    """Another number in the place of one, not far from it."""
    numbers = [(node, key) for node, key in known if type(node[key]) is int]
    if numbers:
        node, key = chance.choice(numbers)
        old = node[key]
        part = old + 0.5 if abs(old) < 2**40 else 0.5
        node[key] = chance.choice([old + 1, old - 1, old * 2, old // 2, old * 3, -old, old * 64, 0, part])


def _swap(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    (one, first), (other, second) = chance.choice(known), chance.choice(known)
    one[first], other[second] = copy.deepcopy(other[second]), copy.deepcopy(one[first])


def _move(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    """A value under another key, of its own mapping or of another one."""
    (one, first), (other, second) = chance.choice(known), chance.choice(known)
    if isinstance(other, dict):
        name = first if isinstance(first, str) and chance.odds(0.5) else f"{second}{chance.choice(['', '2', '_', 's'])}"
        other[name] = copy.deepcopy(one[first])


def _edit_text(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    texts = [(node, key) for node, key in known if isinstance(node[key], str) and node[key]]
    if texts:
        node, key = chance.choice(texts)
        node[key] = edited(chance, node[key])


def _set_field(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    """Some field of the schedule, with a value that its kind lets stand there."""
    schedule = data.get("schedule")
    if not isinstance(schedule, dict):
        data["schedule"] = schedule = {}
    tensors = data.get("tensors")
    names = [str(name) for name in tensors] if isinstance(tensors, dict) else []
    declared = tensors.values() if isinstance(tensors, dict) else ()
    shapes = [t["shape"] for t in declared if isinstance(t, dict) and isinstance(t.get("shape"), list)]
    names = list(dict.fromkeys([*names, *(str(mode) for shape in shapes for mode in shape)])) or ["M"]
    op = data.get("op")
    op = op if op in ("contract", "elementwise", "gemm", "probe", "rowwise") else "elementwise"
    way, kind = fields.steps(chance, op, names)
    node = schedule
    for step in way[:-1]:
        inner = node.get(step)
        node[step] = node = inner if isinstance(inner, dict) else {}
    node[way[-1]] = fields.value(chance, kind, names)


def _vary(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    """Another declaration of a tensor that is as good as the one that is there."""
    tensors = data.get("tensors")
    declared = [t for t in tensors.values() if isinstance(t, dict)] if isinstance(tensors, dict) else []
    if not declared:
        return
    tensor = chance.choice(declared)
    shape = tensor.get("shape")
    match chance.randrange(4):
        case 0:
            tensor["dtype"] = chance.choice(DTYPES)
        case 1:
            tensor["align"] = chance.choice([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
        case 2 if isinstance(shape, list) and shape:
            tensor["major"] = chance.choice(shape)
        case 3:
            tensor["role"] = chance.choice(["in", "out", "inout"])


def _forget(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    """A part of the schedule is left to planning, or a promise is not made."""
    own = [key for key in ("schedule", "divisible", "static", "targets", "verify") if isinstance(data.get(key), dict)]
    inner = [place for key in own for place in places(data[key]) if isinstance(place[0], dict)]
    if inner:
        node, key = chance.choice(inner)
        del node[key]


def _promise(chance: Chance, data: dict[str, Any], known: list[Place]) -> None:
    """A promise about a mode's size."""
    tensors = data.get("tensors")
    declared = tensors.values() if isinstance(tensors, dict) else ()
    shapes = [t["shape"] for t in declared if isinstance(t, dict) and isinstance(t.get("shape"), list)]
    modes = [mode for shape in shapes for mode in shape if isinstance(mode, str)]
    key = chance.choice(["static", "divisible"])
    if modes and isinstance(data.setdefault(key, {}), dict):
        data[key][chance.choice(modes)] = chance.choice([1, 2, 3, 4, 8, 16, 64, 100, 1000, 4096, 2**20, 2**31 - 1])


Change = Callable[[Chance, dict[str, Any], list[Place]], None]
_KINDS: dict[Change, float] = {
    _delete: 3, _replace: 3, _nudge: 5, _swap: 1.5, _move: 1.5, _edit_text: 2, _set_field: 6,
}  # fmt: skip
_GENTLE: dict[Change, float] = {_vary: 4, _forget: 3, _promise: 3, _set_field: 2, _nudge: 1}


def odd_value(chance: Chance) -> Any:
    """A number, a text or a collection that nobody waits for."""
    match chance.randrange(8):
        case 0 | 1 | 2:
            return chance.choice(ODD_NUMBERS)
        case 3 | 4 | 5:
            return chance.choice(ODD_TEXTS)
        case 6:
            return chance.choice([None, True, False, [], {}, [1], {"M": 1}, [[["a"]]], {"a": {"b": {}}}, [None]])
    deep: Any = 1
    for _ in range(chance.choice([3, 20, 63, 64, 70])):
        deep = [deep] if chance.odds(0.5) else {"a": deep}
    return deep


def edited(chance: Chance, text: str) -> str:
    """A text with a character or a part of it changed."""
    at = chance.randrange(len(text) + 1)
    end = min(len(text), at + chance.choice([1, 1, 2, 5]))
    match chance.randrange(6):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:at] + chance.choice(SYMBOLS) + text[at:]
        case 2:
            return text[:at] + text[at:end] * 2 + text[end:]
        case 3:
            return text[:at] + chance.choice(ODD_TEXTS) + text[end:]
        case 4:
            return text[:at]
    return text.swapcase()


def spoil_text(chance: Chance, text: str, times: int) -> bytes:
    """A spec's text with lines and characters changed, in the end perhaps no text any more."""
    for _ in range(times):
        lines = text.split("\n")
        i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(9):
            case 0:
                lines.insert(j, lines[i])
            case 1:
                del lines[i]
            case 2:
                lines[i], lines[j] = lines[j], lines[i]
            case 3:
                lines[i] = chance.choice(BEFORE) + lines[i]
            case 4:
                lines[i] = lines[i].replace(": ", chance.choice(BETWEEN))
            case 5:
                lines[i] = lines[i].lstrip() if chance.odds(0.5) else f"{lines[i]} {lines[j].strip()}"
            case _:
                lines[i] = edited(chance, lines[i])
        text = "\n".join(lines)
    raw = text.encode("utf-8", "replace")
    match chance.randrange(40):
        case 0:
            return raw.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n\n", b"\x0b", b"\x0c"]))
        case 1:
            return text.encode(chance.choice(["utf-16", "utf-16-le", "latin-1", "utf-8-sig"]), "replace")
        case 2 | 3:
            at = chance.randrange(len(raw) + 1)
            return raw[:at] + bytes([chance.randrange(256)]) + raw[at + 1 :]
    return raw
