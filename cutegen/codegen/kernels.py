"""What the kernel side of a generated module prints, but for what only a gemm has. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from tensor_layouts import Layout

from cutegen.codegen.constants import LARGEST, Constants
from cutegen.codegen.expressions import KernelPrinter
from cutegen.codegen.formatting import WIDTH, call, python_tuple
from cutegen.codegen.gemm import gemm_context
from cutegen.codegen.origins import elementwise_constants, origins
from cutegen.codegen.workspaces import workspace_texts
from cutegen.language.dtypes import Dtype
from cutegen.language.expressions import Name
from cutegen.language.model import Tensor
from cutegen.planning.layouts import show
from cutegen.planning.plan import ElementwisePlan, GemmPlan, Operand, Plan, ProbePlan

DIVISOR = "cute.FastDivmodDivisorV2"


@dataclass(frozen=True)
class OperandText:
    """An operand of the pointwise part, as text."""

    tensor: Tensor
    variable: str
    vector_text: str  # VECTOR, or the elements of an access of an operand that moves fewer
    predicate: list[str]
    broadcast: tuple[str, ...]
    strides: str
    write: bool
    values: str  # of a thread, or of a slice of them
    loading: list[str]  # arguments of the copy atom that loads it
    storing: list[str]
    fragment: str  # what its registers are like
    result: str  # what the registers of the result are like
    memory: str  # where the result is copied to
    truth: str  # a bool is a byte in memory: what turns it into a condition


def kernel_context(plan: Plan) -> dict[str, Any]:
    """Everything that the kernel's template prints, and the module's constants."""
    spec = plan.spec
    context: dict[str, Any] = {
        "kernel": spec.kernel,
        "plan": plan,
        "output": spec.output,
        "O": spec.output.name,
        "uses_cp_async": isinstance(plan, GemmPlan) and plan.uses_cp_async,
        "rank": len(spec.output.shape),
        **_parameters(plan),
        **origins(plan),
    }
    if isinstance(plan, ProbePlan):
        return context | _probe(plan)
    context |= _pointwise(plan)
    return context | (gemm_context(plan) if isinstance(plan, GemmPlan) else _elementwise(plan))  # type: ignore[arg-type]


def _parameters(plan: Plan) -> dict[str, Any]:
    spec = plan.spec
    tensors = [f"m{t.name}: cute.Tensor" for t in spec.tensors]
    scalars = [f"{s.name}: cutlass.{s.dtype.cutlass}" for s in spec.scalars]
    extra: list[str] = []
    prepared: dict[str, str] = {}  # what the launch passes instead of something of the same name
    spaces: list[str] = []
    if isinstance(plan, GemmPlan):
        spaces = [f"{x.parameter}: cute.Tensor" for x in workspace_texts(plan)]
        prepared = {f"m{x.name}": x.parameter for x in workspace_texts(plan)}
        for x in (plan.a, plan.b):
            extra += [f"s{x.tensor.name}_layout: cute.Layout", f"tiled_copy_{x.tensor.name}: cute.TiledCopy"]
        extra.append("tiled_mma: cute.TiledMma")
    elif isinstance(plan, ElementwisePlan):
        extra = ["tv_layout: cute.Layout"] if plan.partition == "thread_value" else []
        extra += [f"{divisor}: {DIVISOR}" for divisor in _divisors(plan)]
        prepared = {d: f"{DIVISOR}(tiles[{i}])" for d, i in zip(_divisors(plan), plan.tile_order, strict=False)}
    parameters = [*tensors, *extra, *scalars]
    names = [p.split(":")[0] for p in parameters]
    return {
        "kernel_parameters": parameters,
        "kernel_arguments": [prepared.get(name, name) for name in names],
        "launch_parameters": [*tensors, *scalars, *spaces, "stream: cuda.CUstream"],
    }


def _divisors(plan: ElementwisePlan) -> list[str]:
    """The numbers of tiles that a tile's number is divided by, in that order."""
    return [f"tiles_{plan.spec.output.shape[i]}" for i in plan.tile_order[:-1]]


def _operand(plan: Plan, o: Operand) -> OperandText:
    spec, name = plan.spec, plan.spec.output.name
    narrow = o.vector != plan.pointwise.vector
    masked = bool(plan.pointwise.masked)
    values = f"t{name}g{o.tensor.name}" + ("[None, part]" if plan.pointwise.sliced else "")
    predicate = [f"pred=t{name}p{name}_{o.vector}" if narrow else f"pred=t{name}p{name}"] if masked else []
    strides = [
        "0" if m in o.broadcast else f"m{o.tensor.name}.stride[{o.tensor.shape.index(m)}]" for m in spec.output.shape
    ]
    return OperandText(
        tensor=o.tensor,
        variable=o.tensor.argument,
        vector_text=str(o.vector) if narrow else "VECTOR",
        predicate=predicate,
        broadcast=o.broadcast,
        strides=f"({', '.join(strides)})",
        write=o.write,
        values=values,
        loading=_atom(o, "CopyG2ROp"),
        storing=_atom(o, "CopyR2GOp"),
        # In the kernel a u8 tensor says it holds i8
        fragment=values + (", cutlass.Uint8" if o.tensor.dtype is Dtype.u8 else ""),
        # A bool is written as a byte of its own making: left to the compiler, true may come out with all bits set
        result=values + (", cutlass.Uint8" if o.tensor.dtype in (Dtype.u8, Dtype.bool) else ""),
        memory=f"cute.recast_tensor({values}, cutlass.Uint8)" if o.tensor.dtype is Dtype.bool else values,
        truth=" != 0" if o.tensor.dtype is Dtype.bool and not isinstance(plan.pointwise.value, Name) else "",
    )


def _atom(o: Operand, special: str) -> list[str]:
    """Arguments of `make_copy_atom` for an access to global memory; only the `special` copies know of caches."""
    plain = o.evict_priority == "evict_normal"
    op = "CopyUniversalOp" if plain else special
    items = [f"cute.nvgpu.{op}()", f"m{o.tensor.name}.element_type", f"num_bits_per_copy={o.bits}"]
    priority = f"l1c_evict_priority=cute.nvgpu.CacheEvictionPriority.{o.evict_priority.upper()}"
    return items if plain else [*items, priority]


def _pointwise(plan: Plan) -> dict[str, Any]:
    """Loads, the expression, and the store: shared by elementwise kernels and epilogues."""
    spec, point, name = plan.spec, plan.pointwise, plan.spec.output.name
    operands = [_operand(plan, o) for o in point.operands]
    taken, inside = ("SLICE", 4) if point.sliced else ("VALUES", 0)
    reshape = f".reshape(({taken},))" if point.reshape else ""
    names = {t.name: t.argument for t in spec.tensors} | {s.name: s.name for s in spec.scalars}
    anchors = [t.variable for o, t in zip(point.operands, operands, strict=True) if o.read]
    anchors += ["product"] if isinstance(plan, GemmPlan) else []
    tensors = frozenset(t.name for t in spec.tensors)
    printer = KernelPrinter(names, tensors, "product", WIDTH - 4 - inside, anchors[0] if anchors else None)
    statements = printer.run(point.value, "result")
    result = "result"
    if statements[-1].removeprefix("result = ").isidentifier():  # a bare copy needs no second name
        result = statements.pop().removeprefix("result = ")
    fragment = f"t{name}r{name}_out"
    if spec.output.dtype is Dtype.bool:
        result = f"{result}.to(cutlass.Uint8)"
    if printer.uniform(point.value) and not printer.spread_out:
        store = f"{fragment}.fill({result})"
    elif point.reshape:
        store = f"{fragment}.store({result}.reshape({fragment}.shape))"
    else:
        store = f"{fragment}.store({result})"
    masked = point.masked
    checked = [i for i, m in enumerate(spec.output.shape) if m in masked]
    sides = (tuple(f"coord[{i}]" for i in checked), tuple(f"m{name}.shape[{i}]" for i in checked))
    terms = [side[0] if len(side) == 1 else python_tuple(side) for side in sides if side]
    return {
        "operands": operands,
        "loaded": [t for o, t in zip(point.operands, operands, strict=True) if o.read],
        "stored": next(t for t in operands if t.write),
        "narrow_widths": [(v, point.vector // v) for v in sorted({o.vector for o in point.operands} - {point.vector})],
        "accesses": f"{taken} // VECTOR",
        "mask_coordinate": f"t{name}c{name}[" + ("(0, vector), part]" if point.sliced else "vector * VECTOR]"),
        "fit": partial(call, width=WIDTH - inside),
        "masked": masked,
        "all_masked": len(masked) == len(spec.output.shape),
        "mask_terms": terms,
        "guard_tiles": isinstance(plan, ElementwisePlan) and plan.guard_tiles,
        "reshape": reshape,
        "statements": statements,
        "store": store,
        "accumulator": f"product = accumulators[None, part].load(){reshape}{' * one' if point.times_one else ''}"
        if point.sliced
        else "",
    }


def _nones(rank: int) -> str:
    return python_tuple(("None",) * rank)


def _elementwise(plan: ElementwisePlan) -> dict[str, Any]:
    output, keys = plan.spec.output, elementwise_constants(plan)
    what = "of a thread" if plan.partition == "inner" else "of a thread block"
    constants: Constants = [
        ("TILER", python_tuple(plan.tiler), f"({', '.join(output.shape)}) {what}", keys["TILER"]),
        ("THREADS", str(plan.threads), "of a thread block", keys["THREADS"]),
        ("VALUES", str(plan.pointwise.values), "of a thread", keys["VALUES"]),
        ("VECTOR", str(plan.pointwise.vector), "elements of one access", keys["VECTOR"]),
        LARGEST,
    ]

    def thread_values(tile: str) -> str:
        """What a thread owns of a tile: of its own for inner, of the block's else."""
        match plan.partition:
            case "thread_value":
                return f"cute.composition({tile}, tv_layout)[tidx, None]"
            case "inner_outer":
                return f"cute.local_partition({tile}, thr_layout, tidx)"
        return tile if plan.value_layout is None else f"cute.composition({tile}, val_layout)"

    share = "This thread's values of it"
    runs: dict[str, Any] = {"run": None}
    if plan.partition == "inner_outer" and plan.thread_layout is not None:
        share = f"Of every {show(plan.thread_layout.shape)} {'elements' if plan.run is None else 'runs'} of it one"
        if plan.run is not None:
            runs = _runs(plan.thread_layout, plan.run, plan.tiler)
    return {
        "kernel_template": "elementwise.py.j2",
        "constants": constants,
        "tile_names": ", ".join(f"g{o.tensor.name}" for o in plan.pointwise.operands),
        "value_profiles": _profiles(plan),
        "nones": _nones(len(plan.tiler)),
        **_walk(plan),
        "partition_template": f"parts/partition_{'inner' if plan.partition == 'inner' else 'block'}.j2",
        "share": share,
        **runs,
        "thread_values": thread_values,
    }


def _runs(threads: Layout, run: tuple[int, ...], tiler: tuple[int, ...]) -> dict[str, Any]:
    """Of a tile that is dealt out in runs: its shape then, and its coordinates' thread, one for all of a run."""
    shape, stride = ((x,) if isinstance(x, int) else tuple(x) for x in (threads.shape, threads.stride))
    return {
        "run": python_tuple(["VECTOR" if extent > 1 else "1" for extent in run]),
        "tile_in_runs": (run, *(extent // own for extent, own in zip(tiler, run, strict=True))),
        "run_layout": Layout((1, *shape), (0, *stride)),
    }


def _walk(plan: ElementwisePlan) -> dict[str, Any]:
    """From the number of a tile to its coordinate: a block's, or a thread's for inner."""
    modes = [plan.spec.output.shape[i] for i in plan.tile_order]
    last = f"tile_{modes[-1]}"
    number = "bidx * THREADS + tidx" if plan.partition == "inner" else "bidx"
    steps = []  # quotient and remainder, what is divided, and by what
    for mode, divisor in zip(modes, _divisors(plan), strict=False):
        quotient = last if mode == modes[-2] else "rest"
        steps.append((f"{quotient}, tile_{mode}", number, divisor))
        number = "rest"
    alone = len(modes) == 1
    return {
        "walkers": "Threads" if plan.partition == "inner" else "Blocks",
        "raster": modes[0],
        "tile_walk": steps,
        "tile_coordinate": number if alone else python_tuple([f"tile_{mode}" for mode in plan.spec.output.shape]),
        "slowest": modes[-1],
        "slowest_tile": number if alone else last,
    }


def _profiles(plan: Plan) -> str:
    """`tDgS, tDgD: ((8,4))`: what a thread holds, operands of one width together."""
    widths: dict[int, list[str]] = {}
    for o in plan.pointwise.operands:
        widths.setdefault(o.vector, []).append(f"t{plan.spec.output.name}g{o.tensor.name}")
    values = plan.pointwise.values
    return "; ".join(f"{', '.join(names)}: {show(((v, values // v),))}" for v, names in widths.items())


def _probe(plan: ProbePlan) -> dict[str, Any]:
    source, output = plan.source, plan.spec.output
    printer = KernelPrinter({source.name: source.argument}, frozenset(), None, WIDTH - 8)
    printed = printer.print(plan.pointwise.value).text
    element = f"t{output.name}g{source.name}[value_idx]"
    if source.dtype is Dtype.u8:  # in the kernel a u8 tensor says it holds i8
        element = f"cutlass.Uint8({element})"
    constants: Constants = [
        ("THREADS", str(plan.threads), "", "schedule.tv_layout"),
        ("VALUES", str(plan.values), "of a thread", "schedule.tv_layout"),
        LARGEST,
    ]
    return {
        "kernel_template": "probe.py.j2",
        "constants": constants,
        "source": source,
        "operands": [],
        "probe_element": element,
        "probe_value": printed,
        "O": output.name,
    }
