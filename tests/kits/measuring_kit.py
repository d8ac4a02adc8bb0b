"""A stopwatch that runs on the CPU and says the times that a test wants; modules whose function a test writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from cutegen.codegen import Module, generate
from cutegen.measuring.arguments import Arguments
from cutegen.measuring.clock import Contender

TARGETS = "sm_80, sm_90a, sm_100a, sm_120a"
Times = Callable[[str, int], float]  # contender and how often it was timed before -> microseconds of one call


@dataclass
class Recording:
    contender: Contender
    launches: int
    graph: bool = True


@dataclass
class FakeWatch:
    """Runs the recorded calls where it is asked for their time, as a graph's replay does, but each set of arguments
    only once. `order` holds every run."""

    times: Times
    order: list[str] = field(default_factory=list)
    recorded: list[Recording] = field(default_factory=list)

    def record(self, contender: Contender, launches: int, graph: bool = True) -> Recording:
        contender.calls[0]()  # as the real one does, before it records
        self.recorded.append(Recording(contender, launches, graph))
        return self.recorded[-1]

    def time(self, recordings: Sequence[Recording]) -> list[float]:
        found = []
        for recording in recordings:
            contender = recording.contender
            contender.reset()
            for call in contender.calls:
                call()
            found.append(recording.launches * self.times(contender.name, self.order.count(contender.name)))
            self.order.append(contender.name)
        return found


def steady(**us: float) -> Times:
    """The same time in each round, 10 us for contenders that are not named."""
    return lambda name, number: us.get(name, 10.0)


def made(text: str) -> Module:
    return generate(text, "specs/k.yaml").modules[0]


def elementwise(compute: str, more: str = "", **tensors: str) -> Module:
    """A kernel of [M, N] f32 tensors, `A` and `B` those that are read; `tensors` gives other descriptions."""
    given = {"A": "{shape: [M, N], dtype: f32}", "B": "{shape: [M, N], dtype: f32}"}
    given = {n: d for n, d in {**given, **tensors}.items() if n in compute}
    given.setdefault("D", "{shape: [M, N], dtype: f32, role: out}")
    lines = "".join(f"  {name}: {description}\n" for name, description in given.items())
    head = "cutegen: 1\nkernel: work\nop: elementwise\n"
    return made(f"{head}tensors:\n{lines}compute: {compute}\ntargets: [{TARGETS}]\n{more}")


def gemm(compute: str = "C = A @ B.T", more: str = "", role: str = "out", dtype: str = "f32") -> Module:
    return made(f"""\
cutegen: 1
kernel: work
op: gemm
tensors:
  A: {{shape: [M, K], dtype: f32, major: M}}
  B: {{shape: [N, K], dtype: f32, major: K}}
  C: {{shape: [M, N], dtype: {dtype}, major: M, role: {role}}}
compute: {compute}
targets: [{TARGETS}]
{more}""")


def f8_gemm(compute: str, more: str = "", c: str = "bf16", b: str = "f8e4m3") -> Module:
    """The same of operands of 8 bits, with f32 scales R [M] and V [N]."""
    scales = {"R": "M", "V": "N"}
    read = "".join(f"  {s}: {{shape: [{mode}], dtype: f32}}\n" for s, mode in scales.items() if s in compute[3:])
    return made(f"""\
cutegen: 1
kernel: work
op: gemm
tensors:
  A: {{shape: [M, K], dtype: f8e4m3}}
  B: {{shape: [N, K], dtype: {b}}}
{read}  C: {{shape: [M, N], dtype: {c}, role: out}}
compute: {compute}
schedule:
  mma: {{atom: wgmma}}
{more}""")


def module_of(function: Callable[..., object], name: str = "work") -> ModuleType:
    """A module with that function, and itself as the compiled function of the CPU."""
    module = ModuleType(name)
    vars(module).update({name: function, "_compiled": lambda *_: function})
    return module


def called(function: Callable[..., Any], arguments: Arguments, number: int = 0) -> Any:
    """The result of a function with the generated one's signature."""
    places, named = arguments.call(number)
    return function(*places, **named)
