"""The file of a receipt: JSON that a schema describes, with a digest of itself, by which an edited one is known."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from cutegen.errors import CutegenError
from cutegen.measuring.model import Limits, Measured
from cutegen.receipts.receipt import Gpu, Receipt, Verified, VerifiedCase

VERSION = 2
MARK = "cutegen_receipt"  # the key that says that a file is a receipt, and of which version of them
_DIGITS = {"us": 5, "limit_us": 5, "copy": 5, "fill": 5, "read": 5, "fma": 5}
_FEW_DIGITS = 3  # of errors, bounds and spreads


class ReceiptError(CutegenError):
    """Says that a text is no receipt that could be relied on.

    `edited` says that it is one, but not as it was written. `spec` is what it says it is from, empty where that cannot
    be read.
    """

    def __init__(self, message: str, *, edited: bool = False, spec: str = "") -> None:
        super().__init__(message)
        self.edited = edited
        self.spec = spec


def text(receipt: Receipt) -> str:
    """Writes a receipt as text: the same receipt gives the same bytes.

    Each shape has a line, and figures are rounded to what they are worth. Raises ReceiptError for a receipt that no
    reader would accept.
    """
    data = _data(receipt)
    try:
        data = {MARK: VERSION, "digest": digest(data), **data}
    except ValueError:  # of JSON, which has no words for these
        raise ReceiptError("one of its figures is infinite or no number", spec=receipt.spec) from None
    _hold_to_schema(data)
    return _lines(data)


def parse(data: bytes) -> Receipt:
    """Reads a receipt that `text` wrote, independent of whitespace.

    Raises ReceiptError where that is impossible.
    """
    found = _load(data)
    spec = found.get("spec", "") if isinstance(found, dict) else ""
    spec = spec if isinstance(spec, str) else ""
    _hold_to_schema(found, spec)
    content = {key: value for key, value in found.items() if key not in (MARK, "digest")}
    if digest(content) != found["digest"]:
        raise ReceiptError("it was edited since it was written", edited=True, spec=spec)
    return _receipt(content)


def as_json(receipt: Receipt) -> dict[str, Any]:
    """The content of a receipt's file as JSON, without its mark, its version and its digest."""
    return _data(receipt)


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content, independent of the order of its keys."""
    plain = json.dumps(_whole(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of receipts, draft 7."""
    shipped = files("cutegen.receipts").joinpath("receipt.v2.schema.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(shipped)
    return data


# to and from plain data


def _data(receipt: Receipt) -> dict[str, Any]:
    # Modes and peers stay in the order in which they are shown; shapes stand in the order of their sizes.
    measured = sorted(receipt.measured, key=lambda m: (tuple(m.shape.values()), m.l2))
    data = {**asdict(receipt), "measured": [m.as_json() for m in measured]}
    rounded = _rounded(data)
    assert isinstance(rounded, dict)
    return rounded


def _receipt(data: Mapping[str, Any]) -> Receipt:
    verified, limits = data["verified"], data["limits"]
    if verified is not None:
        verified = Verified(**{**verified, "cases": tuple(VerifiedCase(**case) for case in verified["cases"])})
    return Receipt(
        **{
            **data,
            "gpu": Gpu(**data["gpu"]),
            "verified": verified,
            "measured": tuple(Measured.from_json(m) for m in data["measured"]),
            "limits": None if limits is None else Limits(**limits),
        }
    )


def _rounded(value: Any, key: str = "") -> Any:
    """Plain data with every figure rounded; whole ones as whole numbers, so that a formatter changes nothing."""
    if isinstance(value, Mapping):
        return {k: _rounded(v, k) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    if isinstance(value, float) and math.isfinite(value):
        return _whole(float(f"{value:.{_DIGITS.get(key, _FEW_DIGITS)}g}"))
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _whole(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _lines(data: Mapping[str, Any]) -> str:
    """Data as JSON with a line for every key and for every item of a list, so that a shape is a line of a diff."""
    return f"{_value(data, 0, nested=True)}\n"


def _value(value: Any, indent: int, *, nested: bool) -> str:
    pad = " " * (indent + 2)
    lists = isinstance(value, Mapping) and any(isinstance(v, list) for v in value.values())
    if isinstance(value, Mapping) and (nested or lists):
        items = [f"{json.dumps(k)}: {_value(v, indent + 2, nested=False)}" for k, v in value.items()]
        return _block("{", items, "}", pad, indent)
    if isinstance(value, list) and value:
        return _block("[", [json.dumps(item, allow_nan=False) for item in value], "]", pad, indent)
    return json.dumps(value, allow_nan=False)


def _block(start: str, items: Sequence[str], end: str, pad: str, indent: int) -> str:
    body = ",\n".join(f"{pad}{item}" for item in items)
    return f"{start}\n{body}\n{' ' * indent}{end}"


def _load(data: bytes) -> Any:
    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise ValueError(f"{number} is not a number that can be measured")
        return value

    def once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"the key {json.dumps(key)} occurs twice")
            found[key] = value
        return found

    try:
        return json.loads(data.decode("utf-8-sig"), parse_float=finite, parse_constant=finite, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise ReceiptError(f"it is not JSON: {error.msg} in line {error.lineno}") from None
    except (ValueError, RecursionError) as error:
        raise ReceiptError(f"it is not JSON that a receipt could be: {error}") from None


def _hold_to_schema(data: Any, spec: str = "") -> None:
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import best_match

    version = data.get(MARK) if isinstance(data, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise ReceiptError(f"it is a receipt of version {version}, and this cutegen reads {VERSION}", spec=spec)
    error = best_match(Draft7Validator(schema()).iter_errors(data))
    if error is not None:
        where = error.json_path.removeprefix("$").removeprefix(".")
        raise ReceiptError(f"{where or 'it'}: {error.message}"[:300], spec=spec)
