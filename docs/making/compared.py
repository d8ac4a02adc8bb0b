"""How the kernels of the repository compare with their peers, counted over the table of receipts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from making.repository import read

ALIKE = 0.02  # of a time: below that two are as fast
_PEER = re.compile(r"(.+) ([0-9.]+)$")
_CUBLAS = ", then torch"


@dataclass(frozen=True)
class Against:
    """One figure: how many times as fast as a peer a kernel was at one shape."""

    kernel: str
    shape: str
    peer: str
    times: float


def figures() -> Iterator[Against]:
    """All figures of the table of receipts that have a peer."""
    for line in read("docs/receipts.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| ") or len(cells) != 6 or cells[0] in ("kernel", "---") or cells[5] == "-":
            continue
        text = cells[5].replace(_CUBLAS, "")  # whose name has a comma
        for part in text.split(", "):
            found = _PEER.match(part)
            assert found is not None, line
            name = found[1] + _CUBLAS * (f"{found[1]}{_CUBLAS} " in cells[5])
            yield Against(cells[0], cells[1], name, float(found[2]))


def table() -> str:
    """A row for each peer: at how many shapes the kernel was faster, as fast and slower, and by how much."""
    by_peer: dict[str, list[Against]] = {}
    for figure in figures():
        by_peer.setdefault(figure.peer, []).append(figure)
    lines = [
        "| peer | shapes | faster | as fast | slower | least | median | most |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for peer, found in sorted(by_peer.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        times = sorted(found, key=lambda one: one.times)
        faster = sum(one.times > 1 + ALIKE for one in found)
        slower = sum(one.times < 1 - ALIKE for one in found)
        least, most = (f"{one.times:.2f} ({one.kernel})" for one in (times[0], times[-1]))
        middle = median(one.times for one in found)
        alike = len(found) - faster - slower
        lines.append(f"| {peer} | {len(found)} | {faster} | {alike} | {slower} | {least} | {middle:.2f} | {most} |")
    return "\n".join(lines)
