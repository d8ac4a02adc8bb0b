"""The statements by which consumers scale the products of a step along k, and add them to their sums."""

from __future__ import annotations

from dataclasses import replace

from cutegen.families.gemm.wgmma.role import Role
from cutegen.families.gemm.wgmma.scales import Scale
from cutegen.parts.moving import Drain, Multiply, Use
from cutegen.parts.statements import Blank, Body, Code, For, If, Note, Region, Statement

BLOCK = "acc_block"  # the accumulators of one step


class Scaling(Role):
    """The scales of a thread, and the products that it scales."""

    @property
    def scaled(self) -> tuple[tuple[str, Scale], ...]:
        """The scales, with the letter of the operand that has them."""
        pairs = zip("AB", (self.plan.scale_a, self.plan.scale_b), strict=True)
        return tuple((letter, scale) for letter, scale in pairs if scale is not None)

    @property
    def has_row_blocks(self) -> bool:
        """Whether a warpgroup has several blocks of 64 rows, in some kernel that the functions serve."""
        return self.plan.row_blocks > 1 or self.plan.varies("ROW_BLOCKS")

    def row_blocks(self) -> Body:
        """The blocks of 64 rows of A one by one, where a warpgroup has several and scales the products of each."""
        if not self.scaled or not self.has_row_blocks:
            return ()
        a = f"t{self.plan.spec.output.name}r{self.stack(self.plan.a)}"
        note = Note("(V, (1, blocks of 64 rows), steps of a wgmma, stages)")
        return (note, Code(f"{a} = cute.logical_divide(", (a, "(None, cute.make_layout(1), None, None)"), ")"))

    def scales_of_first(self) -> Body:
        """Loads the scales of the first step of this consumer's first tile."""
        first = "start" if self.plan.any_turns else self.walk[0]
        return self._scales_of(first, "The scales of the first step; each step then loads those of the next one")

    def scales_of_next(self) -> Body:
        """Loads those of its next tile, which come during the epilogue of this one."""
        if not self.scaled or not self.plan.persistent:
            return ()
        step = "step" if self.plan.any_turns else self.walk[1]
        return (
            *self._scales_of(f"tile + {step}", "The scales of the next tile's first step, or of the last tile's again"),
            Blank(),
        )

    def _scales_of(self, tile: str, note: str) -> Body:
        """Loads the scales of the first step of a tile; past the last one, that one's."""
        if not self.scaled:
            return ()
        batched = self.plan.batch is not None
        names = ", ".join(("m_next", "n_next", *["l_next"] * batched))
        finders = (f"cutlass.min({tile}, tiles - 1)", *self.finders[1:])
        in_cluster = Code("m_next, n_next = m_next * CLUSTER_M + x, n_next * CLUSTER_N + y")
        first = "k_first" if self.split or self.plan.any_split else "0"
        body = (
            Note(note),
            Code(f"{names} = tile_coordinate(", finders, ")"),
            *[in_cluster] * self.clustered,
            If("k_tiles > 0", self.loads(first, "next")),
        )
        return (Region("compute", "scales of a tile's first step", body),)

    def loads(self, step: str, tile: str = "tile") -> Body:
        """Loads the scales of a step along k, of the tile whose coordinates have that name."""
        return tuple(self.load_of(letter, scale, step, tile) for letter, scale in self.scaled)

    def scales(self) -> Statement:
        """The scales of this step, which were loaded while the step before was multiplied."""
        return Code("multiply_scales(", (*(f"next_{letter}" for letter, _ in self.scaled), "scales"), ")")

    def load_of(self, letter: str, scale: Scale, step: str, of: str) -> Statement:
        """Loads the scales that a thread needs of a step along k; past the last one, that one's."""
        plan, name = self.plan, scale.tensor.name
        ratio = scale.depth // plan.tile[plan.k]
        last = f"m{name}.shape[{1 if scale.along else 0}] - 1"
        block = step if ratio == 1 else f"{f'({step})' if ' ' in step else step} // {ratio}"
        k = f"cutlass.min({block}, {last})" if step != "0" else step
        every = "None, None" if scale.along else "None"
        matrix = f"m{name}[{every}, l_{of}]" if plan.has_batch(scale.tensor) else f"m{name}"
        if scale.along is None:
            return Code(f"next_{letter}[0] = {matrix}[", (k,), "]")
        side, mode = ("m", plan.m) if letter == "A" else ("n", plan.n)
        more = ("thr_rows",) if letter == "A" else (self.chunk,)
        arguments = (matrix, f"{side}_{of} * BLK_{mode.upper()}", *more, k, f"next_{letter}")
        return Code(f"load_scales_{letter}(", arguments, ")")

    def scaled_products(self, a: str, b: str, release: Body) -> Body:
        """The products of a step, 64 rows of each warpgroup at a time, which are scaled and added. While the first run
        the scales of the next step are loaded, and once the last are done the stage is released.

        All about scales comes behind the first products, which would wait for loads that are used before.
        """
        several, count = self.has_row_blocks, self.plan.number("ROW_BLOCKS", self.plan.row_blocks)
        loads: Body = (Region("compute", "scales", (self.scales(), *self.loads(f"{self.k_tile} + 1"))),)
        note = "They are done: the stage is free"
        if several:
            loads = (If("cutlass.const_expr(row_block == 0)", loads),)
            last = f"{count} - 1" if self.plan.varies("ROW_BLOCKS") else str(self.plan.row_blocks - 1)
            plan = self.plan
            releasing = plan.number("PEERS", plan.peers) if plan.peers > 1 or plan.any_peers else "1"
            condition = f"thr < {releasing} * (row_block == {last})"
            release = tuple(replace(one, condition=condition) if isinstance(one, If) else one for one in release)
            note = "The products are complete; after those of the last rows the stage is free"
        body: Body = (
            Multiply(a, b, "stage", self.loaded, BLOCK, "row_block" if several else "", fresh=True),
            *loads,
            Note(note),
            Drain(0),
            *release,
            Use((BLOCK, "acc")),
            Code("add_scaled(", ("acc", "row_block" if several else "0", BLOCK, "scales"), ")"),
        )
        loop = For("row_block", f"cutlass.range_constexpr({count})", body)
        return (Region("schedule.mma", "products", (loop,) if several else body),)

    @property
    def held(self) -> dict[str, str]:
        """The scales of each operand that a thread needs at a time, as text."""
        plan, found = self.plan, {"A": "1", "B": "1"}
        if plan.scale_a is not None and plan.scale_a.along:
            found["A"] = "2 * ROW_BLOCKS" if plan.varies("ROW_BLOCKS") else str(2 * plan.row_blocks)
        if plan.scale_b is not None and plan.scale_b.along:
            columns = f"BLK_{plan.n.upper()}"
            found["B"] = f"{columns} // {self.chunk}" if plan.varies(columns, "CHUNK") else str(plan.chunks)
        return found

    @property
    def chunk(self) -> str:
        return self.plan.number("CHUNK", self.plan.chunk)

    def scale_registers(self) -> Body:
        """The registers of a thread for the scales of a step, and for those that are loaded for the next one."""
        held = self.held
        made, both = "cute.make_rmem_tensor({}, cutlass.Float32)", f"({held['A']}, {held['B']})"
        found = [Code(f"scales = {made.format(both)}")]
        found += [Code(f"next_{letter} = {made.format(f'({held[letter]},)')}") for letter, _ in self.scaled]
        return (Region("compute", "registers of scales", tuple(found)),)
