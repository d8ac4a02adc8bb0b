"""The result of a function in `reference` does not depend on surrounding or nested expressions."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.expressions.functions import FUNCTIONS

SPEC = """\
cutegen: 1
kernel: {kernel}
op: elementwise
tensors:
  X: {{shape: [M, N], dtype: f32}}
  B: {{shape: [M, N], dtype: f32}}
  Y: {{shape: [M, N], dtype: f32, role: out}}
compute:
{compute}
targets: [sm_80]
"""
TAKEN = {name: one for name, one in FUNCTIONS.items() if name not in ("where", "isnan", "isinf", "isfinite")}


@pytest.mark.parametrize("name", sorted(TAKEN))
def test_a_function_of_a_sum_in_a_product_is_that_of_the_sum(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    executor = pytest.importorskip("cutegen.verification.executor")
    inner = ["X + B", "B - X", "X - 0.5"][: TAKEN[name].least]
    texts = {
        "nested": [f"Y = 2 - B * {name}({', '.join(inner)})"],
        "apart": [
            *(f"t{number} = {text}" for number, text in enumerate(inner)),
            f"u = {name}({', '.join(f't{number}' for number in range(len(inner)))})",
            "v = B * u",
            "Y = 2 - v",
        ],
    }
    values = torch.tensor([*product((-3.5, -0.75, 0.25, 1.5, 4.0), repeat=2)]).T.reshape(2, 5, 5)
    found = []
    for kernel, statements in texts.items():
        compute = "\n".join(f"  - {statement}" for statement in statements)
        (module,) = generate(SPEC.format(kernel=kernel, compute=compute), "x.yaml").modules
        path = tmp_path / f"{kernel}.py"
        path.write_text(module.text, encoding="utf-8")
        found.append(executor.load_module(path).reference(*values))
    assert torch.equal(found[0].nan_to_num(), found[1].nan_to_num())
