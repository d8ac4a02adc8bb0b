"""How a module prints A and B on their way to shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.codegen.formatting import python_tuple
from cutegen.families.gemm_multistage.plan import GemmOperand, GemmPlan
from cutegen.layouts import show


@dataclass(frozen=True)
class LoadText:
    """The texts that a module prints of A or B on its way to shared memory."""

    plan: GemmOperand
    name: str
    proj: str
    op: str
    smem_shape: str
    smem_strides: str
    pad: int
    order: str  # of a column of shared memory, if it has a layout
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
        target = f"t{n}r{n}" if self.plan.through_registers else f"t{n}s{n}[None, None, None, {stage}]"
        items = [f"tiled_copy_{n}", f"t{n}g{n}[None, None, None, {tile}]", target]
        if first and self.residue:
            items.append(f"pred=t{n}p{n}_first")
        elif self.plan.masked:
            items.append(f"pred=t{n}p{n}")
        return items

    @property
    def next_copy(self) -> list[str]:
        """The arguments of `cute.copy` for the tile that is fetched to registers, if there is one."""
        return [*self.copy("fetch", "", False)[:3], f"pred=t{self.name}p{self.name}_next"]

    @property
    def next_strides(self) -> str:
        return self.predicate_strides if self.plan.masked else "(0, 0, 0)"

    def write(self, stage: str) -> str:
        """The call that writes what was read into registers to a stage of shared memory."""
        n = self.name
        return f"cute.autovec_copy(t{n}r{n}, t{n}s{n}[None, None, None, {stage}])"


def load_text(plan: GemmPlan, x: GemmOperand) -> LoadText:
    name, block = x.tensor.name, f"BLK_{x.mode.upper()}"
    rest_v, rest_mn, rest_k = x.copies
    profile = ((x.vector, rest_v), rest_mn, rest_k)
    pad = x.smem_stride - x.block
    stride = f"{block} + {pad}" if pad else block
    depth = f"BLK_{plan.k.upper()}"
    column: tuple[object, object] = (block, 1)
    order = ""
    if x.smem_layout is not None:
        column = x.smem_layout.shape, x.smem_layout.stride
        order = f"the layout says where each coordinate along {x.mode} stands"
        if x.smem_runs:
            order = "what a thread reads at once stands together"
    return LoadText(
        plan=x,
        name=name,
        proj="(1, None, 1)" if x.letter == "A" else "(None, 1, 1)",
        op="cpasync.CopyG2SOp()" if x.atom == "cp_async" else "cute.nvgpu.CopyUniversalOp()",
        smem_shape=f"({column[0]}, {depth}, STAGES)",
        smem_strides=f"({column[1]}, {stride}, {depth} * {f'({stride})' if pad else stride})",
        pad=pad,
        order=order,
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
