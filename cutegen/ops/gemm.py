"""The op `gemm`: a matrix product A [M, K] times B [N, K] transposed, with an epilogue on its elements.

Of a batch of them all tensors have the same mode first, [L, M, K]; one of A and B may lack it, and is then the same in
every product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import MatMul, Name, coords, walk
from cutegen.expressions.tree import Compute
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.language.tensor import with_rows
from cutegen.ops.modes import check_alike, check_fits, has_names
from cutegen.ops.op import Op
from cutegen.ops.scales import check_scales, refuse_outside
from cutegen.ops.segmented import check_segmented
from cutegen.ops.taken_rows import at_places, check_taken_rows
from cutegen.ops.taking import check_taken
from cutegen.planning.batches import BATCHED, batch_of
from cutegen.planning.work import Work

if TYPE_CHECKING:
    from cutegen.codegen.reference import Reference
    from cutegen.peers.peer import Peer
    from cutegen.planning.plan import Plan

_ONE = "torch.ones((), dtype=torch.float32, device=device)"  # a scale
CUBES = (4096, 8192)  # of all modes, where a kernel is measured and nothing else is said
BATCHES = ((64, 1024), (16, 2048))  # of a batch: matrix products, and cubes
EXPERTS = ((8, 16384, 28672, 4096), (64, 16384, 2816, 2048), (128, 32768, 1536, 4096))
"""Of segments: how many, all their rows, columns and the length of the sum, in layers of Mixtral, Moonlight, Qwen3."""
FACTORS = (Dtype.f64, Dtype.f32, Dtype.f16, Dtype.bf16, Dtype.f8e4m3, Dtype.f8e5m2)  # types that are multiplied


def _first_uses(compute: Compute) -> dict[MatMul, int]:
    """The products in their order, each with the number of the statement that first has it."""
    found: dict[MatMul, int] = {}
    for number, value in enumerate(compute.values):
        for node in walk(value):
            if isinstance(node, MatMul):
                found.setdefault(node, number)
    return found


class Gemm(Op):
    """Statements with products of two tensors that share their last mode: one, or several of one A. All outputs have
    the modes of the product.
    """

    name = "gemm"
    called = ("matmul", "mm", "bmm", "linear")
    summary = "A [M,K] times B [N,K] transposed, or [L,M,K] times [L,N,K] of a batch, with an epilogue"
    has_product = True
    takes_segments = True
    takes_blocks = True
    rate = "TFLOP/s"
    starter = """\
summary: GEMM of bf16 on tensor cores.
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T                 # any epilogue may surround it: relu(alpha * (A @ B.T))
divisible: {N: 8, K: 8}             # and `align: 16`: without them any size and address is taken, by a slower case
targets: [sm_80, sm_90a]            # each has its fastest atom: `cutegen explain` prints the schedules
"""

    def check_places(self, ctx: Context, tensors: tuple[Tensor, ...]) -> bool:
        return self.refuse_views(ctx, tensors) and check_taken(ctx, tensors)

    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        uses = _first_uses(compute)
        if not uses:
            message, place = "a gemm needs one `A @ B.T` in compute", compute.statements[0].value.place
            say(ctx, "CG127", message, 0, place, "write `op: elementwise` if there is none")
            return
        if not check_taken_rows(ctx, compute, next(iter(uses)), tensors):
            return
        tensors = at_places(tensors)
        outputs = [tensors[target] for target in compute.targets if target in tensors]
        if not outputs:
            return  # of which each statement was told
        first, output, sound, before = next(iter(uses)), outputs[0], True, len(ctx.found)
        for product, number in uses.items():
            places = ((product.a, product.a_place), (product.b, product.b_place))
            scalar = [(name, place) for name, place in places if name not in tensors]
            for name, place in scalar:
                what = "a scalar" if name in {s.name for s in scalars} else "a value that was computed"
                say(ctx, "CG127", f"`{name}` is {what}; `@` multiplies two tensors", number, place)
            if not scalar and product.a != first.a:
                message = (
                    f"products of `{first.a}` and of `{product.a}`: several in one kernel share the tensor on the left"
                )
                say(ctx, "CG127", message, number, product.a_place, "write a kernel for each")
            elif not scalar and self._is_alike(ctx, tensors.get(first.b), tensors[product.b]):
                self._check_product(ctx, compute, tensors[product.a], tensors[product.b], output)
            sound = sound and not scalar
            if len(ctx.found) == before:
                check_scales(ctx, product, number, tensors)
        if len(ctx.found) == before:  # else the first output may be the one that is wrong
            sound = all(has_names(ctx, output) for output in outputs) and check_alike(ctx, outputs)
        if sound:
            self._check_epilogue(ctx, compute, tensors, output)

    def _check_epilogue(self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], output: Tensor) -> None:
        """Says to `ctx` which `coord` and which tensors around the products do not fit the modes of the outputs."""
        for number, value in enumerate(compute.values):
            for coord in coords(value):
                if coord.mode not in output.shape:
                    message = f"`{coord.mode}` is summed over: an element of `{output.name}` has no coordinate along it"
                    say(ctx, "CG116", message, number, coord.place, f"modes: {', '.join(output.shape)}")
        read = dict.fromkeys(node.id for value in compute.values for node in walk(value) if isinstance(node, Name))
        elements = {
            t.name: t
            for t in with_rows(tuple(tensors.values()), [name for p in compute.products for name in (p.a, p.b)])
        }
        for name in read:
            if name in tensors and tensors[name].blocks:
                refuse_outside(ctx, compute, tensors[name])
            elif name in tensors and not tensors[name].writes:
                check_fits(ctx, elements[name], output)

    def _check_product(self, ctx: Context, compute: Compute, a: Tensor, b: Tensor, out: Tensor) -> None:
        if not check_segmented(ctx, compute, a, b, out) or not self._check_ranks(ctx, a, b, out):
            return
        (m, k), (n, k_of_b) = a.shape[-2:], b.shape[-2:]
        batch = out.shape[:-2]
        if k != k_of_b:
            message = f"`{a.name}` and `{b.name}` share no last mode: `{k}` and `{k_of_b}`"
            turned = n == k
            modes = ", ".join((*b.shape[:-2], k_of_b, k))
            help = f"write `shape: [{modes}]` and, if that is how it lies in memory, `major: {k_of_b}`"
            notes = ("shapes are [M, K] and [N, K]; `major:` says which mode is contiguous",)
            ctx.say("CG130", message, "tensors", b.name, "shape", notes=notes, help=help if turned else None)
        elif out.shape != (*batch, m, n):
            gives = ", ".join((*batch, m, n))
            message = f"`{out.name}` is [{', '.join(out.shape)}], and {a.name} @ {b.name}.T gives [{gives}]"
            ctx.say("CG130", message, "tensors", out.name, "shape", help=f"write `shape: [{gives}]`")
        alike = a.dtype is b.dtype or (a.dtype.is_f8 and b.dtype.is_f8)  # of which either kind multiplies the other
        for tensor in (a, b):
            if tensor.dtype not in FACTORS:
                message = f"a {self.name} cannot multiply {tensor.dtype.value}"
                help = f"it multiplies {', '.join(dtype.value for dtype in FACTORS)}"
                ctx.say("CG118", message, "tensors", tensor.name, "dtype", help=help)
        if not alike and a.dtype in FACTORS and b.dtype in FACTORS:
            message = f"`{a.name}` is {a.dtype.value} and `{b.name}` is {b.dtype.value}; both must be the same"
            ctx.say("CG118", message, "tensors", b.name, "dtype", help=f"write `dtype: {a.dtype.value}`")

    def _check_ranks(self, ctx: Context, a: Tensor, b: Tensor, out: Tensor) -> bool:
        """Whether all have two modes, or that of a batch before them; says how they do not."""
        batch = batch_of(out)
        for tensor, wanted in ((a, "M, K"), (b, "N, K"), (out, "M, N")):
            if not has_names(ctx, tensor):
                return False
            if len(tensor.shape) not in (2, BATCHED):
                message = f"`{tensor.name}` has {len(tensor.shape)} mode{'s' * (len(tensor.shape) > 1)}"
                help = f"in `{out.name} = {a.name} @ {b.name}.T` it is [{wanted}], or [L, {wanted}] of a batch"
                message = f"{message}; a gemm's has 2, or 3 with that of a batch"
                ctx.say("CG130", message, "tensors", tensor.name, "shape", help=help)
                return False
        for tensor in (a, b):
            own = tensor.shape[0] if len(tensor.shape) == BATCHED else None
            if own is None or own == batch or (tensor is b and own in {segments.of for segments in a.segments}):
                continue
            inner = tensor.shape[-2:]
            if batch in inner:
                modes = ", ".join((batch, *(mode for mode in tensor.shape if mode != batch)))
                message = (
                    f"`{tensor.name}` is [{', '.join(tensor.shape)}]; `{batch}`, the batch, is the first mode of all"
                )
                help = f"write `shape: [{modes}]`: strides set the order in memory, and may be any"
            elif batch is None:
                message = f"`{tensor.name}` has a batch, `{own}`, which `{out.name}` lacks"
                help = f"write `shape: [{own}, {', '.join(out.shape)}]` at {out.name}: nothing is summed over a batch"
            else:
                message = f"`{tensor.name}` has the batch `{own}`, and `{out.name}` has `{batch}`"
                help = f"write `shape: [{batch}, {', '.join(inner)}]`"
            ctx.say("CG130", message, "tensors", tensor.name, "shape", help=help)
            return False
        if batch is not None and len(a.shape) == len(b.shape) == 2:
            message = f"`{out.name}` has a batch, `{batch}`, which neither `{a.name}` nor `{b.name}` has"
            help = (
                f"write `shape: [{batch}, {', '.join(a.shape)}]` at {a.name}, or `shape: [{', '.join(out.shape[1:])}]`"
            )
            ctx.say("CG130", message, "tensors", out.name, "shape", help=help)
            return False
        return True

    def _is_alike(self, ctx: Context, first: Tensor | None, other: Tensor) -> bool:
        """Whether a right side is like that of the first product, as all are multiplied as one; says how it is not."""
        if first is None or first is other:
            return True
        if other.dtype is not first.dtype and {first.dtype, other.dtype} <= set(FACTORS):
            types = f"`{first.name}` is {first.dtype.value} and `{other.name}` is {other.dtype.value}"
            help = f"write `dtype: {first.dtype.value}`"
            ctx.say("CG118", f"{types}; both must be the same", "tensors", other.name, "dtype", help=help)
        if other.shape != first.shape:
            modes = f"[{', '.join(first.shape)}]"
            message = f"`{first.name}` is {modes} and `{other.name}` is [{', '.join(other.shape)}]"
            help = f"write `shape: {modes}`, or a kernel for each"
            ctx.say(
                "CG130",
                f"{message}; products in one kernel have the same types and shapes",
                "tensors",
                other.name,
                "shape",
                help=help,
            )
        return other.shape == first.shape

    def modes_that_may_be_empty(self, compute: Compute, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
        product = compute.matmul
        return (tensors[product.a].shape[-1],) if product else ()

    def lead(self, spec: KernelSpec) -> Tensor:
        return spec.by_element.output

    def reference(self, plan: Plan) -> Reference:
        return self._multiplied(plan, widened=True)

    def eager(self, plan: Plan) -> Reference:
        """Operands are multiplied as they are, and it is widened: cuBLAS has tensor cores for 16 bits, and for 8."""
        return self._multiplied(plan, widened=False)

    def _multiplied(self, plan: Plan, widened: bool) -> Reference:
        """The statements with the products first, whose operands are `widened` to their type before, or they behind."""
        from cutegen.codegen.reference import Reference
        from cutegen.ops.reference import assigned, meant, reference_of, segment_rows

        products = [node for typed in plan.statements for node in walk(typed.value) if isinstance(node, MatMul)]
        if products[0].scales:
            return self._scaled(plan, products)
        texts = {node.b: self._product_text(plan.spec, node, widened) for node in products}
        constants = (_ONE,) if any(_ONE in text for text in texts.values()) else ()
        cut = not any("torch._grouped_mm" in text for text in texts.values())  # which takes the ends on the GPU
        plain = len(plan.statements) == 1 and isinstance(plan.spec.compute.values[0], MatMul)
        if plain and not cut and plan.spec.output.dtype is Dtype.bf16:
            return Reference((f"result = {self._grouped_call(plan.spec, products[0])}",))
        if len(plan.statements) == 1 and isinstance(plan.statements[0].stored, MatMul):
            rows = segment_rows(plan.spec, plan.statements, cut)
            return Reference((*rows, assigned("result", texts[products[0].b])), constants=constants)
        found = reference_of(plan.spec, meant(plan.spec), texts, cut=cut)
        return replace(found, constants=(*found.constants, *constants))

    def _scaled(self, plan: Plan, products: Sequence[MatMul]) -> Reference:
        """The statements with the products first, whose operands are scaled, each as a sum of blocks."""
        from cutegen.codegen.reference import Reference
        from cutegen.codegen.variables import Variables
        from cutegen.ops.reference import meant, reference_of
        from cutegen.ops.scales import scaled_lines

        spec, variables = plan.spec, Variables(plan.spec)
        if len(plan.statements) == 1 and isinstance(plan.statements[0].stored, MatMul):
            return Reference(tuple(scaled_lines(spec, products[0], "result", variables)))
        sums = {node.b: variables.free(f"summed_{spec.tensor(node.b).argument}") for node in dict.fromkeys(products)}
        lines = [line for node in dict.fromkeys(products) for line in scaled_lines(spec, node, sums[node.b], variables)]
        found = reference_of(spec, meant(spec), sums)
        return replace(found, statements=(*lines, *found.statements))

    def _product_text(self, spec: KernelSpec, product: MatMul, widened: bool) -> str:
        from cutegen.codegen.places import place_index

        dtype = product.dtype
        assert dtype is not None
        factors, to = [spec.tensor(name) for name in (product.a, product.b)], f".to(torch.{dtype.torch})"
        at = [f"{t.argument}[{place_index(spec, t)}]" if t.at else t.argument for t in factors]
        a, b = (name + to * (widened and t.dtype is not dtype) for name, t in zip(at, factors, strict=True))
        batched = batch_of(spec.output) is not None
        if (
            not widened and factors[0].dtype.is_f8 and (batched or spec.segments)
        ):  # of which torch multiplies no batches
            return self._product_text(spec, product, widened=True)
        if not widened and factors[0].dtype.is_f8:
            return f"torch._scaled_mm({a}, {b}.T, {_ONE}, {_ONE}, out_dtype=torch.{dtype.torch}, use_fast_accum=True)"
        if spec.segments is not None:
            if not widened and factors[0].dtype is Dtype.bf16:
                return f"({self._grouped_call(spec, product)}){to}"
            from cutegen.codegen.segmented import LENGTHS

            pairs = f"zip({a}.split({LENGTHS}.tolist()), {b})"
            return f"torch.cat([x @ y.T for x, y in {pairs}])"
        text = f"{a} @ {b}.{'mT' if batched else 'T'}"
        return f"({text}){to}" if not widened and any(t.dtype is not dtype for t in factors) else text

    def _grouped_call(self, spec: KernelSpec, product: MatMul) -> str:
        """The call of torch that multiplies the rows of each segment by its matrix, in bf16."""
        assert spec.segments is not None
        a, b, ends = (spec.tensor(name).argument for name in (product.a, product.b, spec.segments.ends))
        return f"torch._grouped_mm({a}, {b}.mT, offs={ends})"

    def product_modes(self, spec: KernelSpec) -> tuple[str, ...]:
        product = spec.compute.matmul
        assert product is not None
        elements = spec.by_element
        return (*elements.output.shape[:-2], *elements.tensor(product.a).shape[-2:], spec.tensor(product.b).shape[-2])

    def peers(self, spec: KernelSpec) -> tuple[Peer, ...]:
        from cutegen.peers.peers import (
            COMPILED,
            CUBLAS,
            CUBLAS_BEST,
            CUBLAS_EAGER,
            GROUPED,
            SCALED,
            product_of,
            scaled_of,
        )

        product, scalars = spec.compute.matmul, dict.fromkeys((s.name for s in spec.scalars), 2)
        assert product is not None
        if spec.segments is not None:  # of other types torch makes one product after the other, and waits for the ends
            return (GROUPED,) if spec.tensor(product.a).dtype is Dtype.bf16 else ()
        if spec.tensor(product.a).dtype.is_f8:
            return (SCALED,) if scaled_of(spec, scalars) is not None else (CUBLAS_EAGER, COMPILED)
        by_cublas = product_of(spec, scalars) is not None
        return (CUBLAS, CUBLAS_BEST) if by_cublas else (CUBLAS_EAGER, COMPILED)

    def bench_shapes(self, spec: KernelSpec) -> Sequence[Mapping[str, int]]:
        """The sizes to measure a gemm at: cubes, and of segments those of some layers of routed experts."""
        if spec.segments is not None:
            m, k, n = self.product_modes(spec)
            return [{m: rows, n: columns, k: depth, spec.segments.of: count} for count, rows, columns, depth in EXPERTS]
        if (batch := batch_of(spec.output)) is not None:
            return [dict.fromkeys(spec.modes, size) | {batch: count} for count, size in BATCHES]
        return [dict.fromkeys(spec.modes, size) for size in CUBES]

    def work(self, spec: KernelSpec, sizes: Mapping[str, int]) -> Work:
        """The work of the epilogue, and two operations for each multiply-add of the product."""
        products, rest = spec.compute.products, super().work(spec, sizes)
        elements, depth = prod(sizes[mode] for mode in spec.lead.shape), sizes[spec.tensor(products[0].a).shape[-1]]
        return replace(rest, operations=rest.operations + len(products) * 2 * elements * depth)


GEMM = Gemm()
