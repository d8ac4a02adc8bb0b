"""Ops that torch knows kernels by: which kernel is the gradient of which, and what is said where one is not."""

from __future__ import annotations

import pytest

from cutegen.codegen import generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.language.torch_ops import gradient_of

SCALE = """\
cutegen: 1
kernel: scale
op: elementwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  Y: {shape: [M, N], dtype: bf16, role: out}
scalars: {s: f32}
compute: Y = s * X * W
torch: {op: "my::scale", backward: scale_bwd}
"""
GRADIENT = """\
cutegen: 1
kernel: scale_bwd
op: elementwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  dX: {shape: [M, N], dtype: bf16, role: out}
scalars: {s: f32}
compute: dX = s * dY * W
torch: {op: "my::scale_bwd"}
"""


def test_what_a_gradient_is_called_with() -> None:
    of, by = read_specs(f"{SCALE}---\n{GRADIENT}")
    found, problems = gradient_of(of, [of, by])
    assert found is not None and problems == []
    assert [t.name for t in found.saved] == ["W"]
    assert {name: t.name for name, t in found.given.items()} == {"dY": "Y"}
    assert {name: t.name for name, t in found.made.items()} == {"dX": "X"}
    assert gradient_of(by, [of, by]) == (None, [])


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("kernel: scale_bwd", "kernel: scale_back", "CG140", "did you mean `scale_back`?"),
        ('torch: {op: "my::scale_bwd"}\n', "", "CG141", "it has no op"),
        (
            "dY",
            "G",
            "CG141",
            "`G`, which it reads, is not a tensor of `scale`, or the gradient",
        ),
        ("dX", "dQ", "CG141", "`dQ`, which it writes, is not the gradient of an input, such as `dX` or `dW`"),
        ("W: {shape: [N], dtype: f32}", "W: {shape: [N], dtype: bf16}", "CG141", "`W` is bf16, and `W` f32"),
        ("W: {shape: [N]", "W: {shape: [M]", "CG141", "`W` is [M], and `W` [N]"),
        ("scalars: {s: f32}", "scalars: {s: f64}", "CG141", "a scalar `s`, of f64"),
        (
            "role: out}\nscalars: {s: f32}\ncompute: dX =",
            "role: inout}\nscalars: {s: f32}\ncompute: dX = dX +",
            "CG141",
            "it does not make `dX` by itself",
        ),
    ],
)
def test_what_is_no_gradient(old: str, new: str, code: str, words: str) -> None:
    assert old in GRADIENT
    text = f"{SCALE}---\n{GRADIENT.replace(old, new)}"
    with pytest.raises(SpecError) as caught:
        generate(text, "x.yaml")
    found = caught.value.diagnostics
    assert {d.code for d in found} == {code} and any(words in f"{d.message} {d.help}" for d in found), found
    assert all(text.splitlines()[d.span.line - 1].startswith("torch: {op: ") and d.help for d in found)


def test_a_gradient_of_another_file_is_found_beside_it() -> None:
    with pytest.raises(SpecError):
        generate(SCALE, "x.yaml")
    (made,) = generate(SCALE, "x.yaml", beside=read_specs(GRADIENT)).modules
    assert "(dx,) = " not in made.text and "dx = torch.ops.my.scale_bwd(dy.contiguous(), w, ctx.s)" in made.text
    assert "return dx, None, None" in made.text


def test_a_matrix_gives_each_kernel_an_op_and_a_gradient_of_its_own() -> None:
    specs = [
        text.replace("scale_bwd}", '"scale_bwd"}').replace("scale", "scale_{t}").replace("bf16", '"{t}"')
        for text in (SCALE, GRADIENT)
    ]
    text = "---\n".join(f"matrix: {{t: [bf16, f16]}}\n{one}" for one in specs)
    forward = [module for module in generate(text, "x.yaml").modules if not module.name.endswith("_bwd.py")]
    assert [module.spec.torch.op for module in forward] == ["my::scale_bf16", "my::scale_f16"]
    for module, kind in zip(forward, ("bf16", "f16"), strict=True):
        assert f'OP = "my::scale_{kind}"' in module.text and f"torch.ops.my.scale_{kind}_bwd(" in module.text
