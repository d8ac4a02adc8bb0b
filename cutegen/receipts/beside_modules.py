"""Receipts beside the modules: which of them still belong to the code. They are written in `write_receipts`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from cutegen.codegen.render import code_hash
from cutegen.project.selection import Scope
from cutegen.project.sources import Unit
from cutegen.project.state import FileState, State, compare, why_left_over
from cutegen.receipts.receipt import Receipt
from cutegen.receipts.receipt_text import MARK, ReceiptError, parse, text

FOLDER = "receipts"  # in the folder of the modules
NO_RECEIPT = "a file that is no receipt is in its place"


def compare_all(units: Sequence[Unit], scopes: Sequence[Scope]) -> list[FileState]:
    """Tells the state of every module and of every receipt, in the order of their paths. Raises OSError as `compare`
    does.
    """
    return sorted([*compare(units, scopes), *receipt_states(units, scopes)], key=lambda state: state.path)


def units_by_file(states: Iterable[FileState], units: Iterable[Unit]) -> dict[Path, Unit]:
    """Finds the unit that makes each file, or whose receipt it is. Files of no unit are left out."""
    made = {unit.path: unit for unit in units if unit.has_file}
    of = {s.path: s.path if s.kind == "module" else s.path.parents[2] / f"{s.path.stem}.py" for s in states}
    return {path: made[module] for path, module in of.items() if module in made}


def receipt_states(units: Iterable[Unit], scopes: Sequence[Scope]) -> list[FileState]:
    """Tells the state of every receipt of the units, and of every other one whose spec was asked for.

    A file of something else in the place of a unit's receipt is foreign. Other files in the folders of the receipts are
    left out.
    """
    units = list(units)
    states = [
        _receipt_state(path, [scope for scope in scopes if scope.out == out], units)
        for out in dict.fromkeys(scope.out for scope in scopes)
        for path in _json_files(out / FOLDER)
    ]
    return [state for state in states if state is not None]


def receipt_of(state: FileState) -> Receipt:
    """Reads the receipt of a state that is current."""
    assert state.kind == "receipt" and state.state == "current" and state.found is not None
    return parse(state.found)


def remove_empty(removed: Iterable[Path]) -> None:
    """Removes the folders that files were removed from, if nothing else is in them."""
    for folder in dict.fromkeys(path.parent for path in removed):
        with contextlib.suppress(OSError):
            folder.rmdir()
            folder.parent.rmdir()


def _receipt_state(path: Path, scopes: Sequence[Scope], units: Sequence[Unit]) -> FileState | None:
    """The state of the file at a receipt's place; None for one that is not of the specs that were asked for."""
    module = path.parents[2] / f"{path.stem}.py"
    unit = next((unit for unit in units if unit.path == module and unit.has_file), None)
    found: bytes | None = None

    def state(state: State, why: str, spec: str, wanted: str | None = None) -> FileState:
        return FileState(path, state, why, wanted, found, spec, "receipt")

    try:
        found = path.read_bytes()
    except OSError as error:
        why = f"what is there cannot be read: {error.strerror}"
        return None if unit is None else state("foreign", why, unit.source.name)
    if unit is None and not _is_marked(found):
        return None
    if unit is not None and not is_ours(found):
        return state("foreign", NO_RECEIPT, unit.source.name)
    try:
        receipt = parse(found)
    except ReceiptError as error:
        spec = unit.source.name if unit is not None else error.spec
        if unit is None and not any(scope.holds(spec) for scope in scopes):
            return None
        return state("edited" if error.edited else "invalid", str(error), spec)
    asked = next((scope for scope in scopes if scope.holds(receipt.spec)), None)
    if unit is None and asked is None:
        return None
    if (path.parent.name, path.name) != tuple(receipt.place.split("/")):
        return state("invalid", f"it is of {receipt.kernel} on {receipt.gpu.name}: not in its place", receipt.spec)
    if unit is None:
        assert asked is not None
        return state("orphaned", why_left_over(path.stem, asked.root, receipt.spec, units), receipt.spec)
    if receipt.code_hash != code_hash(unit.module.text):
        return state("stale", "the kernel changed since", unit.source.name)
    if receipt.spec != unit.source.name:
        wanted = text(replace(receipt, spec=unit.source.name))
        return state("stale", f"its spec was {receipt.spec}, and is {unit.source.name} now", unit.source.name, wanted)
    return state("current", "it matches the code of its spec", receipt.spec, found.decode())


def _is_marked(data: bytes) -> bool:
    """Whether bytes have the mark of receipts. A damaged receipt has it too, such as one with an unfinished merge."""
    return f'"{MARK}"'.encode() in data


def is_ours(data: bytes) -> bool:
    """Whether a file in a receipt's place may be replaced.

    It may be if it is marked, or the rest of a receipt that was emptied or cut off before its mark.
    """
    plain = b"".join(data.split())
    return _is_marked(data) or not plain.strip(b"\0") or f'{{"{MARK}"'.encode().startswith(plain)


def _json_files(folder: Path) -> list[Path]:
    """Lists all `GPU/KERNEL.json` of a folder of receipts, without hidden folders: those are of a build that is
    writing.
    """
    found: list[Path] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as gpus:
        for gpu in sorted((e for e in gpus if e.is_dir() and not e.name.startswith(".")), key=lambda e: e.name):
            with os.scandir(gpu.path) as files:
                found += sorted(Path(e.path) for e in files if e.name.endswith(".json"))
    return found
