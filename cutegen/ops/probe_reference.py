"""The text of a probe's `reference`: the layout as a table of what each thread reads, or as arithmetic."""

from __future__ import annotations

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.codegen.formatting import WIDTH
from cutegen.codegen.reference import Reference
from cutegen.codegen.torch_expressions import TorchPrinter
from cutegen.expressions.parsing import Name, Typed, walk
from cutegen.language.model import KernelSpec

TABLE_ROWS = 64  # threads, for their values to be listed


def reference_of_probe(spec: KernelSpec, statement: Typed) -> Reference:
    """The reference of a probe: the value of the statement for each (thread, value) of the schedule's `tv_layout`."""
    name = source_of_probe(statement)
    assert statement.stored is not None
    printer = TorchPrinter({name: "result"}, frozenset([name]), {}, WIDTH - 4)
    converted = [line for line in printer.run(statement.stored, "result") if line != "result = result"]
    return Reference((*gather_of_probe(spec, statement), *converted))


def source_of_probe(statement: Typed) -> str:
    """The tensor that is read."""
    return next(node.id for node in walk(statement.value) if isinstance(node, Name))


def gather_of_probe(spec: KernelSpec, statement: Typed) -> tuple[str, ...]:
    """The lines that make `result`: the elements that are read, [thread, value], before they are converted."""
    name = source_of_probe(statement)
    source, layout = spec.tensor(name).argument, spec.schedule.tv_layout
    threads, values = layouts.mode_sizes(layout)
    image = layouts.offsets(layout)
    rows = [[image[t + threads * v] for v in range(values)] for t in range(threads)]
    rank = len(spec.tensor(name).shape)
    flat = source
    if rank > 1:
        flat = f"{source}.permute({', '.join(str(i) for i in reversed(range(rank)))}).reshape(-1)"
    printed = [f"[{', '.join(map(str, row))}]" for row in rows]
    if len(rows) <= TABLE_ROWS and max(len(row) for row in printed) <= WIDTH - 13:
        table = [f"        {row}," for row in printed]
        lines = ["# Row: thread, column: value", "probe_index = torch.tensor(", "    [", *table, "    ],"]
        lines += [f"    device={source}.device,", ")"]
    else:
        lines = [
            "# The layout, written out: value = sum over its modes of coordinate * stride",
            *_enumerate(layout, source),
        ]
    return (*lines, f"result = {flat}[probe_index]")


def _enumerate(layout: Layout, source: str) -> list[str]:
    """index[t, v] built from the layout's modes, for layouts too large to list."""
    lines = []
    for name, mode in zip(("thread_offsets", "value_offsets"), layouts.modes_of(layout), strict=True):
        lines.append(f"{name} = torch.zeros(1, dtype=torch.int64, device={source}.device)")
        for extent, stride in layouts.leaves(mode):
            lines.append(f"mode_offsets = torch.arange({extent}, device={source}.device) * {stride}")
            lines.append(f"{name} = (mode_offsets[:, None] + {name}[None, :]).reshape(-1)")
    return [*lines, "probe_index = thread_offsets[:, None] + value_offsets[None, :]"]
