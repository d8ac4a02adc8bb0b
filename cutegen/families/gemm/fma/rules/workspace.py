"""Rules about operands that a kernel of their own first writes to a workspace."""

from __future__ import annotations

from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.lint.rule import Say


def majorness(spec: Spec, say: Say) -> None:
    """A workspace turns a k-major operand into one that is contiguous along m, or n for B."""
    k = gemm.product_of(spec).k
    for name, space in gemm.workspaces(spec).items():
        tensor, path = spec.tensor(name), ("schedule", "workspace", name)
        if tensor.major != k:
            say(
                f"{name} is {tensor.major}-major, which the mainloop copies as it is",
                *path,
                "major",
                notes=(f"a workspace is for operands that are {k}-major",),
                help=f"remove `{name}` from workspace",
            )
        elif space.major == k:
            other = tensor.shape[0]
            say(
                f"the workspace of {name} is {k}-major, like {name} itself",
                *path,
                "major",
                help=f"write `major: {other}`",
            )
