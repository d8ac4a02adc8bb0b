"""The driver renders kernels of a family that it has never heard of, which lives outside of cutegen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from calls_kit import arguments_of  # noqa: E402

from cutegen.analysis.claim import Claim  # noqa: E402
from cutegen.codegen.parts import Constant, KernelParts, Limit  # noqa: E402
from cutegen.codegen.render import render  # noqa: E402
from cutegen.emulator import install, on_device  # noqa: E402
from cutegen.family import Family  # noqa: E402
from cutegen.language.model import KernelSpec, Schedule  # noqa: E402
from cutegen.language.reader import read_specs  # noqa: E402
from cutegen.ops.elementwise import ELEMENTWISE  # noqa: E402
from cutegen.ops.reference import Reference  # noqa: E402
from cutegen.planning.plan import Plan  # noqa: E402
from cutegen.planning.report import Report  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

SPEC = """
cutegen: 1
kernel: reverse
op: elementwise
tensors:
  X: {shape: [N], dtype: f32, major: N, align: 4}
  Y: {shape: [N], dtype: f32, major: N, align: 4, role: out}
compute: Y = X
targets: [sm_80]
"""
TEMPLATE = """{% include "toy/index.j2" %}


{% region "kernel", "kernel" %}
@cute.kernel
{{ call("def " ~ kernel ~ "_kernel(", kernel_parameters, "):", 0) }}
    n = index()
    m{{ O }}[n] = m{{ source }}[last - n]
{% endregion %}


{% include "module/memory.j2" %}
@cute.jit
{{ call("def launch(", launch_parameters, "):", 0) }}
{% include "module/refuse.j2" %}
    if m{{ O }}.shape[0] > 0:
        {{ launch(kernel ~ "_kernel", kernel_arguments, "1, 1, 1", "m" ~ O ~ ".shape[0]") }}
"""
INDEX = """def index():
    tidx, _, _ = cute.arch.thread_idx()
    return tidx
"""


@dataclass(frozen=True)
class ToySchedule(Schedule):
    """Nothing can be chosen."""


class Reverse(type(ELEMENTWISE)):  # type: ignore[misc]
    """The elements in the other order."""

    def reference(self, plan: Plan) -> Reference:
        return Reference(("result = x.flip(0)",))


REFUSED = ("if N > THREADS:", '    raise ValueError("y: expected at most as many elements as threads")')


class Toy(Family[ToySchedule, Plan]):
    name = "toy"
    op = Reverse()
    schedule = ToySchedule

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    @property
    def folder(self) -> Path:  # type: ignore[override]
        return self._folder

    def resolve(self, spec: KernelSpec[ToySchedule], report: Report) -> KernelSpec[ToySchedule]:
        return spec

    def plan(self, spec: KernelSpec[ToySchedule]) -> Plan:
        return Plan(spec=spec, threads=1024, tile={"N": 1024})

    def claims(self, plan: Plan) -> Iterator[Claim]:
        return iter(())

    def kernel_parts(self, plan: Plan) -> KernelParts:
        return KernelParts(
            template="toy.py.j2",
            constants=(Constant("THREADS", "1024", "at most", "schedule"),),
            context={"source": "X"},
            parameters=("last: cutlass.Int32",),
            launched={"last": "mY.shape[0] - 1"},
            limits=(Limit("schedule", ('sizes["N"]',), '"at most as many elements as threads"', "tiles <= THREADS"),),
        )


class Greedy(Toy):
    """It prints under a name that all modules have."""

    def kernel_parts(self, plan: Plan) -> KernelParts:
        return replace(super().kernel_parts(plan), context={"source": "X", "kernel": "mine"})


def planned(family: Toy) -> Plan:
    (spec,) = read_specs(SPEC)
    return family.plan(replace(spec, schedule=ToySchedule()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    for name, text in (("toy.py.j2", TEMPLATE), ("index.j2", INDEX)):
        (tmp_path / "templates" / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_family_from_elsewhere_is_rendered_and_runs(folder: Path) -> None:
    text, regions = render(planned(Toy(folder)), "specs/reverse.yaml")
    assert {region.name for region in regions} >= {"kernel", "THREADS", "TARGETS", "limit of the launch"}
    path = folder / "reverse.py"
    path.write_text(text, encoding="utf-8")
    module = load_module(path)
    install(module, "reverse", roles={"x": "in", "y": "out"})
    x, y = arguments_of(module, N=100)
    module.reverse(on_device(x), y=on_device(y))
    assert torch.equal(y, x.flip(0)) and torch.equal(y, module.reference(x, y=y))
    with pytest.raises(ValueError, match="y: expected at most as many elements as threads"):
        module.reverse(*map(on_device, module.make_inputs(N=1025, device="cpu")))


def test_a_family_may_not_print_under_a_name_of_the_driver(folder: Path) -> None:
    with pytest.raises(ValueError, match="the family toy prints kernel, which all modules have"):
        render(planned(Greedy(folder)), "specs/reverse.yaml")
