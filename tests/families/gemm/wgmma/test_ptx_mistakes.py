"""Mistakes in the PTX of gemms on Hopper's tensor cores are found.

They are put into the PTX of generated kernels, not into their text: into barriers, proxy fences and groups.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import ModuleType

import pytest

from cutegen.codegen import Module, generate
from cutegen.emulator.host import modules
from cutegen.emulator.host.builds import Build, build
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

SPEC = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
schedule:
  mma: {atom: wgmma}
"""
# One cluster walks all tiles, and uses every stage, buffer and barrier again
SHARED_LOADS = f"""\
{SPEC}  tiler: {{M: 128, N: 64, K: 32}}
  pipeline: {{stages: 3}}
  copies: {{C: {{columns: 32, stages: 1}}}}
  scheduler: {{blocks: 2}}
"""
PARTS = SPEC + "  tiler: {M: 64, N: 32, K: 32}\n  cluster: {K: 2}\n  scheduler: {blocks: 2}\n"
CASE = Case("several", "", {"M": 296, "N": 72, "K": 104}, "padded", "integers")
ALL, FIRST, LAST = slice(None), slice(0, 1), slice(-1, None)
TRY, THROUGH = r"mbarrier\.try_wait\.parity\S* P1, .*;", "setp.eq.u32 P1, 0, 0;"
ARRIVE = r"mbarrier\.arrive\.shared::cluster.*;"
EXPECTED = r"(mbarrier\.arrive\.expect_tx\S+ \S+ \S+) \S+;"
CONSUMED = r"(wgmma\.wait_group\.sync\.aligned\s+)"
# What is changed, at which of its places, and to what
OF_SHARED_LOADS = {
    "a load before its stage is free": (TRY, FIRST, THROUGH),
    "a product before its operands have come": (TRY, LAST, THROUGH),
    "no barrier of the cluster at the start": (r"barrier\.cluster\.(arrive\.relaxed|wait);", slice(0, 2), ""),
    "a block that ends before its peer": (r"barrier\.cluster\.(arrive|wait);", slice(-2, None), ""),
    "barriers that others do not see": (r"fence\.mbarrier_init\S+;", ALL, ""),
    "no proxy fence before a store": (r"fence\.proxy\.async\S+;", FIRST, ""),
    "no barrier before a store": (r"bar\.sync\s+%r\d+, 128;", slice(1, 2), ""),
    "no barrier behind the wait for a store": (r"bar\.sync\s+%r\d+, 128;", FIRST, ""),
    "no wait for stores": (r"cp\.async\.bulk\.wait_group\.read\s+\d+;", FIRST, ""),
    "no last wait for stores": (r"cp\.async\.bulk\.wait_group\.read\s+0;", LAST, ""),
    "stores in no group": (r"cp\.async\.bulk\.commit_group;", ALL, ""),
    "no wait for products": (CONSUMED + "1;", ALL, ""),
    "a wait that leaves one more product": (CONSUMED + "1;", ALL, r"\g<1>2;"),
    "no last wait for products": (CONSUMED + "0;", ALL, ""),
    "no fence of registers": (r"wgmma\.fence\.sync\.aligned;", ALL, ""),
    "products in no group": (r"wgmma\.commit_group\.sync\.aligned;", ALL, ""),
    "a stage is never given back": (ARRIVE, FIRST, ""),
    "a stage is given back twice": (ARRIVE, ALL, r"\g<0>\n\g<0>"),
    "a stage is given back to rank 0": (r"(mapa\S+\s+%r\d+, %r\d+), %r\d+;", ALL, r"\g<1>, 0;"),
    "too many bytes are expected": (EXPECTED, ALL, r"\g<1> 24576;"),
    "too few bytes are expected": (EXPECTED, ALL, r"\g<1> 8192;"),
    "one load fewer": (r"cp\.async\.bulk\.tensor\S+shared::cta\.global.*;", FIRST, ""),
    "one store fewer": (r"cp\.async\.bulk\.tensor\S+global\.shared.*;", FIRST, ""),
    "tensors before the kernel before has ended": (r"griddepcontrol\.wait;", ALL, ""),
}
OF_PARTS = {
    "sums are sent to oneself": (r"(mapa\S+\s+%r\d+, %r\d+), \S+;", ALL, r"\g<1>, 0;"),
    "sums are not sent": (r"st\.async\S+\s.*;", FIRST, ""),
    "sums are added before they have come": (TRY, LAST, THROUGH),
    "what was sent is told as read by no one": (ARRIVE, ALL, ""),
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Module, ModuleType, Build]]:
    """Each kernel, compiled once."""
    found = {}
    for name, text in (("shared_loads", SHARED_LOADS), ("parts", PARTS)):
        made = generate(text, "specs/x.yaml").modules[0]
        path = tmp_path_factory.mktemp(name) / "product.py"
        path.write_text(made.text, encoding="utf-8")
        loaded = load_module(path)
        found[name] = made, loaded, build(loaded, "sm_90a", lines=False)
    return found


def outcome(kernel: tuple[Module, ModuleType, Build], ptx: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The faults of a kernel with other PTX; empty if there are none."""
    made, loaded, compiled = kernel
    monkeypatch.setattr(modules, "builds", lambda *_, **__: (replace(compiled, ptx=ptx),))
    return verify_case(made.plan, CASE, loaded, EmulatorExecutor(lines=False)).message


@pytest.mark.parametrize("name", ["shared_loads", "parts"])
def test_the_kernels_are_right(
    name: str, kernels: dict[str, tuple[Module, ModuleType, Build]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome(kernels[name], kernels[name][2].ptx, monkeypatch) == ""


@pytest.mark.parametrize(
    ("name", "mistake"), [*(("shared_loads", m) for m in OF_SHARED_LOADS), *(("parts", m) for m in OF_PARTS)]
)
def test_a_mistake_is_seen(
    name: str, mistake: str, kernels: dict[str, tuple[Module, ModuleType, Build]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern, where, text = {**OF_SHARED_LOADS, **OF_PARTS}[mistake]
    ptx = kernels[name][2].ptx
    for found in reversed(list(re.finditer(pattern, ptx))[where]):
        ptx = ptx[: found.start()] + found.expand(text) + ptx[found.end() :]
    assert ptx != kernels[name][2].ptx
    found = outcome(kernels[name], ptx, monkeypatch)
    assert found and ("raised" not in found or "FaultError" in found), found
