"""Formulas of specs are recognised regardless of names, and never mistaken for others."""

from __future__ import annotations

from pathlib import Path

import pytest
from choosing_kit import plan_of

from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.peers.formulas import FORMULAS, Recognised, recognise
from cutegen.planning import resolve
from cutegen.planning.report import Report

SPECS = Path(__file__).parents[2] / "specs"
OF_OURS = {  # specs of this repository, and what of them is a known formula
    **dict.fromkeys(("gemm_bf16_kkn", "gemm_bf16_odd", "gemm_bf16_pingpong", "gemm_f16_pingpong"), "matrix_product"),
    "gemm_bf16_blackwell": "matrix_product",
    "gemm_bf16_short_k": "matrix_product",
    **dict.fromkeys(("hgemm_bf16", "gemm_bf16_split_k", "gemm_bf16_cases", "gemm_bf16_few_rows"), "matrix_product"),
    "softmax": "softmax",
    "softmax_cluster": "softmax",
    "softmax_bwd": "softmax_bwd",
    "rms_norm": "rms_norm",
    "rms_norm_bwd": "rms_norm_bwd",
    "add_rms_norm": "add_rms_norm",
    "add_rms_norm_bwd": "add_rms_norm_bwd",
    "layer_norm": "layer_norm",
    "layer_norm_bwd": "layer_norm_bwd",
    "cross_entropy": "smoothed_cross_entropy",
    "cross_entropy_vocabulary": "cross_entropy",
    "kl_div": "kl_div",
    "jsd": "jsd",
    "swiglu": "swiglu",
    "swiglu_bwd": "swiglu_bwd",
    "geglu": "geglu",
    "geglu_bwd": "geglu_bwd",
    "rope": "rope",
    "rope_bwd": "rope",
}


def spec(op: str, tensors: str, statements: str, scalars: str = "", static: str = "") -> KernelSpec:
    """A spec of statements that are separated by `;`.

    `tensors` are names with the modes of rows (`AB`), columns (`B`) or rows alone (`A`): `x:IJ y:IJ>` where `>` is an
    output, `<>` is read and written, and `#` has whole numbers.
    """
    lines = ""
    for entry in tensors.split():
        name, _, modes = entry.partition(":")
        role = {">": "out", "<>": "inout"}.get(modes.lstrip("IJK"), "in")
        kept = modes.rstrip("<>#")
        dtype = "i64" if "#" in modes else "bf16" if len(kept) > 1 else "f32"
        lines += f"  {name}: {{shape: [{', '.join(kept)}], dtype: {dtype}, role: {role}}}\n"
    compute = "".join(f"  - {statement.strip()}\n" for statement in statements.split(";"))
    head = f"cutegen: 1\nkernel: mine\nop: {op}\ntensors:\n{lines}"
    tail = f"scalars: {scalars}\n" if scalars else ""
    tail += f"static: {static}\n" if static else ""
    return plan_of(f"{head}{tail}compute:\n{compute}targets: [sm_90a]\n").spec


ROWS = "rowwise"
EACH = "elementwise"
EPS = "{tiny: f32}"
LOSSES = "x:IJ y:I# l:I> d:IJ>"
SCALARS = "{off: i64, f: f32}"
SMOOTH = "{off: i64, a: f32, f: f32}"
SOFTMAX = "z = x - max(x, J); e = exp(z); s = sum(e, J); h = coord(J) == y"
SMOOTHED = f"{SOFTMAX}; o = log(s) - sum(where(h, z, 0), J); r = where(a > 0, a * (log(s) - mean(z, J)), 0)"
RENAMED = {  # other names, other orders, other ways to write the same
    "matrix_product": ("gemm", "v:JK o:IJ> u:IK", "o = u @ v.T"),
    "softmax": (ROWS, "p:IJ> q:IJ", "t = q - max(q, J); p = exp(t) / sum(exp(t), J)"),
    "softmax_bwd": (ROWS, "out:IJ g:IJ dq:IJ>", "d = sum(g * out, J); dq = g * out - d * out"),
    "rms_norm": (ROWS, "w:J x:IJ o:IJ>", "o = w * (x / sqrt(tiny + mean(x ** 2, J)))", EPS),
    "rms_norm with a number": (ROWS, "x:IJ w:J o:IJ> r:I>", "r = 1 / sqrt(mean(x * x, J) + 1e-6); o = w * r * x"),
    "rms_norm of a sum over as many as there are": (
        ROWS,
        "x:IJ w:J o:IJ>",
        "o = x * w * rsqrt(sum(square(x), J) / 1024 + 1e-6)",
        "",
        "{J: 1024}",
    ),
    "rms_norm_bwd": (
        ROWS,
        "w:J r:I x:IJ g:IJ dw:J> dx:IJ>",
        "n = r * x; dw = sum(n * g, I); dx = r * (w * g) - r * n * mean(n * w * g, J)",
    ),
    "add_rms_norm": (
        ROWS,
        "a:IJ b:IJ w:J h:IJ> o:IJ>",
        "h = a + b; o = h * w * rsqrt(mean(h * h, J) + tiny)",
        EPS,
    ),
    "add_rms_norm_bwd": (
        ROWS,
        "w:J r:I h:IJ dh:IJ g:IJ dw:J> dx:IJ>",
        "n = r * h; dx = (w * g - n * mean(w * g * n, J)) * r + dh; dw = sum(n * g, I)",
    ),
    "layer_norm": (
        ROWS,
        "x:IJ shift:J scale:J o:IJ>",
        "c = x - mean(x, J); o = shift + scale * c / sqrt(mean(c * c, J) + tiny)",
        EPS,
    ),
    "layer_norm by the mean of squares": (
        ROWS,
        "x:IJ b:J w:J o:IJ>",
        "m = mean(x, J); o = b + w * (x - m) * rsqrt(mean(x * x, J) - m * m + tiny)",
        EPS,
    ),
    "layer_norm_bwd": (
        ROWS,
        "r:I m:I w:J x:IJ g:IJ dw:J> db:J> dx:IJ>",
        "n = r * (x - m); h = w * g; dx = r * (h - n * mean(h * n, J) - mean(h, J));dw = sum(n * g, I); db = sum(g, I)",
    ),
    "cross_entropy": (
        ROWS,
        LOSSES,
        f"{SOFTMAX}; l = where(y == off, 0, log(s) - sum(where(h, z, 0), J));"
        "d = where(off == y, 0, f * (e / s - where(h, 1, 0)))",
        SCALARS,
    ),
    "cross_entropy with the factor first": (
        ROWS,
        LOSSES,
        f"{SOFTMAX}; c = where(y == off, 0, f); o = log(s) - sum(where(h, z, 0), J); l = where(y == off, 0, o);"
        "d = e * (c / s) - where(h, c, 0)",
        SCALARS,
    ),
    "cross_entropy of targets that are not ignored": (
        ROWS,
        LOSSES,
        f"{SOFTMAX}; l = where(y != -100, log(s) - sum(where(not h, 0, z), J), 0);"
        "d = where(y == -100, 0, where(h, e / s - 1, e / s))",
    ),
    "smoothed_cross_entropy": (
        ROWS,
        LOSSES,
        f"{SMOOTHED}; l = where(y == off, 0, o - a * o + r);"
        "d = where(y == off, 0, f) * (e / s - a / 1024 - where(h, 1 - a, 0))",
        SMOOTH,
        "{J: 1024}",
    ),
    "smoothed_cross_entropy by an eighth": (
        ROWS,
        LOSSES,
        f"{SOFTMAX}; o = log(s) - sum(where(h, z, 0), J); q = where(y == off, 0, 1);"
        "l = q * (0.875 * o + 0.125 * log(s) - 0.125 * mean(z, J));"
        "d = f * q * (e / s - 0.125 / 1024 - where(h, 0.875, 0))",
        SCALARS,
        "{J: 1024}",
    ),
    "kl_div": (ROWS, "q:IJ p:IJ l:I> d:IJ>", "l = sum(where(p > 0, p * log(p) - p * q, 0), J); d = -f * p", "{f: f32}"),
    "jsd": (
        ROWS,
        "y:IJ x:IJ l:I> d:IJ>",
        "p = b * exp(y); q = exp(x) - b * exp(x); m = log(maximum(q + p, 1e-37));"
        "l = sum(p * y + q * x - (p + q) * m, J); d = f * (x * q - m * q)",
        "{f: f32, b: f32}",
    ),
    "swiglu": (EACH, "u:IJ g:IJ o:IJ>", "o = u * g * sigmoid(g)"),
    "swiglu_bwd": (
        EACH,
        "u:IJ g:IJ o:IJ a:IJ> b:IJ>",
        "s = sigmoid(g); b = o * silu(g); a = o * u * (s + g * s - g * s * s)",
    ),
    "geglu_bwd": (
        EACH,
        "u:IJ g:IJ o:IJ a:IJ> b:IJ>",
        "s = sigmoid(1.5957691216057308 * g + 0.07135481627260025 * g ** 3); b = g * o * s;"
        "a = u * o * s * (1 + (1 - s) * (1.5957691216057308 * g + 0.21406444881780076 * g ** 3))",
    ),
    "geglu": (EACH, "u:IJ g:IJ o:IJ>", "o = u * gelu_tanh(g)"),
    "rope": (
        EACH,
        "s:IK c:IK a:IJK b:IJK p:IJK> q:IJK>",
        "q = s * a + c * b; p = c * a - s * b",
    ),
}
OTHERS = {
    "matrix_product scaled": ("gemm", "v:JK o:IJ> u:IK", "o = 2 * (u @ v.T)"),  # near to a formula, and none
    "softmax with a temperature": (ROWS, "x:IJ o:IJ>", "e = exp((x - max(x, J)) * t); o = e / sum(e, J)", "{t: f32}"),
    "softmax at half of the temperature": (ROWS, "x:IJ o:IJ>", "e = exp(2 * (x - max(x, J))); o = e / sum(e, J)"),
    "softmax that may overflow": (ROWS, "x:IJ o:IJ>", "e = exp(x); o = e / sum(e, J)"),
    "softmax of a mean": (ROWS, "x:IJ o:IJ>", "e = exp(x - max(x, J)); o = e / mean(e, J)"),
    "softmax of what is clipped": (ROWS, "x:IJ o:IJ>", "y = minimum(x, 50); e = exp(y - max(y, J)); o = e / sum(e, J)"),
    "softmax that is rounded": (
        ROWS,
        "x:IJ o:IJ>",
        "e = cast(exp(x - max(x, J)), bf16); o = e / sum(e, J)",
    ),
    "softmax and its sums": (ROWS, "x:IJ o:IJ> l:I>", "e = exp(x - max(x, J)); l = sum(e, J); o = e / l"),
    "softmax along columns": (ROWS, "x:JI o:JI>", "e = exp(x - max(x, J)); o = e / sum(e, J)"),
    "log_softmax": (ROWS, "x:IJ o:IJ>", "y = x - max(x, J); o = y - log(sum(exp(y), J))"),
    "softmax times a tensor without modes": (
        ROWS,
        "x:IJ t: o:IJ>",
        "e = exp(x - max(x, J)); o = t * e / sum(e, J)",
    ),
    "softmax_bwd with a mean": (ROWS, "y:IJ g:IJ d:IJ>", "d = y * (g - mean(g * y, J))"),
    "softmax_bwd of other factors": (ROWS, "y:IJ g:IJ d:IJ>", "d = y * (g - sum(g * g, J))"),
    "rms_norm of a sum": (ROWS, "x:IJ w:J o:IJ>", "o = x * w * rsqrt(sum(x * x, J) + tiny)", EPS),
    "rms_norm without eps": (ROWS, "x:IJ w:J o:IJ>", "o = x * w * rsqrt(mean(x * x, J))"),
    "rms_norm with an offset": (ROWS, "x:IJ w:J o:IJ>", "o = x * (1 + w) * rsqrt(mean(x * x, J) + tiny)", EPS),
    "rms_norm that divides": (ROWS, "x:IJ w:J o:IJ>", "o = x / w * rsqrt(mean(x * x, J) + tiny)", EPS),
    "rms_norm_bwd of x alone": (
        ROWS,
        "g:IJ x:IJ w:J r:I d:IJ>",
        "n = x * r; h = g * w; d = (h - n * mean(h * n, J)) * r",
    ),
    "add_rms_norm that keeps no sum": (
        ROWS,
        "a:IJ b:IJ w:J o:IJ>",
        "h = a + b; o = h * w * rsqrt(mean(h * h, J) + tiny)",
        EPS,
    ),
    "add_rms_norm of a difference": (
        ROWS,
        "a:IJ b:IJ w:J h:IJ> o:IJ>",
        "h = a - b; o = h * w * rsqrt(mean(h * h, J) + tiny)",
        EPS,
    ),
    "add_rms_norm_bwd that subtracts": (
        ROWS,
        "w:J r:I h:IJ dh:IJ g:IJ dw:J> dx:IJ>",
        "n = r * h; dx = (w * g - n * mean(w * g * n, J)) * r - dh; dw = sum(n * g, I)",
    ),
    "layer_norm of the root mean square": (
        ROWS,
        "x:IJ s:J w:J o:IJ>",
        "c = x - mean(x, J); o = s + w * c / sqrt(mean(x * x, J) + tiny)",
        EPS,
    ),
    "layer_norm_bwd that forgets the mean": (
        ROWS,
        "r:I m:I w:J x:IJ g:IJ dw:J> db:J> dx:IJ>",
        "n = r * (x - m); h = w * g; dx = r * (h - n * mean(h * n, J)); dw = sum(n * g, I); db = sum(g, I)",
    ),
    "cross_entropy of an ignored row that has a gradient": (
        ROWS,
        LOSSES,
        f"{SOFTMAX}; l = where(y == off, 0, log(s) - sum(where(h, z, 0), J)); d = f * (e / s - where(h, 1, 0))",
        SCALARS,
    ),
    "cross_entropy that ignores another row in its gradient": (
        ROWS,
        LOSSES,
        f"{SOFTMAX}; l = where(y == off, 0, log(s) - sum(where(h, z, 0), J));"
        "d = where(y > off, 0, f * (e / s - where(h, 1, 0)))",
        SCALARS,
    ),
    "cross_entropy of coordinates in floats": (
        ROWS,
        "x:IJ y:I l:I> d:IJ>",
        f"{SOFTMAX}; l = where(y == 2, 0, log(s) - sum(where(h, z, 0), J));"
        "d = where(y == 2, 0, e / s - where(h, 1, 0))",
    ),
    "smoothed_cross_entropy over another number of columns": (
        ROWS,
        LOSSES,
        f"{SMOOTHED}; l = where(y == off, 0, o - a * o + r);"
        "d = where(y == off, 0, f) * (e / s - a / 1000 - where(h, 1 - a, 0))",
        SMOOTH,
        "{J: 1024}",
    ),
    "kl_div of everything": (ROWS, "q:IJ p:IJ l:I> d:IJ>", "l = sum(p * (log(p) - q), J); d = -f * p", "{f: f32}"),
    "kl_div that averages": (ROWS, "q:IJ p:IJ l:I> d:IJ>", "l = mean(where(p > 0, p * log(p) - p * q, 0), J); d = -p"),
    "jsd of two factors": (
        ROWS,
        "y:IJ x:IJ l:I> d:IJ>",
        "p = b * exp(y); q = c * exp(x); m = log(maximum(q + p, 1e-37));"
        "l = sum(p * y + q * x - (p + q) * m, J); d = f * (x * q - m * q)",
        "{f: f32, b: f32, c: f32}",
    ),
    "swiglu_bwd of the sigmoid alone": (
        EACH,
        "u:IJ g:IJ o:IJ a:IJ> b:IJ>",
        "s = sigmoid(g); b = o * silu(g); a = o * u * (s + s * g)",
    ),
    "geglu_bwd with another number": (
        EACH,
        "u:IJ g:IJ o:IJ a:IJ> b:IJ>",
        "s = sigmoid(1.702 * g); b = g * o * s; a = u * o * s * (1 + (1 - s) * 1.702 * g)",
    ),
    "swiglu of its own gate": (EACH, "u:IJ g:IJ o:IJ>", "o = u * u * sigmoid(g)"),
    "swiglu with a bias": (EACH, "u:IJ g:IJ b:J o:IJ>", "o = silu(g + b) * u"),
    "geglu of the exact gelu": (EACH, "u:IJ g:IJ o:IJ>", "o = u * gelu(g)"),
    "rope that mirrors": (EACH, "a:IJK b:IJK c:IK s:IK p:IJK> q:IJK>", "p = a * c + b * s; q = b * c + a * s"),
    "addition": (EACH, "a:IJ b:IJ o:IJ>", "o = a + b"),
    "an infinity": (ROWS, "x:IJ o:IJ>", "e = where(x > 0, exp(x - max(x, J)), -inf); o = e / sum(e, J)"),
}


@pytest.mark.parametrize("name", RENAMED)
def test_a_formula_is_known_under_other_names(name: str) -> None:
    found = recognise(spec(*RENAMED[name]))
    assert found is not None and found.formula == name.partition(" ")[0]


def test_every_formula_has_a_renamed_one_and_a_near_one() -> None:
    names = {formula.name for formula in FORMULAS}
    assert {name.partition(" ")[0] for name in RENAMED} == names
    assert names <= {name.partition(" ")[0] for name in OTHERS}


@pytest.mark.parametrize("name", OTHERS)
def test_what_computes_something_else_is_not_known(name: str) -> None:
    assert recognise(spec(*OTHERS[name])) is None


def test_names_are_those_that_play_the_same_part() -> None:
    found = recognise(spec(*RENAMED["rope"]))
    assert found == Recognised("rope", {"X1": "a", "X2": "b", "COS": "c", "SIN": "s"}, {"Y2": "q", "Y1": "p"}, {})
    found = recognise(spec(*RENAMED["layer_norm"]))
    assert found == Recognised("layer_norm", {"X": "x", "W": "scale", "B": "shift"}, {"Y": "o"}, {"eps": "tiny"})
    found = recognise(spec(*RENAMED["rms_norm with a number"]))
    assert found is not None and found.scalars == {"eps": 1e-6} and found.outputs == {"rstd": "r", "Y": "o"}
    found = recognise(spec(*RENAMED["smoothed_cross_entropy"]))
    assert found is not None and found.scalars == {"scale": "f", "smoothing": "a", "ignored": "off"}
    assert found.meanings == {"y": "coordinates"} and found.at == {"f": 1}
    found = recognise(spec(*RENAMED["cross_entropy of targets that are not ignored"]))
    assert found is not None and found.scalars == {"scale": 1, "ignored": -100} and found.at == {}


def test_whole_numbers_are_no_reals() -> None:
    text = "cutegen: 1\nkernel: k\nop: rowwise\ntensors:\n  X: {shape: [M, N], dtype: i32}\n"
    text += "  Y: {shape: [M, N], dtype: f32, role: out}\ncompute:\n  - e = exp(X - max(X, N))\n  - Y = e / sum(e, N)\n"
    assert recognise(plan_of(f"{text}targets: [sm_90a]\n").spec) is None


@pytest.mark.parametrize("file", sorted(SPECS.glob("*.yaml")), ids=lambda file: file.stem)
def test_specs_of_ours(file: Path) -> None:
    for spec in read_specs(file.read_text(), str(file)):
        found = recognise(resolve(spec, Report(spec.source)))
        assert (found.formula if found else None) == OF_OURS.get(spec.kernel)
