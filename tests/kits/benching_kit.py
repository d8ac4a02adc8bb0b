"""`cutegen bench` without a GPU: a session that measures what a test wants, and specs to measure."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner, Result

from cutegen.cli import cli
from cutegen.codegen.render import code_hash
from cutegen.measuring import Failure, KernelResult, Limits, Machine, Measured, Request, Timing
from cutegen.measuring.limits import limit_us, work_of
from cutegen.peers.peers import choose

LIMITS = Limits(4000.0, 5000.0, 4500.0, 60.0)
MACHINE = Machine("Test GPU", "9.0", "580.1", {"torch": "2.11"}, 132, 50 << 20, 1 << 37, {"sm": 1980}, LIMITS)
GEMM = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M}
  B: {shape: [N, K], dtype: f32, major: N}
  C: {shape: [M, N], dtype: f32, major: M, role: out}
compute: C = A @ B.T
schedule: {mma: {atom: fma}}
targets: [sm_90a]
"""


class FakeSession:
    """Each kernel reaches half of its limit, each peer three quarters; or what `change` makes of that."""

    asked: list[Request] = []
    change: Callable[[KernelResult], KernelResult] = staticmethod(lambda result: result)
    lost: bool = False

    def __init__(self, device: int, note: Callable[[str], None]) -> None:
        self.machine: Machine | None = None
        self.device, self.note = device, note

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *error: object) -> None: ...

    def measure(self, request: Request) -> KernelResult:
        self.asked.append(request)
        spec = request.plan.spec
        assert code_hash(request.module.read_text()) == request.code_hash
        if self.lost:
            return KernelResult(spec.kernel, "", (), (Failure("cannot run", spec.kernel, None, "no such device"),))
        self.machine = MACHINE
        measured = []
        for shape in request.shapes:
            limit = limit_us(request.plan, shape, LIMITS, request.l2, 1)
            assert limit is not None
            peers = {peer.name: Timing(limit / 0.75, 0.01, request.rounds) for peer in choose(spec)}
            peers |= {place: Timing(limit, 0.01, request.rounds) for place in request.vs}
            timing = Timing(2 * limit, 0.012, request.rounds)
            work = work_of(request.plan, shape)
            measured.append(Measured(shape, timing, peers, {}, *work, limit, request.l2, 0.0, 0.0, 0.0))
        host = {name: Timing(4.0, 0.1, 50) for name in ("call", "compiled", "torch.add")}
        return type(self).change(KernelResult(spec.kernel, request.code_hash, tuple(measured), (), host))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["bench", *map(str, arguments)])
