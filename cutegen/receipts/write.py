"""Writes receipts: adds what was measured or verified of kernels to the files beside their modules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cutegen.codegen.render import code_hash
from cutegen.measuring.model import KernelResult, Machine
from cutegen.measuring.shapes import shape_text
from cutegen.project.paths import shown
from cutegen.project.sources import Unit
from cutegen.project.write import locked, write_all
from cutegen.receipts.beside_modules import FOLDER, NO_RECEIPT, is_ours
from cutegen.receipts.receipt import Receipt, Verified, merge, same_state
from cutegen.receipts.receipt_text import ReceiptError, parse, text
from cutegen.verification import KernelReport

_BROKEN = {"wrong": "was wrong", "crashed": "crashed", "hung": "hung"}


@dataclass(frozen=True)
class Recorded:
    """The outcome of recording figures.

    `written` are the receipts; `notices` say what was dropped from existing ones or left out, `problems` what could
    not be recorded.
    """

    written: tuple[Path, ...]
    notices: tuple[str, ...]
    problems: tuple[str, ...]


def record_measured(machine: Machine, results: Sequence[tuple[Unit, KernelResult]]) -> Recorded:
    """Adds what `bench` measured to the receipts of the units, for the machine's GPU: all of them, or none.

    A kernel that was wrong, crashed or hung at one shape gets no figures at all. Raises nothing for what cannot be
    recorded: figures that took minutes must still be shown.
    """
    new, notices = [], []
    for unit, result in results:
        broken = next(
            (f for f in result.failures if f.what == unit.kernel and f.kind in ("wrong", "crashed", "hung")), None
        )
        if result.measured and broken is None:
            new.append((unit, Receipt.of(unit.source.name, machine, result)))
        elif broken is not None:
            where = "" if broken.shape is None else f" at {shape_text(broken.shape)}"
            notices.append(f"{unit.kernel}: nothing was recorded, since it {_BROKEN[broken.kind]}{where}")
    recorded = _record(new)
    return replace(recorded, notices=(*notices, *recorded.notices))


def record_verified(machine: Machine, reports: Sequence[tuple[Unit, KernelReport]]) -> Recorded:
    """Adds what verification on the machine's GPU found to the receipts of the units, all of them or none.

    Kernels that did not pass are left out. Raises nothing for what cannot be recorded.
    """
    new = []
    for unit, report in reports:
        if report.ok:
            empty = Receipt.empty(unit.kernel, unit.source.name, code_hash(unit.module.text), machine)
            new.append((unit, replace(empty, verified=Verified.of(report))))
    return _record(new)


def _record(new: Sequence[tuple[Unit, Receipt]]) -> Recorded:
    """Merges new receipts into those on disk, and writes all of them or none."""
    notices: list[str] = []
    problems: list[str] = []
    changes: dict[Path, bytes | None] = {}
    notices += [
        f"{unit.kernel}: nothing was recorded, since `modules` of {unit.source.shown} leaves it out"
        for unit, _ in new
        if not unit.has_file
    ]
    places = [(unit.path.parent / FOLDER / receipt.place, receipt) for unit, receipt in new if unit.has_file]
    try:
        # The folder of the modules too: a build that removes receipts keeps out of the way.
        with locked(folder for path, _ in places for folder in (path.parents[2], path.parent)):
            for path, receipt in places:
                try:
                    changes[path], dropped = _merged(path, receipt)
                except ReceiptError as error:
                    problems.append(f"{shown(path)}: nothing was recorded: {error}")
                    continue
                if dropped:
                    notices.append(f"{shown(path)}: what was there is dropped: {dropped}")
            write_all(changes)
    except OSError as error:
        where = f"{shown(Path(os.fsdecode(error.filename)))}: " if isinstance(error.filename, (str, bytes)) else ""
        return Recorded((), (), (*problems, f"{where}{error.strerror or error}: the receipts are as they were"))
    return Recorded(tuple(changes), tuple(notices), tuple(problems))


def _merged(path: Path, receipt: Receipt) -> tuple[bytes, str]:
    """The bytes of the file with a new receipt merged into it, and why what was there is dropped, if it is.

    Raises ReceiptError for a file that is no receipt.
    """
    try:
        found = path.read_bytes() if os.path.lexists(path) else None
    except OSError as error:
        raise ReceiptError(f"what is there cannot be read: {error.strerror}; move it away") from None
    if found is not None and not is_ours(found):
        raise ReceiptError(f"{NO_RECEIPT}; move it away")
    old, dropped = _kept(found, receipt)
    return text(merge(old, receipt)).encode(), dropped


def _kept(found: bytes | None, new: Receipt) -> tuple[Receipt | None, str]:
    """The receipt that is in a file already, or the reason why nothing of it can be kept beside a new one."""
    if found is None:
        return None, ""
    try:
        old = parse(found)
    except ReceiptError as error:
        return None, str(error)
    if same_state(old, new):
        return old, ""
    changed = [
        name for name in sorted({*old.versions, *new.versions}) if old.versions.get(name) != new.versions.get(name)
    ]
    if old.code_hash != new.code_hash:
        return None, "it was of another kernel"
    if changed:
        return None, f"{', '.join(changed)} changed since"
    return None, "it was of another GPU"
