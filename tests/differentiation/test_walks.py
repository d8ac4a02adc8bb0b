"""Gradients of contractions, such as attention: the kernels that are derived, held to torch's autograd in float64."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from differentiation_kit import SIZES, check, inputs, lines, run, spec_text
from sweep_kit import sampled

from cutegen.differentiation import DifferentiationError, buildable
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec

SPECS = Path(__file__).parents[2] / "specs"
CAUSAL = "coord(N) - len(N) <= coord(M) - len(M)"
SOFTMAX = ["m = max(s, N)", "p = exp(s - m)", "l = sum(p, N)", "O = sum(cast(p, bf16) * V, N) / l", "lse = m + log(l)"]
GROUPED = {
    "Q": "B,M,G,R,D bf16", "K": "B,N,G,D bf16", "V": "B,N,G,E bf16", "O": "B,M,G,R,E bf16 out",
    "lse": "B,G,R,M f32 out",
}  # fmt: skip
HEADS = {"Q": "B,H,M,D bf16", "K": "B,H,N,D bf16", "V": "B,H,N,E bf16", "O": "B,H,M,E bf16 out"}
LSE = {**HEADS, "lse": "B,H,M f32 out"}
ENDINGS = ["_bwd_delta", "_bwd_q", "_bwd_kv"]
FIXED = "static: {D: 32, E: 32}\n"


def contract(
    tensors: dict[str, str], compute: list[str], scalars: str = "{scale: f32}", more: str = FIXED
) -> KernelSpec:
    text = spec_text("contract", tensors, compute, scalars, more).replace("kernel: k\n", "kernel: attend\n")
    return read_specs(text)[0]


def attention(
    score: list[str], more: dict[str, str], scalars: str = "{scale: f32}", rest: list[str] = SOFTMAX
) -> KernelSpec:
    return contract({**LSE, **more}, [*score, *rest], scalars)


# name -> spec, the tensors whose gradients no kernel computes
KINDS: dict[str, tuple[KernelSpec, set[str]]] = {
    "causal, grouped heads": (
        contract(GROUPED, [f"s = where({CAUSAL}, sum(Q * K, D) * scale, -inf)", *SOFTMAX]),
        set(),
    ),
    "full": (attention(["s = sum(Q * K, D) * scale"], {}), set()),
    "names of their own": (attention(["x = sum(Q * K, D)", "s = x * scale"], {}), set()),
    "f16": (
        contract({name: text.replace("bf16", "f16") for name, text in LSE.items()},
            ["s = sum(Q * K, D) * scale", *(line.replace("bf16", "f16") for line in SOFTMAX)],
        ),
        set(),
    ),
    "softcap, ALiBi and a window of documents": (
        attention(
            [
                "d = coord(M) - coord(N)", "seen = d >= 0 and d <= left and mine == other",
                "s = where(seen, cap * tanh(sum(Q * K, D) * scale / cap) - slope * d, -inf)",
            ],
            {"mine": "B,M i32", "other": "B,N i32", "slope": "H f32"}, "{scale: f32, cap: f32, left: i32}",
        ),
        {"slope"},
    ),
    "a bias of scores": (attention(["s = sum(Q * K, D) * scale + bias"], {"bias": "H,M,N bf16"}), {"bias"}),
    "biases of keys and queries": (
        attention(["s = sum(Q * K, D) * scale + of_key * of_query"], {"of_key": "B,H,N f32", "of_query": "B,H,M f32"}),
        set(),
    ),
    "a temperature of heads": (attention(["s = sum(Q * K, D) * heat"], {"heat": "H f32"}, ""), {"heat"}),
    "a temperature of queries": (attention(["s = sum(Q * K, D) * heat"], {"heat": "B,H,M f32"}, ""), set()),
    "a sink": (
        attention(
            ["s = sum(Q * K, D) * scale"], {"sink": "H f32"},
            rest=[*SOFTMAX[:2], "l = sum(p, N) + exp(sink - m)", *SOFTMAX[3:]],
        ),
        {"sink"},
    ),
    "a sink of queries": (
        attention(
            ["s = sum(Q * K, D) * scale"], {"sink": "B,H,M f32"},
            rest=[*SOFTMAX[:2], "l = sum(p, N) + exp(sink - m)", *SOFTMAX[3:]],
        ),
        set(),
    ),
    "masked weights": (
        attention(
            ["s = sum(Q * K, D) * scale"], {"keep": "B,H,M,N f32"},
            rest=[*SOFTMAX[:3], "O = sum(cast(p * keep, bf16) * V, N) / l", SOFTMAX[4]],
        ),
        {"keep"},
    ),
    "two scores of one": (
        contract({**LSE, "Q2": "B,H,M,T bf16", "K2": "B,H,N,T bf16"},
            ["s = (sum(Q * K, D) + sum(Q2 * K2, T)) * scale", *SOFTMAX], "{scale: f32}",
            "static: {D: 32, E: 32, T: 32}\n",
        ),
        set(),
    ),
    "two values": (
        attention(
            ["s = sum(Q * K, D) * scale"], {"V2": "B,H,N,E bf16", "O2": "B,H,M,E bf16 out"},
            rest=[*SOFTMAX, "O2 = sum(cast(p, bf16) * V2, N) / l"],
        ),
        set(),
    ),
    "a gate": (
        attention(
            ["s = sum(Q * K, D) * scale"], {"gate": "B,H,M,E bf16"},
            rest=[*SOFTMAX[:3], "O = sum(cast(p, bf16) * V, N) / l * sigmoid(gate)", SOFTMAX[4]],
        ),
        set(),
    ),
    "rows without a key": (
        attention(
            [f"s = where({CAUSAL}, sum(Q * K, D) * scale, -inf)"], {},
            rest=[*SOFTMAX[:3], SOFTMAX[4], "O = where(lse > -inf, sum(cast(p, bf16) * V, N) / l, 0)"],
        ),
        set(),
    ),
    "a plain gate": (  # whose gradient would divide the output by it
        attention(
            ["s = sum(Q * K, D) * scale"], {"gate": "B,H,M,E bf16"},
            rest=[*SOFTMAX[:3], "O = sum(cast(p, bf16) * V, N) / l * gate", SOFTMAX[4]],
        ),
        {"gate"},
    ),
    "a sigmoid of negative scores": (
        contract(HEADS, ["p = sigmoid(-sum(Q * K, D) * scale)", "O = sum(cast(p, bf16) * V, N)"]),
        set(),
    ),
    "a softmax beside a sigmoid": (
        attention(
            ["s = sum(Q * K, D) * scale"], {"V2": "B,H,N,E bf16", "O2": "B,H,M,E bf16 out"},
            rest=[*SOFTMAX, "O2 = sum(cast(sigmoid(s), bf16) * V2, N)"],
        ),
        set(),
    ),
    "conditions of numbers": (attention(["s = where(1 > 0.5, sum(Q * K, D) * scale, 0.5)"], {}), set()),
    "rounded scores": (attention(["s = cast(sum(Q * K, D) * scale, bf16)"], {}), set()),
    "a temperature of queries and a sink": (
        attention(
            ["s = sum(Q * K, D) * heat"], {"heat": "B,H,M f32"}, "",
            [*SOFTMAX[:2], "l = sum(p, N) + exp(heat - m)", *SOFTMAX[3:]],
        ),
        {"heat"},
    ),
    "right-aligned": (attention([f"s = where({CAUSAL}, sum(Q * K, D) * scale, -inf)"], {}), set()),
    "m and l kept": (
        contract({**HEADS, "m": "B,H,M f32 out", "l": "B,H,M f32 out"},
            ["s = sum(Q * K, D) * scale", *SOFTMAX[:4]],
        ),
        set(),
    ),
    "exponentials of small scores": (
        contract({**HEADS, "l": "B,H,M f32 out"},
            [
                "p = where(coord(N) <= coord(M), exp(sum(Q * K, D) * scale), 0)", "l = sum(p, N)",
                "O = sum(cast(p, bf16) * V, N) / l",
            ],
            "{scale: f32}", FIXED,
        ),
        set(),
    ),
    "sigmoid": (
        contract(HEADS, ["p = sigmoid(sum(Q * K, D) * scale - 1)", "O = sum(cast(p, bf16) * V, N)"]),
        set(),
    ),
    "silu over the length": (
        contract(HEADS,
            [f"p = where({CAUSAL}, silu(sum(Q * K, D) * scale), 0)", "O = sum(cast(p, bf16) * V, N) / len(N)"],
            "{scale: f32}", FIXED,
        ),
        set(),
    ),
    "squared scores": (
        contract(HEADS, ["s = relu(sum(Q * K, D))", "O = sum(cast(s * s, bf16) * V, N)"], "", FIXED), set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", sampled(KINDS, 2))
def test_a_kind_of_attention(kind: str) -> None:
    spec, left_out = KINDS[kind]
    of = ("O",) if kind == "m and l kept" else ()
    made = buildable(spec, of_outputs=of)
    assert set(made.refused) == left_out
    for one in made.made.specs:
        assert read_specs(write_spec(one))[0] == one
    documents = {
        name: torch.tensor([[0, 0, 1, 2, 2]] * 2) for name in ("mine", "other") if name in spec.compute.names()
    }
    for sizes in ({"M": 3, "N": 5}, {"M": 5, "N": 5})[len(documents) // 2 :]:  # each row has a key
        check(spec, made.made, of, sizes=sizes, fixed=documents)


@pytest.mark.parametrize("kind", ["rows without a key", "right-aligned"])
def test_a_row_without_a_key_adds_nothing_to_gradients(kind: str) -> None:
    """Torch's own are NaN, also where the output is chosen: it divides by the sum of nothing before it chooses."""
    spec, _ = KINDS[kind]
    kernels = buildable(spec, of_outputs=["O"]).made.specs
    sizes = {**SIZES, **spec.static, "M": 6, "N": 4}
    values = inputs(spec, sizes)
    values |= run(spec, values, sizes)
    assert values["lse"][:, :, :2].isnan().all()
    assert values["O"][:, :, :2].nan_to_num().eq(0).all()
    values["dO"] = torch.ones_like(values["O"])
    for kernel in kernels:
        values |= run(kernel, values, sizes)
    assert values["dQ"][:, :, :2].eq(0).all()
    alive = {name: x[:, :, 2:] if name in ("Q", "O", "dO", "lse", "delta") else x for name, x in values.items()}
    for kernel in kernels[1:]:
        for name, gradient in run(kernel, alive, {**sizes, "M": 4}).items():
            torch.testing.assert_close(values[name][:, :, 2:] if name == "dQ" else values[name], gradient)


@pytest.mark.parametrize("mask", [True, False])
def test_keys_behind_a_length_have_no_gradient(mask: bool) -> None:
    text = (SPECS / "attention_padded.yaml").read_text(encoding="utf-8").replace("128", "32")
    spec = read_specs(text if mask else re.sub(r"where\(.*?, (sum.*?), -inf\)", r"\1", text))[0]
    made = buildable(spec)
    assert made.refused == {} and [one.kernel[len(spec.kernel) :] for one in made.made.specs] == ENDINGS
    for used in ([3, 5], [2, 9], [4, 4]):  # of 5 keys, for 2 queries
        check(spec, made.made, sizes={"M": 2, "N": 5}, fixed={"used": torch.tensor(used)})
    rows, _, keys = made.made.specs
    sizes = {**SIZES, **spec.static, "M": 2, "N": 5}
    values = {**inputs(spec, sizes), "used": torch.tensor([3, -1])}
    values |= run(spec, values, sizes)
    for name in ("K", "V"):  # what does not exist may be anything
        values[name][0, 3:] = values[name][1] = torch.nan
    values |= {"dO": torch.ones_like(values["O"]), "dlse": torch.zeros(2, 2, 2, 2, dtype=torch.float64)}
    values |= run(rows, values, sizes)
    found = run(keys, values, sizes)
    assert found["dK"][0, :3].isfinite().all() and found["dK"][0, :3].any()
    for name in ("dK", "dV"):
        assert found[name][0, 3:].eq(0).all() and found[name][1].eq(0).all()


@pytest.mark.parametrize("kind", ["q", "kv"])
def test_the_specs_that_are_kept_here_say_the_same(kind: str) -> None:
    forward = read_specs((SPECS / "attention_causal.yaml").read_text(encoding="utf-8"))[0]
    ours = read_specs((SPECS / f"attention_bwd_{kind}.yaml").read_text(encoding="utf-8"))[0]
    made = next(one for one in buildable(forward, of_outputs=["O"]).made.specs if one.kernel.endswith(f"_bwd_{kind}"))
    sizes = {**SIZES, "M": 3, "N": 5, "D": 4, "E": 3}
    values = inputs(ours, sizes)
    wanted = run(ours, values, sizes)
    found = run(made, {**values, "delta": values["delta"].permute(0, 3, 1, 2)}, sizes)
    assert wanted.keys() == found.keys()
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-12, atol=1e-12)


def test_what_it_reads_like() -> None:
    spec, _ = KINDS["softcap, ALiBi and a window of documents"]
    rows, queries, keys = buildable(spec, of_outputs=["O"]).made.specs
    assert (rows.op, lines(rows)) == ("rowwise", ["delta = where(lse > -inf, sum(dO * O, E), 0)"])
    assert lines(queries) == [
        "d = coord(M) - coord(N)",
        "seen = (d >= 0 and d <= left) and mine == other",
        "t = tanh(sum(Q * K, D) * scale / cap)",
        "dS = where(seen, exp(t * cap - lse - d * slope) * (1 - t ** 2) * (sum(dO * V, E) - delta), 0)",
        "dQ = sum(cast(dS, bf16) * K, N) * scale",
    ]
    assert lines(keys)[3:] == [
        "weight = where(seen, exp(t * cap - lse - d * slope), 0)",
        "dS = weight * (1 - t ** 2) * (sum(dO * V, E) - delta)",
        "dK = sum(cast(dS, bf16) * Q, M) * scale",
        "dV = sum(cast(weight, bf16) * dO, M)",
    ]


def test_a_gradient_has_a_gradient_as_far_as_kernels_go() -> None:
    forward, _ = KINDS["sigmoid"]
    first = buildable(forward).made.specs[1]
    assert first.kernel == "attend_bwd_kv"
    again = buildable(first)
    assert set(again.refused) == {"Q", "dO"}  # each is in two products
    check(first, again.made)


SOFTMAX_ONLY = "the gradient needs `max(s, N)` and `sum(p, N)` of each row, which no output keeps"
WITH_LSE = (
    "write `lse = max(s, N) + log(sum(p, N))`, and under `tensors` `lse: {shape: [B, H, M], dtype: f32, role: out}`"
)


def test_what_is_not_kept_is_said_with_the_statement_that_keeps_it() -> None:
    compute = ["s = sum(Q * K, D) * scale", "p = exp(s - max(s, N))", "O = sum(cast(p, bf16) * V, N) / sum(p, N)"]
    with pytest.raises(DifferentiationError, match=re.escape(SOFTMAX_ONLY)) as caught:
        buildable(contract(HEADS, compute))
    assert caught.value.message.startswith("line 12: ") and caught.value.help == WITH_LSE
    statement = WITH_LSE.split("`")[1]
    assert buildable(contract(LSE, [*compute, statement])).refused == {}
    with_16_bits = contract({**LSE, "lse": "B,H,M bf16 out"}, [*compute, statement])
    with pytest.raises(DifferentiationError, match="which no output keeps"):
        buildable(with_16_bits)


def test_an_output_that_changes_with_the_largest_score_itself_is_refused() -> None:
    spec, _ = KINDS["m and l kept"]
    with pytest.raises(DifferentiationError, match="line 14: `m = max.* changes with the maximum `m` itself") as caught:
        buildable(spec)
    assert caught.value.help == "give no gradient of it: `--of O`"


def test_a_tensor_of_two_products_is_left_out_with_the_way_out() -> None:
    tensors = {name: text.replace("E", "D") for name, text in LSE.items() if name != "V"}
    compute = ["s = sum(Q * K, D) * scale", *(line.replace("* V", "* K") for line in SOFTMAX)]
    spec = contract(tensors, compute, more="static: {D: 32}\n")
    made = buildable(spec)
    assert set(made.refused) == {"K"} and "pass the same one" in str(made.refused["K"].help)
    check(spec, made.made)
    with pytest.raises(DifferentiationError, match="`K` is in several products"):
        buildable(spec, ["K"])


def test_sums_that_do_not_fit_in_registers_together_get_a_kernel_each() -> None:
    wide = contract(LSE, ["s = sum(Q * K, D) * scale", *SOFTMAX], more="static: {D: 256, E: 256}\n")
    made = buildable(wide, of_outputs=["O"])
    assert made.refused == {}
    assert [one.kernel for one in made.made.specs] == [f"attend_bwd_{end}" for end in ("delta", "q", "k", "v")]
    check(wide, made.made, ["O"])


def test_gradients_that_are_asked_for_alone() -> None:
    spec, _ = KINDS["causal, grouped heads"]
    made = buildable(spec, ["V"], ["O"])
    assert [one.kernel for one in made.made.specs] == ["attend_bwd_v"]  # which needs nothing of rows
    check(spec, made.made, ["O"])
    both = buildable(spec, ["Q", "V"], ["O"]).made
    assert [one.kernel for one in both.specs] == ["attend_bwd_delta", "attend_bwd_q", "attend_bwd_v"]
    bias, _ = KINDS["a bias of scores"]
    with pytest.raises(DifferentiationError, match="computes the gradients of `bias`: CG127"):
        buildable(bias, ["Q", "bias"])
