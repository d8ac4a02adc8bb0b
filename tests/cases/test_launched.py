"""Modules that choose by cost: their `launch`, run with stand-ins, comes for each call to the kernel that it is for."""

from __future__ import annotations

import ast
import functools
import inspect
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from cutegen.cases.calls import Call, of_group, taken
from cutegen.cases.forms import forms_of
from cutegen.cases.plan import CasesPlan
from cutegen.codegen import generate
from cutegen.codegen.variables import Variables
from cutegen.compiling.loading import load
from cutegen.contract import forget_compiled

HEAD = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
"""
NARROW = "mma: {atom: wgmma}, copies: {C: {atom: universal}}"
FEW = "tiler: {M: 16}, mma: {atom: wgmma, rows: N}, copies: {C: {atom: universal}}"
COMPARED = [
    "tiler: {M: 64, N: 128, K: 64}, mma: {atom: wgmma}",
    "tiler: {M: 32, N: 64, K: 128}, mma: {atom: wgmma, rows: N}",
]


def cases(*several: tuple[str, str], targets: str = "[sm_90a]") -> str:
    written = "".join(f"  - {{for: {{{one}}}, {schedule}}}\n" for one, schedule in several)
    return f"{HEAD}schedule:\n{written.replace('for: {}, ', '')}targets: {targets}\n"


def compared(conditions: str) -> list[tuple[str, str]]:
    return [(f"{conditions}cost: least", schedule) for schedule in COMPARED]


TEXTS = {
    "nothing written": f"{HEAD}targets: [sm_80, sm_90a]\n",
    "before and behind": cases(("M: '<= 4'", FEW), *compared("N: '% 8 == 0', "), ("", NARROW)),
    "several behind": cases(*compared("N: ['% 8 == 0', '<= 4096'], M: '> 16', "), ("M: '<= 8'", FEW), ("", NARROW)),
    "aligned before": cases(("M: '<= 64', align: 16", FEW), *compared("N: '% 8 == 0', "), ("", NARROW)),
    "targets": cases(
        *[("target: sm_90a, M: '<= 4'", FEW), *compared("target: sm_90a, N: '% 8 == 0', ")],
        *[("target: sm_90a", NARROW), ("", "mma: {atom: mma_sync}")],
        targets="[sm_80, sm_90a]\ndivisible: {N: 1}",
    ),
    "a target before": cases(
        *[("target: sm_80, M: '<= 4'", "mma: {atom: mma_sync}"), *compared("target: sm_90a, ")],
        *[("", "mma: {atom: mma_sync}")],
        targets="[sm_80, sm_90a]",
    ),
}


class Tensor:
    """The requirements of `launch` on a tensor, and its promises about one."""

    def __init__(self, *shape: int, align: int, promised: bool = False) -> None:
        self.shape, self.align, self.promised = shape, align, promised


def functions_of(text: str, plan: CasesPlan, launched: list[tuple[int, tuple[Any, ...]]]) -> dict[str, Any]:
    """`launch` and `_cheapest` of a module, where launches of kernels note their number and arguments."""
    given: dict[str, Any] = {
        **{"functools": functools, "_refuse_broken": lambda *tensors: None},
        "_standing": lambda m, *named: m,
        "_promised": lambda m, shape, align: Tensor(*shape, align=m.align, promised=True),
        "_stand": lambda align, *tensors: all(m.align % align == 0 for m in tensors),
        "cutlass": type("cutlass", (), {"const_expr": staticmethod(bool)}),
        "cute": type("cute", (), {"assume": staticmethod(lambda size, divby: size)}),
    }
    for form in forms_of(plan, Variables(plan.spec)).values():
        given[form.table] = tuple(number + 1 for number in form.numbers)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id.startswith("CASE_"):
            given[node.id] = int(node.id[5:])
        if isinstance(node, ast.FunctionDef) and node.name.startswith("launch_"):
            own = int(node.name[7:])
            given[node.name] = lambda *given, own=own: launched.append((given[-1] if given[-1] else own, given))
    for node in ast.parse(text).body:
        name = node.name if isinstance(node, ast.FunctionDef) else getattr(getattr(node, "targets", [0])[0], "id", "")
        if name in ("COSTS", "ALL", "_cheapest", "launch") or name.startswith("known_tensors"):
            if isinstance(node, ast.FunctionDef) and name != "_cheapest":
                node.decorator_list = []
                for argument in node.args.args:
                    argument.annotation = None
            exec(compile(ast.Module([node], []), "module", "exec"), given)
    return given


@pytest.mark.parametrize("name", TEXTS)
def test_each_call_launches_the_kernel_that_it_is_for_of_those_that_it_compiled(name: str) -> None:
    (module,) = generate(TEXTS[name], "product.yaml").modules
    launched: list[tuple[int, tuple[Any, ...]]] = []
    plan, numbers, seen = module.plan, random.Random(4), set()
    assert isinstance(plan, CasesPlan)
    of_module = functions_of(module.text, plan, launched)

    parameters = inspect.signature(of_module["launch"]).parameters
    spares = [0 for name in parameters if name.startswith("spare_")]  # no memory for copies: none are made

    def by_target(target: str) -> dict[str, str]:
        return {"target": target} if len(plan.spec.targets) > 1 else {}

    for _ in range(4000):
        m, n, k = (int(2 ** numbers.uniform(0, 14)) for _ in range(3))
        m, n = min(m, numbers.choice((3, 12, 1 << 14))), n if numbers.random() < 0.4 else -(-n // 8) * 8
        align, target = numbers.choice((2, 16)), numbers.choice(plan.spec.targets)
        sizes = {"M": m, "N": n, "K": k}
        first = taken(plan.conditions, Call(target, sizes, align))
        assert first is not None
        group, chosen = of_group(plan.conditions, first), of_module["_cheapest"](m, n, k, 132)
        wanted = group[chosen] if len(group) > 1 else first
        a, b, c = (Tensor(*shape, align=align) for shape in ((m, k), (n, k), (m, n)))
        for kernels in ((chosen,), of_module["ALL"]):
            launched.clear()
            of_module["launch"](
                *(a, b, c, *spares, chosen, None), multiprocessors=0, kernels=kernels, **by_target(target)
            )
            ((number, arguments),) = launched
            assert number == wanted + 1, (sizes, target, align)
            if not plan.conditions[wanted].sizes and plan.conditions[wanted].align == 1:
                assert not any(isinstance(one, Tensor) and one.promised for one in arguments)
        seen.add(wanted)
    assert len(seen) > len(plan.cases) - 4, seen


def test_where_nothing_is_compared_one_function_is_compiled_for_all_calls(tmp_path: Path) -> None:
    """A call comes with the number of a kernel that its GPU has not: all numbers are the same function there."""
    (module,) = generate(TEXTS["nothing written"], "product.yaml").modules
    (tmp_path / "product.py").write_text(module.text)
    loaded, asked = load(tmp_path / "product.py", "product_of_targets"), []

    def compile_for(target: str, kernels: tuple[int, ...], multiprocessors: int) -> Any:
        assert multiprocessors == 114
        asked.append((target, kernels))
        return lambda *arguments: None

    properties = SimpleNamespace(multi_processor_count=114)
    with mock.patch.object(loaded, "compile_for", compile_for):
        for capability, several in (((8, 6), [("sm_80", (0,))]), ((9, 0), [("sm_90a", (i,)) for i in loaded.ALL])):
            asked.clear()
            forget_compiled(loaded)
            with (
                mock.patch("torch.cuda.get_device_capability", lambda device, found=capability: found),
                mock.patch("torch.cuda.get_device_properties", lambda device: properties),
            ):
                of_each = [loaded._compiled(0, number) for number in (*reversed(loaded.ALL), *loaded.ALL)]
            assert sorted(asked) == sorted(several)
            assert len(set(map(id, of_each))) == len(several)
