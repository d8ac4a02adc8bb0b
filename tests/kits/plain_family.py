"""A family that answers no more than it must, with a plan that has no part that is computed value by value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cutegen.analysis.claim import Claim
from cutegen.codegen.parts import KernelParts
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.family import Family
from cutegen.language.model import KernelSpec, Schedule, Tensor
from cutegen.language.reader import read_specs
from cutegen.ops.elementwise import ELEMENTWISE
from cutegen.planning import resolve
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report


@dataclass(frozen=True)
class PlainSchedule(Schedule):
    """It has no keys."""


class PlainFamily(Family[PlainSchedule, Plan]):
    """Blocks of 32 threads with a tile of 32 x 64 each."""

    name = "plain"
    op = ELEMENTWISE
    schedule = PlainSchedule

    def resolve(self, spec: KernelSpec[PlainSchedule], report: Report) -> KernelSpec[PlainSchedule]:
        return spec

    def plan(self, spec: KernelSpec[PlainSchedule]) -> Plan:
        return Plan(spec=spec, threads=32, tile={"M": 32, "N": 64})

    def kernel_parts(self, plan: Plan) -> KernelParts:
        raise NotImplementedError

    def claims(self, plan: Plan) -> Iterator[Claim]:
        whole = all(plan.spec.divisible.get(mode, 1) % tile == 0 for mode, tile in plan.tile.items())
        yield Claim("bounds", "tiles are whole", ("the host takes multiples only",), whole, ("divisible",))


FAMILY = PlainFamily()
TEXT = """\
cutegen: 1
kernel: plain
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32}
  D: {shape: [M, N], dtype: f32, role: out}
compute: D = S + 1
divisible: {M: 32, N: 64}
"""


def plain_spec() -> KernelSpec[PlainSchedule]:
    """Resolved, with two outputs."""
    spec = read_specs(TEXT, "x.yaml")[0]
    resolved = resolve(spec, Report(spec.source))
    second = Tensor("E", ("M", "N"), Dtype.f64, major="N", align=16, role="out")
    return replace(
        resolved,
        tensors=(*resolved.tensors, second),
        compute=parse_compute(["D = S + 1", "E = exp(S) * S"]),
        schedule=PlainSchedule(),
        divisible=spec.divisible,
    )


def plain_plan() -> Plan:
    return FAMILY.plan(plain_spec())
