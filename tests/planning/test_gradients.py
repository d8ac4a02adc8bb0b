"""Ops that torch knows kernels by: which kernel is the gradient of which, and what is said where one is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen.autograd import gradients_of
from cutegen.codegen import generate
from cutegen.differentiation import backward
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs

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
    (found,), problems = gradients_of(of, [of, by])
    assert problems == []
    assert [t.name for t in found.saved] == ["W"]
    assert {name: t.name for name, t in found.given.items()} == {"dY": "Y"}
    assert {name: t.name for name, t in found.made.items()} == {"dX": "X"}
    assert gradients_of(by, [of, by]) == ([], [])


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("kernel: scale_bwd", "kernel: scale_back", "CG140", "did you mean `scale_back`?"),
        ("kernel: scale_bwd", "kernel: other", "CG140", "`cutegen grad SPEC -o FILE` writes the spec of a gradient"),
        ('torch: {op: "my::scale_bwd"}\n', "", "CG141", "it has no op"),
        (
            "dY",
            "G",
            "CG141",
            "`G`, which it reads, is not a tensor of `scale`, or the gradient",
        ),
        ("dX", "dQ", "CG141", "`dQ`, which it writes, is not the gradient of an input, such as `dX` or `dW`"),
        (
            "W: {shape: [N], dtype: f32}",
            "W: {shape: [N], dtype: bf16}",
            "CG141",
            "`W` is bf16 there, and `W` f32 in `scale`",
        ),
        ("W: {shape: [N]", "W: {shape: [M]", "CG141", "`W` is [M] there, and `W` [N] in `scale`"),
        ("scalars: {s: f32}", "scalars: {s: f64}", "CG141", "the scalar `s` is f64 there, and f32 in `scale`"),
        ("scalars: {s: f32}", "scalars: {s: f32}\nstatic: {N: 64}", "CG141", "it takes N = 64 only, and `scale` any N"),
        ("scalars: {s: f32}", "scalars: {s: f32}\ndivisible: {M: 4}", "CG141", "multiples of 4 of M only"),
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


def test_a_name_that_may_be_of_a_tensor_or_of_a_gradient_is_refused() -> None:
    of = SCALE.replace("  W: {", "  dY: {shape: [M, N], dtype: bf16}\n  W: {").replace("X * W", "X * W + dY")
    with pytest.raises(SpecError, match="`dY` may be that of `scale`, or the gradient of `Y`"):
        generate(f"{of}---\n{GRADIENT}", "x.yaml")


def test_sizes_that_the_op_has_too_fit() -> None:
    fixed, eights, sixteens = "static: {N: 64}", "divisible: {N: 8}", "divisible: {N: 16}"
    for of, by in ((fixed, fixed), (fixed, ""), (fixed, eights), (sixteens, eights)):
        ones = [SCALE.replace("compute:", f"{of}\ncompute:"), GRADIENT.replace("compute:", f"{by}\ncompute:")]
        assert len(generate("---\n".join(ones), "x.yaml").modules) == 2
    ones = [one.replace("compute:", f"static: {{N: {n}}}\ncompute:") for one, n in ((SCALE, 64), (GRADIENT, 128))]
    with pytest.raises(SpecError, match="it takes N = 128 only, and `scale` N = 64 only"):
        generate("---\n".join(ones), "x.yaml")


def test_a_gradient_has_another_name_where_a_tensor_has_its_own() -> None:
    """As in the gradient of a gradient, which reads both `dY` and what arrives for it."""
    of = SCALE.replace("  W: {", "  dY: {shape: [M, N], dtype: bf16}\n  W: {").replace("X * W", "X * W * dY")
    by = GRADIENT.replace("dY", "grad_Y").replace("  W: {", "  dY: {shape: [M, N], dtype: bf16}\n  W: {")
    by = by.replace("grad_Y * W", "grad_Y * W * dY").replace("dX", "grad_X")
    one, other = read_specs(f"{of}---\n{by}")
    (found,), problems = gradients_of(one, [one, other])
    assert problems == [] and [t.name for t in found.saved] == ["dY", "W"]
    assert {name: t.name for name, t in found.given.items()} == {"grad_Y": "Y"}
    assert {name: t.name for name, t in found.made.items()} == {"grad_X": "X"}
    text = generate(f"{of}---\n{by}", "x.yaml").modules[0].text
    assert "def _gradient(ctx, dy_)" in text and "grad_x = torch.ops.my.scale_bwd(dy_.contiguous(), dy, w, s)" in text


def test_what_grad_writes_of_what_it_wrote_is_the_gradient_of_that() -> None:
    (gated,) = read_specs(
        """cutegen: 1
kernel: gated
op: elementwise
tensors:
  G: {shape: [M, N], dtype: f32}
  U: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = silu(G) * U
torch: {op: "my::gated"}
"""
    )
    once = backward(gated).spec
    twice = backward(once).spec
    (found,), problems = gradients_of(replace(once, torch=replace(once.torch, backward=(twice.kernel,))), [twice])
    assert problems == []
    assert {name: t.name for name, t in found.given.items()} == {"ddG": "dG", "ddU": "dU"}
    assert {name: t.name for name, t in found.made.items()} == {"ddY": "dY", "grad_G": "G", "grad_U": "U"}


def test_gradients_whose_rows_a_kernel_wants_aligned_are_copied_to_such() -> None:
    """Also a tensor that was saved, where the kernel of the gradient promises more of it than that of the op."""
    by = GRADIENT.replace("dY: {shape: [M, N], dtype: bf16", "dY: {shape: [M, N], dtype: bf16, align: 16")
    by = by.replace("W: {shape: [N], dtype: f32", "W: {shape: [N], dtype: f32, align: 8")
    text = generate(f"{SCALE}---\n{by}", "x.yaml").modules[0].text
    assert "my.scale_bwd(_aligned_rows(dy, 8), _aligned_rows(w, 2), s)" in text
    assert "_aligned_rows" not in generate(f"{SCALE}---\n{GRADIENT}", "x.yaml").modules[0].text


def test_a_gradient_of_another_file_is_found_beside_it() -> None:
    with pytest.raises(SpecError):
        generate(SCALE, "x.yaml")
    (made,) = generate(SCALE, "x.yaml", beside=read_specs(GRADIENT)).modules
    assert "(dx,) = " not in made.text and "dx = torch.ops.my.scale_bwd(dy.contiguous(), w, s)" in made.text
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


LINEAR = """\
cutegen: 1
kernel: linear
op: gemm
tensors:
  X: {shape: [M, K], dtype: bf16}
  W: {shape: [N, K], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = X @ W.T
schedule: {mma: {atom: mma_sync}}
torch: {op: "my::linear", backward: [linear_dx, linear_dw]}
---
cutegen: 1
kernel: linear_dx
op: gemm
tensors:
  dY: {shape: [M, N], dtype: bf16}
  W: {shape: [K, N], dtype: bf16, major: K}
  dX: {shape: [M, K], dtype: bf16, role: out}
compute: dX = dY @ W.T
schedule: {mma: {atom: mma_sync}}
torch: {op: "my::linear_dx"}
---
cutegen: 1
kernel: linear_dw
op: gemm
tensors:
  dY: {shape: [N, M], dtype: bf16, major: N}
  X: {shape: [K, M], dtype: bf16, major: K}
  dW: {shape: [N, K], dtype: f32, role: out}
compute: dW = dY @ X.T
schedule: {mma: {atom: mma_sync}}
torch: {op: "my::linear_dw"}
"""


def test_several_kernels_make_a_gradient_and_see_matrices_transposed() -> None:
    text = generate(LINEAR, "x.yaml").modules[0].text
    assert "dx = torch.ops.my.linear_dx(_aligned_rows(dy, 8), w.mT)" in text
    assert "dw = torch.ops.my.linear_dw(_aligned_rows(dy, 8).mT, x.mT)" in text
    assert "x, w = ctx.saved_tensors" in text.replace("w, x =", "x, w =") and "return dx, dw" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "W: {shape: [K, N], dtype: bf16, major: K}",
            "W: {shape: [K, N], dtype: bf16}",
            "contiguous along N, and along K",
        ),
        ("dW", "dX", "`dX` is made by `linear_dx` already"),
        ("[linear_dx, linear_dw]", "[linear_dx, linear_dv]", "no kernel `linear_dv`"),
    ],
)
def test_what_is_wrong_with_one_of_several_is_said_of_it(old: str, new: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        generate(LINEAR.replace(old, new), "x.yaml")
    found = caught.value.diagnostics
    found = tuple(d for d in found if d.severity == "error")
    assert any(words in d.message for d in found), found
    assert all(d.span.line == 10 and d.span.column >= 38 for d in found)


def test_what_grad_writes_is_the_gradient_of_what_names_it() -> None:
    """The spec of a backward has an op of its own, and fits the op that it is derived from."""
    from cutegen.differentiation.backward import backward

    (of,) = read_specs(SCALE)
    by = backward(of).spec
    assert (by.kernel, by.torch.op, by.torch.backward) == ("scale_bwd", "my::scale_bwd", ())
    found, problems = gradients_of(of, [by])
    assert len(found) == 1 and problems == [], problems


def test_what_arrives_is_copied_to_what_was_inferred_of_it() -> None:
    """A sum over the rows with a factor before it is taken along these: its tensors are contiguous along M."""
    of = SCALE.replace("scalars: {s: f32}\n", "").replace("s * X", "2 * X")
    by = GRADIENT.replace("scalars: {s: f32}\n", "").replace("op: elementwise", "op: rowwise")
    by = by.replace("  W: {shape: [N], dtype: f32}\n  dX: {shape: [M, N]", "  dW: {shape: [N]")
    by = by.replace("dX = s * dY * W", "dW = 2 * sum(dY, M)").replace("bf16, role", "f32, role")
    text = generate(f"{of}---\n{by}", "x.yaml").modules[0].text
    assert "dw = torch.ops.my.scale_bwd(dy.movedim(0, -1).contiguous().movedim(-1, 0))" in text
    by = by.replace("sum(dY, M)", "sum(dY * X, M)")
    by = by.replace("tensors:\n", "tensors:\n  X: {shape: [M, N], dtype: bf16}\n")
    text = generate(f"{of}---\n{by}", "x.yaml").modules[0].text
    assert "x.movedim(0, -1).contiguous().movedim(-1, 0)" in text  # what was saved, too


CHAIN = """\
cutegen: 1
kernel: rows
op: rowwise
tensors:
  X: {shape: [B, M, N], dtype: f32}
  Y: {shape: [B, M, N], dtype: bf16, role: out}
compute: ["e = exp(X - max(X, N))", "Y = e / sum(e, N)"]
torch: {op: "my::rows", backward: [rows_delta, rows_x]}
---
cutegen: 1
kernel: rows_delta
op: rowwise
tensors:
  dY: {shape: [B, M, N], dtype: bf16}
  Y: {shape: [B, M, N], dtype: bf16}
  delta: {shape: [B, M], dtype: f32, role: out}
compute: delta = sum(dY * Y, N)
torch: {op: "my::rows_delta"}
---
cutegen: 1
kernel: rows_x
op: elementwise
tensors:
  dY: {shape: [B, M, N], dtype: bf16}
  Y: {shape: [B, M, N], dtype: bf16}
  delta: {shape: [B, M], dtype: f32}
  dX: {shape: [B, M, N], dtype: f32, role: out}
compute: dX = Y * (dY - delta)
torch: {op: "my::rows_x"}
"""


def test_a_kernel_passes_values_on_to_those_after_it() -> None:
    of, *kernels = read_specs(CHAIN)
    (rows, elements), problems = gradients_of(of, kernels)
    assert problems == [] and (not rows.made, [*elements.made]) == (True, ["dX"])
    assert ([*rows.passed], [*rows.taken], [*elements.passed], [*elements.taken]) == (["delta"], [], [], ["delta"])
    text = generate(CHAIN, "x.yaml").modules[0].text
    assert "delta = torch.ops.my.rows_delta(dy.contiguous(), y)" in text
    assert "dx = torch.ops.my.rows_x(dy.contiguous(), y, delta)" in text and "return dx" in text


@pytest.mark.parametrize(
    ("old", "new", "words", "help"),
    [
        ("[rows_delta, rows_x]", "[rows_x, rows_delta]", "`delta`, which it reads, is not", "name `rows_delta`, which"),
        ("  delta: {shape: [B, M], dtype: f32}", "  delta: {shape: [B, M], dtype: bf16}", "in `rows_delta`", "f32"),
        ("  delta: {shape: [B, M], dtype: f32}", "  delta: {shape: [M], dtype: f32}", "is [M] there", "write `[B, M]`"),
        (
            "delta: {shape: [B, M], dtype: f32, role",
            "eta: {shape: [B, M], dtype: f32, role",
            "`eta`, which it",
            "rename",
        ),
        (
            "[rows_delta, rows_x]",
            "rows_delta",
            "`delta`, which it writes, is not the gradient of an input",
            "rename it",
        ),
    ],
)
def test_what_is_passed_on_must_fit(old: str, new: str, words: str, help: str) -> None:
    assert old in CHAIN
    text = CHAIN.replace(old, new)
    with pytest.raises(SpecError) as caught:
        generate(text.replace("compute: delta =", "compute: eta =") if new.startswith("eta") else text, "x.yaml")
    found = [d for d in caught.value.diagnostics if d.code == "CG141"]
    assert any(words in d.message and help in str(d.help) for d in found), found


def test_the_kernels_that_grad_writes_for_attention_are_the_gradient_of_its_op() -> None:
    from cutegen.differentiation import buildable

    text = (Path(__file__).parents[2] / "specs/attention_causal.yaml").read_text(encoding="utf-8")
    names = ["attention_causal_bwd_delta", "attention_causal_bwd_q", "attention_causal_bwd_kv"]
    text += f'torch: {{op: "my::attention", backward: [{", ".join(names)}]}}\n'
    (of,) = read_specs(text)
    for of_outputs in (["O"], []):
        kernels = buildable(of, of_outputs=of_outputs).made.specs
        assert [one.kernel for one in kernels] == names
        found, problems = gradients_of(of, kernels)
        assert problems == [] and [[*one.made] for one in found] == [[], ["dQ"], ["dK", "dV"]]
    module = generate(text, "specs/x.yaml", beside=kernels).modules[0].text  # where lse has a gradient as well
    assert "do.contiguous(), dlse.contiguous().permute(0, 3, 1, 2), o, lse.permute(0, 3, 1, 2)\n" in module
    assert max(map(len, module.splitlines())) <= 120
    assert "dq = torch.ops.my.attention_bwd_q(_aligned_rows(do, 8), q, k, v, lse, delta, scale)" in module
