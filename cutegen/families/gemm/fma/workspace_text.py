"""Text for the operands of a gemm that a separate kernel first writes to a workspace."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.codegen.formatting import launch, python_tuple
from cutegen.codegen.parts import Constant, Workspace, WorkspaceMode
from cutegen.families.gemm.staged.plan import MultistagePlan, WorkspacePlan


@dataclass(frozen=True)
class WorkspaceText:
    """The texts that a module prints of a workspace."""

    plan: WorkspacePlan
    kernel: str

    @property
    def name(self) -> str:
        return self.plan.tensor.name

    @property
    def path(self) -> str:
        """The key of the spec."""
        return f"schedule.workspace.{self.name}"

    @property
    def parameter(self) -> str:
        """The name of the workspace's parameter of `launch`."""
        return f"workspace_{self.name}"

    @property
    def fill(self) -> str:
        """The function that launches the kernel; in `launch` itself scalars and modes would be variables too."""
        return f"_fill_workspace_{self.name}"

    @property
    def kernel_parameters(self) -> list[str]:
        tensors = [f"m{letter}: cute.Tensor" for letter in "SD"]
        return [*tensors, *(f"{name}: cute.TiledCopy" for name, _, _ in self.copies)]

    @property
    def copies(self) -> list[tuple[str, int, Layout]]:
        """Both tiled copies: name, bits of an access, and the order of a thread's values, those of one access first."""
        shape = (self.plan.write, self.plan.read)
        return [
            ("tiled_read", self.plan.read_bits, Layout(shape, (self.plan.read, 1))),
            ("tiled_write", self.plan.write_bits, Layout(shape, (1, self.plan.write))),
        ]

    @property
    def launch(self) -> str:
        arguments = [p.split(":")[0] for p in self.kernel_parameters]
        return launch(self.kernel, arguments, "along, cutlass.max(deep, 1), 1", f"{self.plan.threads}, 1, 1", 4)

    @property
    def host(self) -> Workspace:
        """The workspace as the host side declares it: along the operand's own mode its memory has whole vectors."""
        plan, argument, vector = self.plan, self.plan.tensor.argument, self.plan.write
        unit, rows = f"divisibility={vector}", str(plan.rows)
        made, size, whole = rows, rows, WorkspaceMode(plan.rows or 0)
        if plan.rows is None:
            made, size = f"-(-{argument}.shape[0] // {vector}) * {vector}", f"cute.sym_int({unit})"
            whole = WorkspaceMode(plan.mode, vector)
        return Workspace(
            path=self.path,
            parameter=self.parameter,
            memory=f"_workspace({argument}, {made})",
            fake=(
                f"cutlass.{plan.tensor.dtype.cutlass}",
                ("(", [size, f'sizes["{plan.k}"]'], ")"),
                ("(", ["1", f"cute.sym_int64({unit})"], ")"),
                f"assumed_align={vector * plan.tensor.dtype.bytes}",
            ),
            documentation=f"Each call first copies {argument} to a workspace of the same size, {plan.mode} contiguous.",
            dtype=plan.tensor.dtype,
            modes=(whole, WorkspaceMode(plan.k)),
            major=0,
        )

    @property
    def constant(self) -> Constant:
        what = f"tile of a block that fills {self.name}'s workspace"
        return Constant(f"SPACE_{self.name}", python_tuple(self.plan.tile), what, self.path)


def workspace_texts(plan: MultistagePlan) -> list[WorkspaceText]:
    """The texts of every operand that has a workspace."""
    return [WorkspaceText(x, f"{plan.spec.kernel}_workspace_{x.tensor.name}_kernel") for x in plan.workspaces]
