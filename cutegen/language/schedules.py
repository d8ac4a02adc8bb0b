"""The schedule of each op as its model class; keys that would have no effect are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cutegen.language.context import Context
from cutegen.language.dtypes import Dtype
from cutegen.language.expressions import Assignment
from cutegen.language.model import (
    Copy,
    ElementwiseSchedule,
    GemmSchedule,
    Mma,
    Predicate,
    ProbeSchedule,
    Schedule,
    Scheduler,
    Tensor,
    Workspace,
)
from cutegen.language.names import shown, suggestion

# partition -> the keys that it reads, of those that not all partitions read
PARTITION_KEYS = {
    "inner": ("tiler", "threads"),
    "inner_outer": ("tiler", "thread_layout"),
    "thread_value": ("thread_layout", "value_layout"),
}


def schedule(ctx: Context, tensors: tuple[Tensor, ...], assignment: Assignment | None) -> Schedule:
    """The schedule as written. Without an `assignment`, what depends on it is left unchecked: that has been said."""
    data: Mapping[str, Any] = ctx.data.get("schedule", {})
    known = {t.name: t for t in tensors}
    match ctx.data["op"]:
        case "gemm":
            return _gemm(ctx, data, known, assignment)
        case "probe":
            source = next((known[n] for n in assignment.names() if n in known), None) if assignment else None
            tiler = _tiler(ctx, data, source.shape if source else None)
            layout = ctx.layout(data["tv_layout"], "schedule", "tv_layout", injective=False)
            if layout is not None and not (isinstance(layout.shape, tuple) and len(layout.shape) == 2):
                message = "a thread-value layout has two modes, (thread, value)"
                help = "write one like ((2,2),(2,3)):((2,12),(1,4))"
                ctx.say("CG201", message, "schedule", "tv_layout", help=help)
            return ProbeSchedule(layout, tiler)
    return _elementwise(ctx, data, known[assignment.target].shape if assignment else None)


def _tiler(ctx: Context, data: Mapping[str, Any], modes: tuple[str, ...] | None) -> dict[str, int] | None:
    return _by_mode(ctx, data, modes, "tiler") if "tiler" in data else None


def _by_mode(ctx: Context, data: Mapping[str, Any], modes: tuple[str, ...] | None, *keys: str) -> dict[str, Any]:
    values = dict(data.get(keys[-1], {}))
    for mode in values:
        if modes is not None and mode not in modes:
            ctx.unknown_mode(mode, modes, "schedule", *keys, mode)
    return values


def _copy(ctx: Context, data: Mapping[str, Any], *path: str) -> Copy:
    thread = ctx.layout(data.get("thread_layout"), *path, "thread_layout")
    value = ctx.layout(data.get("value_layout"), *path, "value_layout")
    return Copy(data.get("atom"), data.get("bits"), thread, value, data.get("evict_priority"))


def _scheduler(ctx: Context, data: Mapping[str, Any], modes: tuple[str, ...] | None) -> Scheduler:
    """`modes` are those that the tiles are walked along."""
    fields: Mapping[str, Any] = data.get("scheduler", {})
    raster = fields.get("raster")
    if raster is not None and modes is not None and raster not in modes:
        ctx.unknown_mode(raster, modes, "schedule", "scheduler", "raster", key=False)
    return Scheduler(raster, fields.get("swizzle"))


def _elementwise(ctx: Context, data: Mapping[str, Any], modes: tuple[str, ...] | None) -> ElementwiseSchedule:
    partition = data.get("partition")
    given = [key for key in ("tiler", "threads", "thread_layout", "value_layout") if key in data]
    if partition is not None:
        applies = PARTITION_KEYS[partition]
        for key in given:
            if key not in applies:
                message = f"`{key}` does not apply to the partition {partition}"
                notes = [f"{partition} takes {' and '.join(applies)}"]
                if key == "tiler":
                    notes.append("its tiler follows from the two layouts")
                ctx.say("CG203", message, "schedule", key, key=True, notes=tuple(notes), help=f"remove `{key}`")
    elif not any(set(given) <= set(keys) for keys in PARTITION_KEYS.values()):
        choices = tuple(f"{name} takes {' and '.join(keys)}" for name, keys in PARTITION_KEYS.items())
        message = f"no partition takes {', '.join(given)} together"
        help = "say which one with `partition:`"
        ctx.say("CG203", message, "schedule", given[-1], key=True, notes=choices, help=help)
    return ElementwiseSchedule(
        partition=partition,
        tiler=_tiler(ctx, data, modes),
        threads=data.get("threads"),
        thread_layout=ctx.layout(data.get("thread_layout"), "schedule", "thread_layout"),
        value_layout=ctx.layout(data.get("value_layout"), "schedule", "value_layout"),
        copy=_copy(ctx, data.get("copy", {}), "schedule", "copy"),
        predication=_by_mode(ctx, data, modes, "predication"),
        scheduler=_scheduler(ctx, data, modes),
    )


def _gemm(
    ctx: Context, data: Mapping[str, Any], known: Mapping[str, Tensor], assignment: Assignment | None
) -> GemmSchedule:
    modes: tuple[str, ...] | None = None
    operands: tuple[str, ...] | None = None
    if assignment and assignment.matmul:
        operands = (assignment.matmul.a, assignment.matmul.b)
        modes = (*known[assignment.target].shape, known[operands[0]].shape[1])
    mma: Mapping[str, Any] = data.get("mma", {})
    permutation = {
        mode: ctx.layout(value, "schedule", "mma", "permutation", mode)
        for mode, value in _by_mode(ctx, mma, modes, "mma", "permutation").items()
    }
    accumulator = mma.get("accumulator")
    copies: Mapping[str, Any] = data.get("copies", {})
    smem: Mapping[str, Any] = data.get("smem", {})
    for tensor in copies:
        if tensor not in known:
            _unknown_tensor(ctx, tensor, tuple(known), "copies")
    _only_operands(ctx, smem, known, operands, "smem", "shared memory")
    predication: dict[str, Predicate] = _by_mode(ctx, data, modes, "predication")
    for mode, predicate in predication.items():
        if modes and mode in modes[:2] and predicate == "residue_first":
            message = f"`residue_first` guards the mode that is summed over, `{modes[2]}`, not `{mode}`"
            ctx.say("CG207", message, "schedule", "predication", mode, help="write `mask`")
    columns = {
        tensor: ctx.layout(fields.get("layout"), "schedule", "smem", tensor, "layout")
        for tensor, fields in smem.items()
    }
    return GemmSchedule(
        tiler=_tiler(ctx, data, modes),
        mma=Mma(
            mma.get("atom"),
            ctx.layout(mma.get("thread_layout"), "schedule", "mma", "thread_layout"),
            {mode: layout for mode, layout in permutation.items() if layout is not None},
            Dtype(accumulator) if accumulator else None,
        ),
        copies={tensor: _copy(ctx, fields, "schedule", "copies", tensor) for tensor, fields in copies.items()},
        workspace=_workspaces(ctx, data, known, operands),
        smem_pad={tensor: fields["pad"] for tensor, fields in smem.items() if "pad" in fields},
        smem_layout={tensor: layout for tensor, layout in columns.items() if layout is not None},
        stages=data.get("pipeline", {}).get("stages"),
        store=data.get("pipeline", {}).get("store"),
        predication=predication,
        scheduler=_scheduler(ctx, data, modes[:2] if modes else None),
    )


def _workspaces(
    ctx: Context, data: Mapping[str, Any], known: Mapping[str, Tensor], operands: tuple[str, ...] | None
) -> dict[str, Workspace]:
    fields: Mapping[str, Any] = data.get("workspace", {})
    _only_operands(ctx, fields, known, operands, "workspace", "a workspace")
    found = {}
    for tensor, space in fields.items():
        where = ("schedule", "workspace", tensor)
        if tensor in known and space["major"] not in known[tensor].shape:
            ctx.unknown_mode(space["major"], known[tensor].shape, *where, "major", key=False)
        found[tensor] = Workspace(space["major"], ctx.layout(space.get("thread_layout"), *where, "thread_layout"))
    return found


def _only_operands(
    ctx: Context,
    names: Iterable[str],
    known: Mapping[str, Tensor],
    operands: tuple[str, ...] | None,
    field: str,
    through: str,
) -> None:
    """Refuses tensors that are none of the product's operands; `through` is where those pass, in words."""
    for tensor in names:
        if tensor not in known:
            _unknown_tensor(ctx, tensor, operands or tuple(known), field)
        elif operands and tensor not in operands:
            help = f"{through} holds {' and '.join(operands)}"
            message = f"`{tensor}` does not go through {through}"
            ctx.say("CG203", message, "schedule", field, tensor, key=True, help=help)


def _unknown_tensor(ctx: Context, name: str, known: tuple[str, ...], field: str) -> None:
    help = suggestion(name, known, "tensors")
    ctx.say("CG204", f"`{shown(name)}` is not a tensor of this kernel", "schedule", field, name, key=True, help=help)
