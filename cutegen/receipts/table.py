"""Receipts as a Markdown table, and its place in a document."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.measuring.asked import op_of
from cutegen.measuring.limits import products_us
from cutegen.measuring.model import Measured, time_text
from cutegen.project.sources import Unit
from cutegen.receipts.receipt import Receipt

START, END = "<!-- cutegen receipts -->", "<!-- end of cutegen receipts -->"
NONE = "This code has no receipts yet. On a machine with a GPU, run `cutegen bench SPEC --receipts`."
_COLUMNS = ("kernel", "shape", "time", "rate", "of the limit", "against peers")
_LEGEND = """\
Medians, with a cold L2 where nothing else is said. The limit is the time that the GPU's own copies and multiply-adds
would take, measured beside the kernel, or that tensor cores would take at the peak rate of its data sheet, if that is
longer. Against a peer: its time over the kernel's, so above 1 the kernel is faster.
"""


def markdown(receipts: Sequence[tuple[Unit, Receipt]]) -> str:
    """Makes a Markdown table for each GPU and set of versions, with a row for each shape.

    Where nothing was measured it is one sentence.
    """
    groups: dict[tuple[str, ...], list[tuple[Unit, Receipt]]] = {}
    for unit, receipt in sorted(receipts, key=lambda pair: (pair[1].gpu.name, pair[1].kernel)):
        if receipt.measured:
            versions = (f"{name} {version}" for name, version in receipt.versions.items())
            groups.setdefault((receipt.gpu.name, *versions), []).append((unit, receipt))
    if not groups:
        return f"{NONE}\n"
    parts = [_LEGEND]
    for heading, members in sorted(groups.items(), key=lambda group: group[0]):
        rows = [_row(unit, receipt, measured) for unit, receipt in members for measured in receipt.measured]
        lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *map(_line, rows)]
        parts.append("\n".join([f"On {', '.join(heading)}:", "", *lines, ""]))
    return "\n".join(parts)


def put_into(document: str, table: str) -> str:
    """Puts the table between its two markers in a document. Raises ValueError where they do not stand there once."""
    if document.count(START) != 1 or document.count(END) != 1 or document.index(END) < document.index(START):
        raise ValueError(f"it has not one line {START} and one line {END} after that")
    before, rest = document.split(START)
    _, after = rest.split(END)
    end = "\r\n" if "\r\n" in document else "\n"
    block = "\n".join([START, "", table, END])
    return before + block.replace("\n", end) + after


def _row(unit: Unit, receipt: Receipt, measured: Measured) -> list[str]:
    """The cells of one kernel at one shape."""
    sizes = ", ".join(f"{mode} {size}" for mode, size in measured.shape.items())
    operations = op_of(unit.module.spec).rate == "TFLOP/s"
    limit = _of_limit(unit, receipt, measured)
    return [
        receipt.kernel,
        sizes if measured.l2 == "cold" else f"{sizes}, L2 warm",
        time_text(measured.timing.us),
        f"{measured.tflops:.3g} TFLOP/s" if operations else f"{measured.gbs:.4g} GB/s",
        "-" if limit is None else f"{limit:.0%}".replace("%", " %"),
        ", ".join(f"{peer} {measured.against(peer):.2f}" for peer in measured.peers) or "-",
    ]


def _of_limit(unit: Unit, receipt: Receipt, measured: Measured) -> float | None:
    """The share of the limit; that of products on tensor cores counts, too, in receipts that were written without."""
    products = products_us(unit.module.plan.spec, measured.operations, receipt.gpu.name)
    limits = [limit for limit in (measured.limit_us, products) if limit is not None]
    return max(limits) / measured.timing.us if limits else None


def _line(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
