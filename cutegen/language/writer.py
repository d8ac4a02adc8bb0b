"""A kernel spec as YAML text: keys in the language's order, compact, with every field that is filled in.

`read_specs(write_spec(spec))[0] == spec` holds for every spec that `read_specs` accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tensor_layouts import Layout

from cutegen.language.layouts import format_layout
from cutegen.language.model import (
    Copy,
    Count,
    ElementwiseSchedule,
    Expect,
    GemmSchedule,
    KernelSpec,
    Path,
    ProbeSchedule,
    Schedule,
    Scheduler,
    Tensor,
    Verify,
    Workspace,
)
from cutegen.language.scalars import resolve

# Mappings whose entries stand on a line of their own each; what is inside such an entry is in flow style.
_BLOCKS: tuple[Path, ...] = (
    ("tensors",),
    ("schedule",),
    ("schedule", "mma"),
    ("schedule", "mma", "permutation"),
    ("schedule", "copies"),
    ("schedule", "workspace"),
    ("tune",),
    ("verify",),
    ("bench",),
    ("expect",),
)
# A plain scalar that YAML reads back as it stands, whatever surrounds it.
_PLAIN = re.compile(r"[A-Za-z0-9_.(/+$][^\x00-\x1f\x7f-\uffff\U00010000-\U0010ffff]*\Z")
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\x85": "\\N",
    "\u2028": "\\L",
    "\u2029": "\\P",
}


def write_spec(spec: KernelSpec, comments: Mapping[Path, str] | None = None, header: str = "") -> str:
    """The spec's text. `header` comes first, as it is.

    `comments` puts `# text` behind the value at a path, or above its line where the value is inside braces. A path
    that the text does not hold belongs to the nearest enclosing one that it does.
    """
    writer = _Writer({path: " ".join(text.split()) for path, text in (comments or {}).items()})
    for key, value in as_data(spec).items():
        writer.entry((key,), value)
    head = header if not header or header.endswith("\n") else header + "\n"
    return head + "\n".join(writer.lines) + "\n"


def as_data(spec: KernelSpec) -> dict[str, Any]:
    """The spec as plain data in the language's order of keys; layouts and counts stay as they are."""
    return _filled(
        {
            "cutegen": 1,
            "kernel": spec.kernel,
            "summary": spec.summary or None,
            "op": spec.op,
            "tensors": {tensor.name: _tensor(tensor) for tensor in spec.tensors},
            "scalars": {scalar.name: scalar.dtype.value for scalar in spec.scalars} or None,
            "compute": spec.compute.text,
            "schedule": _schedule(spec.schedule) or None,
            "tune": {path: list(values) for path, values in spec.tune.items()} or None,
            "targets": list(spec.targets) or None,
            "static": dict(spec.static) or None,
            "divisible": dict(spec.divisible) or None,
            "verify": _verify(spec.verify) or None,
            "bench": {"shapes": [dict(shape) for shape in spec.bench.shapes]} if spec.bench.shapes else None,
            "expect": _expect(spec.expect) or None,
        }
    )


def _filled(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value is not None}


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return _filled(
        {
            "shape": list(tensor.shape),
            "dtype": tensor.dtype.value,
            "major": tensor.major,
            "align": tensor.align,
            "role": None if tensor.role == "in" else tensor.role,
        }
    )


def _copy(copy: Copy) -> dict[str, Any]:
    fields = {"atom": copy.atom, "bits": copy.bits, "evict_priority": copy.evict_priority}
    return _filled({**fields, "thread_layout": copy.thread_layout, "value_layout": copy.value_layout})


def _schedule(schedule: Schedule) -> dict[str, Any]:
    match schedule:
        case ElementwiseSchedule():
            return _filled(
                {
                    "partition": schedule.partition,
                    "tiler": _optional(schedule.tiler),
                    "threads": schedule.threads,
                    "thread_layout": schedule.thread_layout,
                    "value_layout": schedule.value_layout,
                    "copy": _copy(schedule.copy) or None,
                    "predication": dict(schedule.predication) or None,
                    "scheduler": _scheduler(schedule.scheduler) or None,
                }
            )
        case GemmSchedule(mma=mma):
            inner = {
                "atom": mma.atom,
                "thread_layout": mma.thread_layout,
                "permutation": dict(mma.permutation) or None,
                "accumulator": mma.accumulator.value if mma.accumulator else None,
            }
            return _filled(
                {
                    "tiler": _optional(schedule.tiler),
                    "mma": _filled(inner) or None,
                    "copies": {name: _copy(copy) for name, copy in schedule.copies.items()} or None,
                    "workspace": {name: _workspace(space) for name, space in schedule.workspace.items()} or None,
                    "smem": _smem(schedule) or None,
                    "pipeline": _filled({"stages": schedule.stages, "store": schedule.store}) or None,
                    "predication": dict(schedule.predication) or None,
                    "scheduler": _scheduler(schedule.scheduler) or None,
                }
            )
        case ProbeSchedule():
            return _filled({"tv_layout": schedule.tv_layout, "tiler": _optional(schedule.tiler)})


def _workspace(workspace: Workspace) -> dict[str, Any]:
    return _filled({"major": workspace.major, "thread_layout": workspace.thread_layout})


def _smem(schedule: GemmSchedule) -> dict[str, Any]:
    layouts, pads = schedule.smem_layout, schedule.smem_pad
    names = dict.fromkeys((*pads, *layouts))
    return {name: _filled({"layout": layouts.get(name), "pad": pads.get(name)}) for name in names}


def _scheduler(scheduler: Scheduler) -> dict[str, Any]:
    return _filled({"raster": scheduler.raster, "swizzle": scheduler.swizzle})


def _optional(mapping: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if mapping is None else dict(mapping)


def _verify(verify: Verify) -> dict[str, Any]:
    tolerance = _filled({"rtol": verify.rtol, "atol": verify.atol})
    return _filled({"shapes": [dict(shape) for shape in verify.shapes] or None, "tolerance": tolerance or None})


def _expect(expect: Expect) -> dict[str, Any]:
    counts = {"spills": expect.spills, "registers": expect.registers, "bank_clashes": expect.bank_clashes}
    return _filled({**counts, "sass": dict(expect.sass) or None})


class _Writer:
    def __init__(self, comments: Mapping[Path, str]) -> None:
        self.comments = dict(comments)
        self.lines: list[str] = []

    def entry(self, path: Path, value: Any) -> None:
        """`key: value` at `path`, over as many lines as it takes."""
        margin = "  " * (len(path) - 1)
        start = f"{margin}{_text(str(path[-1]), flow=False)}:"
        if isinstance(value, dict) and value and path in _BLOCKS:
            self.line(start, margin, path, self.own(path) + self.stray(path, value))
            for key, inner in value.items():
                self.entry((*path, key), inner)
        elif path in (("verify", "shapes"), ("bench", "shapes")):
            self.line(start, margin, path, self.own(path))
            for i, shape in enumerate(value):
                self.leaf(f"{margin}  - {_flow(shape)}", margin + "  ", (*path, i))
        else:
            self.leaf(f"{start} {_value(value, flow=False)}", margin, path)

    def leaf(self, text: str, margin: str, path: Path) -> None:
        for inner in [p for p in self.comments if len(p) > len(path) and p[: len(path)] == path]:
            place = ".".join(map(str, inner[len(path) :]))
            self.lines.append(f"{margin}# {place}: {self.comments.pop(inner)}")
        self.line(text, margin, path, self.own(path))

    def own(self, path: Path) -> list[str]:
        return [self.comments.pop(path)] if path in self.comments else []

    def stray(self, path: Path, value: Mapping[str, Any]) -> list[str]:
        """Comments below a block whose key the block does not hold."""
        depth = len(path)
        inner = [p for p in self.comments if len(p) > depth and p[:depth] == path and p[depth] not in value]
        return [f"{'.'.join(map(str, p[depth:]))}: {self.comments.pop(p)}" for p in inner]

    def line(self, text: str, margin: str, path: Path, remarks: list[str]) -> None:
        self.lines += [f"{margin}# {remark}" for remark in remarks[1:]]
        self.lines.append(f"{text}  # {remarks[0]}" if remarks else text)


def _flow(value: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{_text(str(k), flow=True)}: {_value(v, flow=True)}" for k, v in value.items()) + "}"


def _value(value: Any, flow: bool) -> str:
    match value:
        case dict():
            return _flow(value)
        case list():
            return "[" + ", ".join(_value(item, flow=True) for item in value) + "]"
        case Layout():
            return _text(format_layout(value), flow)
        case Count():
            return str(value) if value.relation == "==" else _text(str(value), flow)
        case float():
            return _number(value)
        case int():
            return str(value)
    return _text(str(value), flow)


def _number(value: float) -> str:
    """A float that is one in every version of YAML: `1e-05` is a text in 1.1, `1.0e-05` is not."""
    mantissa, e, exponent = repr(value).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"


def _text(text: str, flow: bool) -> str:
    """A text that holds no placeholder, as a scalar."""
    return scalar(text.replace("{", "{{").replace("}", "}}"), flow)


def scalar(text: str, flow: bool) -> str:
    """A text as a scalar: plain where that reads back as the same text, else in double quotes. `flow`: inside { }."""
    safe = (
        _PLAIN.match(text)
        and not text.endswith((" ", ":"))
        and ": " not in text
        and " #" not in text
        and not text.startswith("...")
        and not (flow and any(c in text for c in ",?[]{}"))
        and isinstance(resolve(text[:300]), str)
    )
    if safe:
        return text
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escape(c)) for c in text) + '"'


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04X}" if number < 0x10000 else f"\\U{number:08X}"
