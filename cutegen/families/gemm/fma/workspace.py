"""Operands of a gemm that a kernel of their own first writes to a workspace, as the mainloop wants them.

A k-major operand costs the mainloop four copies where one would do, or a way through registers. Writing it once in rows
along m or n costs a pass over memory: on an H200 35 us for 4096 x 4096 of f32 and 135 us for 8192 x 8192. The product
of two k-major operands then takes 1 to 2 % less in all at 4096 cubed and 3 % less at 8192 cubed; at 2048 cubed the one
makes up for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.atoms.targets import MAX_VECTOR_BITS, TARGETS
from cutegen.families.common.planning import turning_threads
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.plan import WorkspacePlan
from cutegen.families.gemm.staged.schedule import GemmSchedule, Spec, Workspace
from cutegen.planning.promises import aligned_elements, known_divisor
from cutegen.planning.report import Report


def infer_workspaces(spec: Spec, report: Report) -> GemmSchedule:
    found: dict[str, Workspace] = {}
    for name, space in spec.schedule.workspace.items():
        if space.thread_layout is None:
            layout, why = _threads(_read(spec, name) * spec.tensor(name).dtype.bytes)
            space = replace(space, thread_layout=layout)
            report.infer(why, "schedule", "workspace", name, "thread_layout")
        found[name] = space
    return replace(spec.schedule, workspace=found)


def _threads(bytes_read: int) -> tuple[Layout, str]:
    """The threads of a block that fills a workspace, of 16 bytes each along m and so many along k, and why.

    A warp reads 4 rows of 128 bytes and writes 8 of 64, or as many rows of whole sectors as it can.
    """
    whole = bytes_read * 8 == MAX_VECTOR_BITS
    along, deep = turning_threads(8 if whole else 16)
    why = "a warp reads whole cache lines" if whole else "a warp writes whole sectors, and reads rows as long as it can"
    return Layout((along.shape, deep.shape), (along.stride, deep.stride)), why


def _read(spec: Spec, name: str) -> int:
    """Elements of one access to the operand, along k: as wide as its alignment and what k is a multiple of allow."""
    known = known_divisor(spec, gemm.product_of(spec).k)
    return min(aligned_elements(spec.tensor(name)), known & -known)


def plan_workspaces(spec: Spec) -> Mapping[str, WorkspacePlan]:
    """The plans of a spec's workspaces, by tensor. The spec is resolved and passed its checks."""
    k = gemm.product_of(spec).k
    found = {}
    for name, space in gemm.workspaces(spec).items():
        tensor = spec.tensor(name)
        assert space.thread_layout is not None
        read = _read(spec, name)
        write = MAX_VECTOR_BITS // tensor.dtype.bits
        along, deep = layouts.mode_sizes(space.thread_layout)
        tile = along * write, deep * read
        largest = min(TARGETS[target].grid_y for target in spec.targets) * tile[1]
        found[name] = WorkspacePlan(
            tensor=tensor,
            mode=space.major,
            k=k,
            threads=int(size(space.thread_layout)),
            thread_layout=space.thread_layout,
            read=read,
            write=write,
            tile=tile,
            largest=None if spec.static.get(k, largest + 1) <= largest else largest,
            rows=-(-spec.static[space.major] // write) * write if space.major in spec.static else None,
        )
    return found
