"""The plan of a gemm: what inference resolved, as the numbers that the templates print."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from tensor_layouts import Layout, compose, size

from cutegen import layouts
from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import Binary, Cast, Expr, Literal_, Local, MatMul, Name, Typed, Unary, walk
from cutegen.families.common.planning import may_branch
from cutegen.families.common.pointwise import Pointwise
from cutegen.families.gemm.fma.workspace import plan_workspaces
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.plan import GemmOperand, GemmPlan
from cutegen.families.gemm.staged.planning import epilogue, operand_fields, planned, slices_of, statements_of
from cutegen.families.gemm.staged.schedule import GemmSchedule, Spec
from cutegen.families.gemm.staged.shared_memory import column_stride, smem_bytes, smem_elements
from cutegen.families.gemm.words import tile_of, vector_of
from cutegen.language.model import Tensor

SLICE = 4  # values of an epilogue's slice, at least


def plan(spec: Spec) -> GemmPlan:
    """The plan of a resolved spec that passed its checks."""
    schedule, (a, b, m, n, k) = spec.schedule, gemm.product_of(spec)
    assert schedule.mma.thread_layout is not None and schedule.mma.accumulator is not None
    statements = statements_of(spec, schedule.mma.accumulator)
    fragment_m, fragment_n = (gemm.fragment(schedule, mode, side)[0] for side, mode in enumerate((m, n)))
    return GemmPlan(
        **planned(spec),
        threads=gemm.threads_of(schedule),
        statements=statements,
        pointwise=_epilogue(spec, statements),
        a=_operand(spec, a, "A", m),
        b=_operand(spec, b, "B", n),
        store=tile_of(schedule, k) - 1 if schedule.pipeline.store is None else schedule.pipeline.store,
        thread_layout=schedule.mma.thread_layout,
        permutation_m=_permutation(schedule, m, 0),
        permutation_n=_permutation(schedule, n, 1),
        fragment_m=_profile(fragment_m),
        fragment_n=_profile(fragment_n),
        smem_fragment_m=_smem_profile(schedule, a, m, 0),
        smem_fragment_n=_smem_profile(schedule, b, n, 1),
        row_first=spec.output.major == n,
        smem_bytes=smem_bytes(spec)[1],
    )


def _profile(extents: tuple[int, ...]) -> str:
    return str(extents[0]) if len(extents) == 1 else layouts.show(extents)


def _smem_profile(schedule: GemmSchedule, tensor: Tensor, mode: str, side: int) -> str:
    """The shape of a thread's share of a column of shared memory, as text.

    It is that of `fragment_m` and `fragment_n`, unless the column's layout cuts the share further.
    """
    column = gemm.column_of(schedule, tensor.name)
    extents = gemm.fragment(schedule, mode, side)[0]
    if column is None:
        return _profile(extents)
    assert schedule.mma.thread_layout is not None
    threads = layouts.mode_sizes(schedule.mma.thread_layout)[side]
    permutation = schedule.mma.permutation.get(mode, Layout(threads))
    reach = int(size(permutation))
    parts = (
        compose(permutation, Layout(reach // threads, threads)),
        Layout(tile_of(schedule, mode) // reach, reach),
    )
    shapes = [compose(column, part).shape for part in parts if int(size(part)) > 1]
    return layouts.show(shapes[0] if len(shapes) == 1 else tuple(shapes)) if shapes else "1"


def _runs_in_column(schedule: GemmSchedule, tensor: Tensor, mode: str, side: int) -> bool:
    """Whether a layout of shared memory puts elements of a thread side by side."""
    column = gemm.column_of(schedule, tensor.name)
    if column is None:
        return False
    places = layouts.offsets(column)
    return layouts.unit_stride_run([places[i] for i in gemm.fragment(schedule, mode, side)[1]]) > 1


def _permutation(schedule: GemmSchedule, mode: str, side: int) -> Layout | None:
    """The permutation of a mode, None where it would say what the mma does by itself."""
    assert schedule.mma.thread_layout is not None
    threads = layouts.mode_sizes(schedule.mma.thread_layout)[side]
    permutation = schedule.mma.permutation.get(mode)
    if permutation is None or layouts.offsets(permutation) == tuple(range(threads)):
        return None
    return permutation


def _operand(spec: Spec, tensor: Tensor, letter: str, mode: str) -> GemmOperand:
    schedule, k = spec.schedule, gemm.product_of(spec).k
    copy = schedule.copies[tensor.name]
    assert copy.thread_layout is not None and copy.value_layout is not None
    whole = gemm.FRAGMENT_BYTES // tensor.dtype.bytes
    return GemmOperand(
        **operand_fields(spec, tensor, letter, mode, copy.thread_layout, copy.value_layout),
        smem_vector=_smem_vector(spec, tensor, mode),
        smem_stride=column_stride(schedule, tensor, mode),
        smem_whole=whole if smem_elements(schedule, tensor, mode, k) % whole else None,
        smem_layout=gemm.column_of(schedule, tensor.name),
        smem_runs=_runs_in_column(schedule, tensor, mode, int(letter == "B")),
        convert=tensor.dtype is not schedule.mma.accumulator,
        workspace=plan_workspaces(spec).get(tensor.name),
    )


def _smem_vector(spec: Spec, tensor: Tensor, mode: str) -> int:
    """The elements of one write to shared memory.

    A copy past the registers writes what it reads; any other is as wide as neighbours, 128 bits and every column allow.
    """
    schedule, copy = spec.schedule, spec.schedule.copies[tensor.name]
    if copy.atom == "cp_async":
        return vector_of(copy, tensor)
    if tensor.major != mode:
        return 1  # neighbours in registers are neighbours along k
    column = column_stride(schedule, tensor, mode) * tensor.dtype.bytes
    vector = min(
        gcd(gemm.copy_run(copy, 0), MAX_VECTOR_BITS // tensor.dtype.bits), (column & -column) // tensor.dtype.bytes
    )
    layout = gemm.column_of(schedule, tensor.name)
    while layout is not None and not layouts.keeps_runs(layout, vector):
        vector //= 2
    return vector


def _epilogue(spec: Spec, statements: Sequence[Typed]) -> Pointwise:
    vector = vector_of(spec.schedule.copies[spec.output.name], spec.output)
    clear, as_they_are = may_branch(statements) or _meets_values(spec, statements), _stored_as_they_are(spec)
    return epilogue(spec, statements, gemm.thread_values(spec), _slice(spec, vector), clear, as_they_are and vector > 1)


def _meets_values(spec: Spec, statements: Sequence[Typed]) -> bool:
    """Whether arithmetic combines the epilogue's operands with other values of a thread, or divides by them.

    The compiler knows that what is masked off was never read. It therefore moves such arithmetic, and the store behind
    it, into the branch of the load, and with the branches of all slices at once it needs more registers: 171 instead of
    106 for `A @ B.T + C`, and 255 and spills for `A @ B.T + C + D`. Of cleared registers there is nothing to know.
    Arithmetic with a scalar first, as in `beta * C`, and a conversion keep it from that as well; with a number there
    may be nothing left of it, as of `1 * C`.
    """
    names = {tensor.name for tensor in spec.tensors}

    def is_read(x: Expr) -> bool:
        match x:
            case Name(id=name) | Local(id=name):
                return name in names
            case Unary(x=inner):
                return is_read(inner)
            case Cast(x=inner):
                return inner.dtype is x.dtype and is_read(inner)
        return False

    def is_uniform(x: Expr) -> bool:
        ends = [node for node in walk(x) if not node.children]
        scalars = [node for node in ends if isinstance(node, Name) and node.id not in names]
        return bool(scalars) and all(node in scalars or isinstance(node, Literal_) for node in ends)

    for typed in statements:
        if is_read(typed.value):
            names.add(typed.target)  # a local value that is what was read
        for node in walk(typed.value):
            match node:
                case Binary(op="+" | "-" | "*", left=x, right=y) if is_read(x) or is_read(y):
                    meets = not (is_uniform(x) or is_uniform(y))
                case Binary(op="/", left=x, right=y):
                    meets = is_read(y) or (is_read(x) and not is_uniform(y))
                case Binary(op="**", left=x):
                    meets = is_read(x)
                case _:
                    meets = False
            if meets:
                return True
    return False


def _stored_as_they_are(spec: Spec) -> bool:
    """Whether accumulators go to memory without any arithmetic.

    A wide store takes neighbouring registers, which the compiler then gives to the accumulators from the start. Two
    banks hold the even and the odd registers, and so a part of the multiply-adds finds all its operands in one bank and
    takes a cycle more. With arithmetic in between, even by one, it is free to choose.
    """
    accumulator = spec.schedule.mma.accumulator
    outputs = {t.name: t.dtype for t in spec.outputs}
    stored = [outputs.get(s.target) for s in spec.compute.statements if isinstance(s.value, MatMul)]
    return accumulator is Dtype.f32 and accumulator in stored


def _slice(spec: Spec, vector: int) -> int:
    """How many accumulators the epilogue takes at a time: the fewest that are whole accesses and at least `SLICE`.

    The registers that a slice needs come on top of the accumulators that are still to be stored. Loads of one slice
    travel together, but no load moves ahead of an earlier slice's stores: four to a slice make up for that.
    """
    m, n = gemm.product_of(spec).sides
    sides = [gemm.fragment(spec.schedule, mode, side)[0] for side, mode in enumerate((m, n))]
    extents = [extent for side in (sides if spec.output.major == m else sides[::-1]) for extent in side]
    return next(n for n in slices_of(extents, vector) if n >= SLICE or n == prod(extents))
