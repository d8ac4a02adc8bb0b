"""The op `contract`: sums of products over named modes, with statements and reductions between them, as in attention:
scores are a product of two tensors, and what is computed of them is multiplied with a third along a walked mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.errors import ExpressionError
from cutegen.expressions.parsing import Name, reductions, walk
from cutegen.expressions.tree import COMPARISONS, Binary, Compute, Place
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.ops.folding import folded
from cutegen.ops.lengths import check_walked_lengths
from cutegen.ops.modes import has_names
from cutegen.ops.op import Op
from cutegen.ops.reach import known_bounds, reached
from cutegen.ops.reading_walks import NotWalked, walked
from cutegen.ops.walked import Walked
from cutegen.planning.scalars import measured_scalars
from cutegen.planning.work import Work

if TYPE_CHECKING:
    from cutegen.codegen.reference import Reference
    from cutegen.planning.plan import Plan

FACTORS = (Dtype.f16, Dtype.bf16)  # types that are multiplied
LENGTHS = (
    1024,
    4096,
)  # of the modes of rows and of the walked one, where a kernel is measured and nothing else is said


def walked_of(spec: KernelSpec) -> Walked:
    """The statements of a spec as a walk along one mode."""
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    return walked(annotate(spec.compute, types, Dtype.f32), {t.name: t for t in spec.tensors})


def walked_in(compute: Compute, tensors: Mapping[str, Tensor]) -> Walked:
    """The same of statements that have the form, where the types of scalars are not known: those that are compared
    count as integers, as ends of walks are.
    """
    types = {t.name: t.dtype for t in tensors.values()}
    every = [node for value in compute.values for node in walk(value)]
    scalars = {node.id for node in every if isinstance(node, Name)} - {*types, *compute.targets}
    compared = [node for node in every if isinstance(node, Binary) and node.op in COMPARISONS]
    ends = scalars & {node.id for one in compared for node in walk(one) if isinstance(node, Name)}
    try:
        typed = annotate(compute, types | dict.fromkeys(scalars, Dtype.f32) | dict.fromkeys(ends, Dtype.i32), Dtype.f32)
    except ExpressionError:  # some operators take integers alone
        typed = annotate(compute, types | dict.fromkeys(scalars, Dtype.i32), Dtype.f32)
    return walked(typed, tensors)


class Contract(Op):
    """Statements with a product of two tensors over a mode, and products of what is computed of it with others over a
    mode that is walked. Tensors broadcast along the modes that they lack, and have theirs in any order.
    """

    name = "contract"
    called = ("attention", "sdpa", "flash_attention", "einsum")
    summary = "products `sum(Q * K, D)`, and products of what is computed from them, as in attention and its gradients"
    has_reductions = has_lengths = takes_lengths = differentiable = walks = True
    rate = "TFLOP/s"
    reserved = frozenset((
        "acc_mn", "acc_O", "acc_S", "add_parts", "ahead", "as_factor", "base", "batch", "before", "beyond", "BLK_KEYS",
        "BLK_ROWS", "block", "by_rows", "carried", "column", "columns", "CONSUMERS", "copy_tile", "count", "cut_tiles",
        "element", "end_place", "end_tile", "factor", "factors", "first_place", "first_row", "first_tile", "GIVEN",
        "given", "given_mn", "group", "grown", "grown_rows", "halves", "head", "heads", "in_n", "is_cut", "is_lowest",
        "K_BLOCKS", "key_columns", "key_places", "key_tile", "KEYS", "lane", "largest", "last_row", "last_tile",
        "loaded", "loaded_rows", "longer", "magnitude", "merged", "mma_O", "mma_S", "MOST_ROWS", "n_block", "N_BLOCKS",
        "next_tile", "number", "of_tile", "of_warps", "out_columns", "out_places", "own", "own_keys", "own_row",
        "own_values", "part", "part_sums", "PARTS", "parts", "phase", "phase_before", "place", "places_O", "places_S",
        "places_together", "quad_max", "quad_sum", "row", "row_place", "row_tile", "row_tiles", "ROWS", "rows",
        "rows_before", "rows_within", "run", "runs", "scores", "scores_mn", "share", "SMEM_BYTES", "stage", "staged",
        "start", "steep", "storage", "stored", "stored_places", "sums", "terms", "thr", "thr_O", "thr_S", "thr_store",
        "tile", "tiled_store", "tiles", "TOGETHER", "tOrO", "tOrO_mn", "tOrP", "tSrP", "undefined", "walk", "warp",
        "warp_idx", "warpgroup", "whole_end", "whole_first", "whole_tiles", "within",
    ))  # fmt: skip
    starter = """\
summary: Attention of grouped heads, each row over the keys up to its own place.
op: contract
tensors:
  Q: {shape: [B, M, G, R, D], dtype: bf16}
  K: {shape: [B, N, G, D], dtype: bf16}
  V: {shape: [B, N, G, E], dtype: bf16}
  O: {shape: [B, M, G, R, E], dtype: bf16, role: out}
scalars: {scale: f32}
compute:
  - s = where(coord(N) - len(N) <= coord(M) - len(M), sum(Q * K, D) * scale, -inf)
  - p = exp(s - max(s, N))
  - O = sum(cast(p, bf16) * V, N) / sum(p, N)
static: {D: 64, E: 64}
"""

    def refuse_product(self, ctx: Context, statement: int, place: Place) -> None:
        message = "`@` has two matrices, and a contraction names the mode that is summed"
        say(ctx, "CG127", message, statement, place, "write `sum(Q * K, D)` for `Q @ K.T`")

    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        named = [has_names(ctx, tensor) for tensor in tensors.values() if tensor.shape]  # all of them are checked
        if not all(named):
            return
        for number, statement in enumerate(compute.statements):
            if statement.matmul:
                self.refuse_product(ctx, number, statement.matmul.place)
                return
        types = {t.name: t.dtype for t in tensors.values()} | {s.name: s.dtype for s in scalars}
        try:
            found = walked(annotate(compute, types, Dtype.f32), tensors)
        except ExpressionError:
            return  # which is said where types are checked
        except NotWalked as error:
            say(ctx, "CG127", error.message, error.statement, error.place, error.help)
            return
        check_walked_lengths(ctx, found, tensors)
        for tensor in (t for t in tensors.values() if t.role == "inout"):
            message = f"`{tensor.name}` is `inout`, and a contraction reads nothing of what it writes"
            help = f"give it `role: out`, and add in torch, `{tensor.argument}.add_(...)`, or in an elementwise kernel"
            ctx.say("CG127", message, "tensors", tensor.name, "role", help=help)
        self._check_factors(ctx, found, tensors)
        self._check_outputs(ctx, found, tensors)

    def _check_factors(self, ctx: Context, found: Walked, tensors: Mapping[str, Tensor]) -> None:
        """Factors are of 16 bits, all of one type."""
        first = tensors[found.scores.a]
        two = (name for one in found.products for name in (one.a, one.b))
        names = (*two, *(one.product.b for one in found.outer if one.product))
        for name in dict.fromkeys(names):
            dtype = tensors[name].dtype
            if dtype not in FACTORS:
                message = f"a contraction cannot multiply {dtype.value}"
                help = f"it multiplies {' or '.join(dtype.value for dtype in FACTORS)}"
                ctx.say("CG118", message, "tensors", name, "dtype", help=help)
            elif dtype is not first.dtype:
                message = f"`{first.name}` is {first.dtype.value} and `{name}` is {dtype.value}; factors have one type"
                ctx.say("CG118", message, "tensors", name, "dtype", help=f"write `dtype: {first.dtype.value}`")
        for one in found.outer:
            assert one.product is not None and one.product.factor is not None
            factor = one.product.factor
            meant = found.meant(factor)
            if first.dtype in FACTORS and meant.dtype is not first.dtype:
                was = meant.dtype.value if meant.dtype else "unknown"
                message = f"what is multiplied with `{one.product.b}` is {was}, and that is {first.dtype.value}"
                ctx.say("CG118", message, "compute", help=f"write `cast(..., {first.dtype.value})` around it")

    def _check_outputs(self, ctx: Context, found: Walked, tensors: Mapping[str, Tensor]) -> None:
        """An output has the modes of its rows, or those and the one of the products' columns."""
        rows = {*found.batch, *found.rows}
        for typed in found.ends:
            tensor = tensors.get(typed.target)
            if typed.stored is None or tensor is None:
                continue
            outer = found.outer_of(typed.target) or found.outer[0]
            columns = found.columns_of(outer)
            if {*tensor.modes} not in (rows, rows | {columns}):
                message = f"`{tensor.name}` is [{', '.join(tensor.shape)}], and a row has {', '.join(sorted(rows))}"
                help = f"give it these modes, in any order, and {columns} for each element of a product"
                ctx.say("CG129", message, "tensors", tensor.name, "shape", help=help)
            elif not found.spans[typed.target] <= {*tensor.modes}:
                message = f"`{tensor.name}` has no {columns}, along which what is assigned to it differs"
                ctx.say("CG129", message, "tensors", tensor.name, "shape", help=f"add `{columns}` to its shape")
        whole = rows | {*found.depths}
        for tensor in tensors.values():
            extra = [mode for mode in tensor.modes if mode not in {*whole, found.walked, *found.around}]
            if extra and not tensor.writes:
                message = f"`{tensor.name}` has the mode `{extra[0]}`, which no score and no output has"
                ctx.say("CG129", message, "tensors", tensor.name, "shape", tensor.shape.index(extra[0]))

    def walk(self, spec: KernelSpec) -> Walked:
        return walked_of(spec)

    def lead(self, spec: KernelSpec) -> Tensor:
        """A tensor of all modes, which is nowhere in memory: those of rows, the walked one, those that are summed."""
        found = walked_of(spec)
        order = (*found.batch, *found.rows, *found.around, found.walked, *found.depths)
        modes = tuple(dict.fromkeys(order))
        return replace(spec.outputs[0], name=spec.outputs[0].name, shape=modes, major=found.columns, at=())

    def contracted(self, spec: KernelSpec) -> tuple[str, ...]:
        """The walked mode alone, whose tiles follow each other: of the mode that scores sum, a tile has all."""
        return (walked_of(spec).walked,)

    def summed(self, spec: KernelSpec) -> tuple[str, ...]:
        found = walked_of(spec)
        return (*(one.mode for one in found.products), *found.around, found.walked)

    def largest_whole(self, spec: KernelSpec, tensor: Tensor) -> int | None:
        """1 of what scores are made of, so that exponentials of several of a row count."""
        products = walked_of(spec).products
        return 1 if any(tensor.name in (one.a, one.b) for one in products) else None

    def computed_modes(self, spec: KernelSpec) -> tuple[str, ...]:
        """Those of scores."""
        found = walked_of(spec)
        return (*found.batch, *found.rows, *found.around, found.walked)

    def raised(self, spec: KernelSpec, tensor: Tensor) -> str | None:
        """The summed mode of scores, whose exponentials above the largest one are 0 for zeros."""
        found = walked_of(spec)
        if all(one.function != "max" for one in found.carried):
            return None
        return found.scores.mode if tensor.name in (found.scores.a, found.scores.b) else None

    def apart(self, spec: KernelSpec) -> tuple[str, ...]:
        return walked_of(spec).batch

    def scaled_late(self, spec: KernelSpec) -> str | None:
        found = walked_of(spec)
        late = folded(found, known_bounds(spec, found), [t.name for t in spec.tensors])
        return None if late is None else late.name

    def modes_that_may_be_empty(self, compute: Compute, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
        found = walked_in(compute, tensors)
        return (
            () if any(one.function == "max" for one in found.carried) else (found.walked, *found.around)
        )  # torch rejects a maximum of nothing

    def without_reference(self, spec: KernelSpec) -> tuple[str, ...]:
        """That of a maximum: torch rejects that of no elements."""
        found = {one.mode for value in spec.compute.values for one in reductions(value) if one.function == "max"}
        return tuple(mode for mode in spec.modes if mode in found)

    def reference(self, plan: Plan) -> Reference:
        from cutegen.ops.contract_reference import reference_of_contraction

        return reference_of_contraction(plan.spec)

    def product_modes(self, spec: KernelSpec) -> tuple[str, ...]:
        found = walked_of(spec)
        return (*found.batch, *found.rows, *found.around, found.walked)

    def product_widths(self, spec: KernelSpec) -> tuple[str, ...]:
        found = walked_of(spec)
        return (*(one.mode for one in found.products), *(found.columns_of(one) for one in found.outer))

    def sizes_of_calls(self, spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
        """Few blocks, and as many elements along the walked mode as rows: under a causal mask each row then has one."""
        found = walked_of(spec)
        free = [mode for mode in (*found.batch, *found.rows[1:], *found.around) if mode not in spec.static]
        fewer = {mode: min(sizes[mode], number) for number, mode in enumerate(free, 2)}
        sizes = {**sizes, **{mode: size for mode, size in fewer.items() if size % spec.divisible.get(mode, 1) == 0}}
        step = spec.divisible.get(found.walked, 1)
        most = -(-max(sizes[mode] for mode in (found.walked, *found.rows)) // step) * step
        return {**sizes, found.walked: spec.static.get(found.walked, most)}

    def multiply_adds(self, spec: KernelSpec, sizes: Mapping[str, int]) -> int:
        scores = prod(sizes[mode] for mode in self.product_modes(spec))
        return scores * sum(sizes[mode] for mode in self.product_widths(spec))

    def bench_shapes(self, spec: KernelSpec) -> Sequence[Mapping[str, int]]:
        found = walked_of(spec)
        shapes = []
        for length in LENGTHS:
            sizes = dict.fromkeys(spec.modes, 4) | dict.fromkeys(found.depths, 128)
            sizes |= {found.walked: length, found.rows[0]: length}
            shapes.append(sizes | {mode: size for mode, size in spec.static.items() if mode in sizes})
        return shapes

    def work(self, spec: KernelSpec, sizes: Mapping[str, int]) -> Work:
        """Two operations for each multiply-add of scores that no bound along the walked mode excludes, as
        `bench.scalars` has its scalars; tensors are moved once.
        """
        found = walked_of(spec)
        outer = prod(sizes[mode] for mode in (*found.batch, *found.rows[1:], *found.around))
        scores = outer * reached(found, sizes, measured_scalars(spec))
        products = scores * sum(sizes[mode] for mode in self.product_widths(spec))
        return replace(super().work(spec, sizes), operations=2 * products)


CONTRACT = Contract()
