"""Output of `cutegen bench --sweep FILE` for each kernel: a line for each shape, and a summary of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutegen.console import count, print_table
from cutegen.measuring.model import time_text
from cutegen.measuring.shapes import shape_text
from cutegen.measuring.totals import BEHIND
from cutegen.verbs.benching.sweep import Standing, Swept


def print_sweep(sweep: Swept, l2: str) -> None:
    """Prints a sweep to stdout; `l2` is the state of the cache that was asked for."""
    kernel = sweep.benched.unit.kernel
    print(f"{kernel} at {_shapes(len(sweep.standings))} of {sweep.file}")
    print()
    if sweep.standings:
        _print_shapes(sweep, l2)
        print()
    for line in summary(sweep):
        print(line)
    if sweep.worst:
        print()
        print(f"the worst {len(sweep.worst)}" if len(sweep.worst) > 1 else "the worst one")
        columns = ("  shape", "time", "best peer", "against it", "what the call waits for, by the model")
        print_table(columns, [_worst_row(ratio, standing) for ratio, standing in sweep.worst])
    lines = [f"line {u.entry.line}, {_sizes(u.entry.sizes)}: {u.why}" for u in sweep.unfit]
    lines += [f"{f.what if f.shape is None else shape_text(f.shape)}: {f.message}" for f in sweep.failures]
    if lines:
        print()
        print("without a figure")
        for text in lines:
            print(f"  {text}")


def summary(sweep: Swept) -> list[str]:
    """Summarises all shapes, in lines of text."""
    totals = sweep.totals
    compared, mean = len(totals.compared), totals.mean
    missing = [
        f"{count(len(sweep.unfit), 'shape')} refused" * bool(sweep.unfit),
        f"{count(len(sweep.failures), 'failure')}" * bool(sweep.failures),
    ]
    lines = [", ".join([f"{_shapes(len(sweep.standings))} measured", *filter(None, missing)])]
    if mean is None:
        return [*lines, "no peer has a figure"]
    share = f"{totals.behind} of {_shapes(compared)}, {totals.share_behind:.1%}"
    lines.append(f"against the best peer at each of {_shapes(compared)}: {mean:.3f} times as fast (geometric mean)")
    lines.append(f"below {BEHIND} of the best peer: {share}")
    for peer, (of_peer, shapes) in totals.against.items():
        where = "" if shapes == len(sweep.standings) else f", at {_shapes(shapes)}"
        lines.append(f"against {peer}: {of_peer:.3f} (geometric mean{where})")
    return lines


def _print_shapes(sweep: Swept, l2: str) -> None:
    """Prints a table with a line for each shape; columns that say nothing are left out."""
    peers = list(sweep.totals.against)
    kernels, names = (any(found) for found in zip(*((s.kernel, s.name) for s in sweep.standings), strict=True))
    warm = any(s.measured.l2 != l2 for s in sweep.standings)
    columns = ["shape", *["L2"] * warm, "time", "spread", "of limit", *peers, "against the best"]
    columns += ["case: tile"] * kernels + ["name"] * names
    rows = []
    for s in sweep.standings:
        m, share = s.measured, s.measured.of_limit
        row = [shape_text(m.shape), *[m.l2] * warm, time_text(m.timing.us), f"{m.timing.spread:.1%}"]
        row.append("-" if share is None else f"{share:.0%}")
        row += [time_text(m.peers[peer].us) if peer in m.peers else "-" for peer in peers]
        row.append("-" if m.against_best is None else f"{m.against_best:.3f}")
        rows.append(row + [s.kernel] * kernels + [s.name] * names)
    print_table(columns, rows)


def _worst_row(ratio: float, standing: Standing) -> Sequence[str]:
    measured, best = standing.measured, standing.measured.best
    assert best is not None
    kernel = f"case {standing.kernel}; " if standing.kernel else ""
    return (
        f"  {shape_text(measured.shape)}",
        time_text(measured.timing.us),
        f"{best} {time_text(measured.peers[best].us)}",
        f"{ratio:.3f}",
        f"{kernel}{standing.why}",
    )


def _shapes(number: int) -> str:
    return count(number, "shape")


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{mode}={size}" for mode, size in sizes.items())
