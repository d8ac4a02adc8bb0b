"""What the kernel side of a generated module prints, one function an op. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensor_layouts import Layout

from cutegen.codegen.expressions import KernelPrinter
from cutegen.codegen.formatting import WIDTH, call, make_layout, python_tuple
from cutegen.codegen.origins import elementwise_constants, origins
from cutegen.language.dtypes import Dtype
from cutegen.language.expressions import Name
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.layouts import show
from cutegen.planning.plan import ElementwisePlan, GemmOperand, GemmPlan, Operand, Plan, ProbePlan

Constants = list[tuple[str, str, str, str]]  # name, value, comment, key of the spec
LARGEST = ("LARGEST", "2**31 - 2**21", "size: 32-bit coordinates reach a tile beyond it", "")


@dataclass(frozen=True)
class OperandText:
    """An operand of the pointwise part, as text."""

    tensor: Tensor
    variable: str
    bits: int
    vector_text: str  # VECTOR, or the elements of an access of an operand that moves fewer
    element: str
    predicate: list[str]
    broadcast: tuple[str, ...]
    strides: str
    write: bool
    fragment: str  # what its registers are like
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
    return context | (_gemm(plan) if isinstance(plan, GemmPlan) else _elementwise(plan))  # type: ignore[arg-type]


def _parameters(plan: Plan) -> dict[str, Any]:
    spec = plan.spec
    tensors = [f"m{t.name}: cute.Tensor" for t in spec.tensors]
    scalars = [f"{s.name}: cutlass.{s.dtype.cutlass}" for s in spec.scalars]
    extra: list[str] = []
    if isinstance(plan, GemmPlan):
        for x in (plan.a, plan.b):
            extra += [f"s{x.tensor.name}_layout: cute.Layout", f"tiled_copy_{x.tensor.name}: cute.TiledCopy"]
        extra.append("tiled_mma: cute.TiledMma")
    elif isinstance(plan, ElementwisePlan) and plan.partition == "thread_value":
        extra = ["tv_layout: cute.Layout"]
    parameters = [*tensors, *extra, *scalars]
    return {
        "kernel_parameters": parameters,
        "kernel_arguments": [p.split(":")[0] for p in parameters],
        "launch_parameters": [*tensors, *scalars, "stream: cuda.CUstream"],
    }


def _operand(plan: Plan, o: Operand) -> OperandText:
    spec, name = plan.spec, plan.spec.output.name
    narrow = o.vector != plan.pointwise.vector
    masked = bool(plan.pointwise.masked)
    predicate = [f"pred=t{name}p{name}_{o.vector}" if narrow else f"pred=t{name}p{name}"] if masked else []
    strides = [
        "0" if m in o.broadcast else f"m{o.tensor.name}.stride[{o.tensor.shape.index(m)}]" for m in spec.output.shape
    ]
    return OperandText(
        tensor=o.tensor,
        variable=o.tensor.argument,
        bits=o.bits,
        vector_text=str(o.vector) if narrow else "VECTOR",
        element=f"m{o.tensor.name}.element_type",
        predicate=predicate,
        broadcast=o.broadcast,
        strides=f"({', '.join(strides)})",
        write=o.write,
        # In the kernel a u8 tensor says it holds i8
        fragment=f"t{name}g{o.tensor.name}" + (", cutlass.Uint8" if o.tensor.dtype is Dtype.u8 else ""),
        truth=" != 0" if o.tensor.dtype is Dtype.bool and not isinstance(plan.pointwise.value, Name) else "",
    )


def _pointwise(plan: Plan) -> dict[str, Any]:
    """Loads, the expression, and the store: shared by elementwise kernels and epilogues."""
    spec, point, name = plan.spec, plan.pointwise, plan.spec.output.name
    operands = [_operand(plan, o) for o in point.operands]
    reshape = ".reshape((VALUES,))" if point.reshape else ""
    names = {t.name: t.argument for t in spec.tensors} | {s.name: s.name for s in spec.scalars}
    anchors = [t.variable for o, t in zip(point.operands, operands, strict=True) if o.read]
    anchors += ["product"] if isinstance(plan, GemmPlan) else []
    tensors = frozenset(t.name for t in spec.tensors)
    printer = KernelPrinter(names, tensors, "product", WIDTH - 4, anchors[0] if anchors else None)
    statements = printer.run(point.value, "result")
    result = "result"
    if statements[-1].removeprefix("result = ").isidentifier():  # a bare copy needs no second name
        result = statements.pop().removeprefix("result = ")
    fragment = f"t{name}r{name}_out"
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
        "masked": masked,
        "all_masked": len(masked) == len(spec.output.shape),
        "mask_terms": terms,
        "guard_tiles": isinstance(plan, ElementwisePlan) and plan.guard_tiles,
        "reshape": reshape,
        "statements": statements,
        "store": store,
        "accumulator": f"product = accumulators.load(){reshape}" if isinstance(plan, GemmPlan) else "",
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
    if plan.partition == "inner_outer" and plan.thread_layout is not None:
        share = f"Of every {show(plan.thread_layout.shape)} elements of it one"
    return {
        "kernel_template": "elementwise.py.j2",
        "constants": constants,
        "tile_names": ", ".join(f"g{o.tensor.name}" for o in plan.pointwise.operands),
        "value_profiles": _profiles(plan),
        "nones": _nones(len(plan.tiler)),
        "tile_walk": [output.shape[i] for i in plan.tile_order],
        "tile_coordinates": ", ".join(
            "rest" if i == plan.tile_order[-1] else f"tile_{m}" for i, m in enumerate(output.shape)
        ),
        "partition_template": f"parts/partition_{'inner' if plan.partition == 'inner' else 'block'}.j2",
        "share": share,
        "thread_values": thread_values,
    }


def _profiles(plan: Plan) -> str:
    """`tDgS, tDgD: ((8,4))`: what a thread holds, operands of one width together."""
    widths: dict[int, list[str]] = {}
    for o in plan.pointwise.operands:
        widths.setdefault(o.vector, []).append(f"t{plan.spec.output.name}g{o.tensor.name}")
    values = plan.pointwise.values
    return "; ".join(f"{', '.join(names)}: {show(((v, values // v),))}" for v, names in widths.items())


@dataclass(frozen=True)
class LoadText:
    """A or B on its way to shared memory, as text."""

    plan: GemmOperand
    name: str
    proj: str
    op: str
    smem_shape: str
    smem_strides: str
    pad: int
    gmem_profile: str
    smem_profile: str
    rest_v: int
    rest_mn: int
    rest_k: int
    predicate_shape: str
    predicate_strides: str
    predicated: bool
    residue: bool

    def copy(self, tile: str, stage: str, first: bool) -> list[str]:
        """The arguments of `cute.copy` for one tile."""
        n = self.name
        items = [f"tiled_copy_{n}", f"t{n}g{n}[None, None, None, {tile}]", f"t{n}s{n}[None, None, None, {stage}]"]
        if first and self.residue:
            items.append(f"pred=t{n}p{n}_first")
        elif self.plan.masked:
            items.append(f"pred=t{n}p{n}")
        return items


def _load(plan: GemmPlan, x: GemmOperand) -> LoadText:
    name, block = x.tensor.name, f"BLK_{x.mode.upper()}"
    rest_v, rest_mn, rest_k = x.copies
    profile = ((x.vector, rest_v), rest_mn, rest_k)
    pad = x.smem_stride - x.block
    stride = f"{block} + {pad}" if pad else block
    depth = f"BLK_{plan.k.upper()}"
    return LoadText(
        plan=x,
        name=name,
        proj="(1, None, 1)" if x.letter == "A" else "(None, 1, 1)",
        op="cpasync.CopyG2SOp()" if x.atom == "cp_async" else "cute.nvgpu.CopyUniversalOp()",
        smem_shape=f"({block}, {depth}, STAGES)",
        smem_strides=f"(1, {stride}, {depth} * ({stride}))" if pad else f"(1, {stride}, {depth} * {stride})",
        pad=pad,
        gmem_profile=show((*profile, "k" if plan.k_tiles is None else plan.k_tiles)),
        smem_profile=show((*profile, plan.stages)),
        rest_v=rest_v,
        rest_mn=rest_mn,
        rest_k=rest_k,
        predicate_shape=python_tuple(x.copies),
        predicate_strides=python_tuple((rest_mn, 1, 0)),
        predicated=x.masked or plan.residue,
        residue=plan.residue,
    )


def _gemm(plan: GemmPlan) -> dict[str, Any]:
    spec, output = plan.spec, plan.spec.output
    blocks = {mode: f"BLK_{mode.upper()}" for mode in (plan.m, plan.n, plan.k)}
    tiler, access = "schedule.tiler", f"elements of one access to {output.name}"
    constants: Constants = [(blocks[m], str(plan.tile[m]), "", f"{tiler}.{m}") for m in (plan.m, plan.n, plan.k)]
    constants += [
        ("TILER", f"({blocks[plan.m]}, {blocks[plan.n]}, {blocks[plan.k]})", "of a thread block", tiler),
        ("STAGES", str(plan.stages), "tiles in shared memory", "schedule.pipeline.stages"),
        ("THREADS", str(plan.threads), "", "schedule.mma.thread_layout"),
        ("VALUES", str(plan.pointwise.values), "accumulators of a thread", tiler),
        ("VECTOR", str(plan.pointwise.vector), access, f"schedule.copies.{output.name}"),
        LARGEST,
    ]
    loads = [_load(plan, x) for x in (plan.a, plan.b)]
    stages, depth = plan.stages, plan.tile[plan.k]

    def read(x: LoadText, k: str, stage: str, indent: int) -> str:
        """Shared memory to registers, through a conversion where the types differ."""
        source = f"t{output.name}s{x.name}[None, None, {k}, {stage}]"
        target = f"t{output.name}r{x.name}[None, None, {k}]"
        pad = " " * indent
        if not x.plan.convert:
            return pad + call("cute.autovec_copy(", [source, target], ")", indent)
        raw = f"t{output.name}r{x.name}_in[None, None, {k}]"
        return "\n".join(
            [
                pad + call("cute.autovec_copy(", [source, raw], ")", indent),
                pad + call(f"{target}.store(", [f"{raw}.load().to(cutlass.{accumulator.cutlass})"], ")", indent),
            ]
        )

    def epilogue_view(tensor: str, vector: str) -> str:
        if not plan.row_first:
            return f"vectors({tensor}, {vector})"
        return f"vectors(n_first({tensor}), {vector})"

    def permutation(layout: Layout | None) -> str:
        return "None" if layout is None else make_layout(layout)

    accumulator = _accumulator(spec)
    return {
        "kernel_template": "gemm.py.j2",
        "constants": constants,
        "loads": loads,
        "A": plan.a.tensor.name,
        "B": plan.b.tensor.name,
        "M": plan.m.upper(),
        "N": plan.n.upper(),
        "K": plan.k.upper(),
        "blk_m": plan.tile[plan.m],
        "blk_n": plan.tile[plan.n],
        "blk_k": depth,
        "mma_a": show((1, plan.fragment_m, depth, stages)),
        "mma_b": show((1, plan.fragment_n, depth, stages)),
        "mma_c": show((1, plan.fragment_m, plan.fragment_n)),
        "read": read,
        "epilogue_view": epilogue_view,
        "permutation": permutation,
        "accumulator_type": accumulator.cutlass,
    }


def _accumulator(spec: KernelSpec) -> Dtype:
    accumulator = spec.schedule.mma.accumulator  # type: ignore[union-attr]
    assert isinstance(accumulator, Dtype)
    return accumulator


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
