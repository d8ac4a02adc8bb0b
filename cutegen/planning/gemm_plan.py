"""The plan of a gemm: what `planning.gemm` resolved, as the numbers that the templates print."""

from __future__ import annotations

from tensor_layouts import Layout, size

from cutegen.language.expressions import annotate
from cutegen.language.layouts import make_layout_tv
from cutegen.language.model import GemmSchedule, KernelSpec, Tensor
from cutegen.planning import gemm, layouts
from cutegen.planning.common import may_branch, operand
from cutegen.planning.plan import GemmOperand, GemmPlan, Pointwise
from cutegen.planning.targets import TARGETS


def plan(spec: KernelSpec) -> GemmPlan:
    """The plan of a resolved spec that passed its checks."""
    assert isinstance(spec.schedule, GemmSchedule)
    schedule, (a, b, m, n, k) = spec.schedule, gemm.names(spec)
    assert schedule.stages is not None and schedule.mma.thread_layout is not None and schedule.tiler is not None
    masked = {mode for mode in (m, n) if schedule.predication[mode] == "mask"}
    fragment_m, fragment_n = (gemm.fragment(schedule, mode, side)[0] for side, mode in enumerate((m, n)))
    return GemmPlan(
        spec=spec,
        threads=gemm.threads_of(schedule),
        tile=schedule.tiler,
        pointwise=_epilogue(spec, tuple(mode for mode in (m, n) if mode in masked)),
        m=m,
        n=n,
        k=k,
        a=_operand(spec, a, "A", m, m in masked),
        b=_operand(spec, b, "B", n, n in masked),
        stages=schedule.stages,
        k_tiles=-(-spec.static[k] // schedule.tiler[k]) if k in spec.static else None,
        residue=schedule.predication[k] == "residue_first",
        thread_layout=schedule.mma.thread_layout,
        permutation_m=_permutation(schedule, m, 0),
        permutation_n=_permutation(schedule, n, 1),
        fragment_m=_profile(fragment_m),
        fragment_n=_profile(fragment_n),
        largest_n=_largest_n(spec, n),
        row_first=spec.output.major == n,
        smem_bytes=gemm.smem_bytes(spec)[1],
    )


def _largest_n(spec: KernelSpec, n: str) -> int | None:
    assert isinstance(spec.schedule, GemmSchedule)
    largest = min(TARGETS[target].grid_y for target in spec.targets) * gemm.tile_of(spec.schedule, n)
    return None if n in spec.static and spec.static[n] <= largest else largest


def _profile(extents: tuple[int, ...]) -> str:
    return str(extents[0]) if len(extents) == 1 else layouts.show(extents)


def _permutation(schedule: GemmSchedule, mode: str, side: int) -> Layout | None:
    """Left out where it would say what the mma does by itself."""
    assert schedule.mma.thread_layout is not None
    threads = layouts.mode_sizes(schedule.mma.thread_layout)[side]
    permutation = schedule.mma.permutation.get(mode)
    if permutation is None or layouts.offsets(permutation) == tuple(range(threads)):
        return None
    return permutation


def _operand(spec: KernelSpec, tensor: Tensor, letter: str, mode: str, masked: bool) -> GemmOperand:
    assert isinstance(spec.schedule, GemmSchedule)
    schedule, k = spec.schedule, gemm.names(spec)[4]
    copy = schedule.copies[tensor.name]
    assert copy.atom and copy.thread_layout is not None and copy.value_layout is not None
    vector = gemm.operand_vector(copy, tensor)
    tiler, _ = make_layout_tv(copy.thread_layout, copy.value_layout)
    block, depth = gemm.tile_of(schedule, mode), gemm.tile_of(schedule, k)
    values = int(size(copy.value_layout))
    return GemmOperand(
        tensor=tensor,
        letter=letter,
        mode=mode,
        block=block,
        atom=copy.atom,
        vector=vector,
        thread_layout=copy.thread_layout,
        value_layout=copy.value_layout,
        copies=(values // vector, block // tiler[0], depth // tiler[1]),
        smem_stride=block + schedule.smem_pad[tensor.name],
        masked=masked,
        convert=tensor.dtype is not schedule.mma.accumulator,
        zero_fill=copy.atom == "universal" and (masked or schedule.predication[k] == "residue_first"),
    )


def _epilogue(spec: KernelSpec, masked: tuple[str, ...]) -> Pointwise:
    assert isinstance(spec.schedule, GemmSchedule)
    output, (a, b, *_) = spec.output, gemm.names(spec)
    vector = gemm.epilogue_vector(spec)
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    read = [name for name in spec.compute.names() if name not in (a.name, b.name)]
    value = annotate(spec.compute, types, spec.schedule.mma.accumulator)
    return Pointwise(
        operands=tuple(
            operand(spec, t, vector, t.name in read) for t in spec.tensors if t.name in read or t.name == output.name
        ),
        values=gemm.thread_values(spec),
        vector=vector,
        value=value,
        masked=masked,
        clear=bool(masked) and may_branch(value),
        reshape=True,
    )
