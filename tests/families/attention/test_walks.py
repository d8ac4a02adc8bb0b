"""The form of a contraction: what its statements carry along the walked mode, and which tiles they leave out."""

from __future__ import annotations

import itertools

import pytest

from cutegen.codegen import Module, generate
from cutegen.families.attention.mma_sync.plan import AttentionPlan
from cutegen.language.diagnostics import SpecError
from cutegen.ops.reach import Bound

SPEC = """\
cutegen: 1
kernel: attention
op: contract
tensors:
  Q: {{shape: [B, M, G, R, D], dtype: bf16}}
  K: {{shape: [B, N, G, D], dtype: bf16}}
  V: {{shape: [B, N, G, E], dtype: bf16}}
{more}
  O: {{shape: [B, M, G, R, E], dtype: bf16, role: out}}
scalars: {{scale: f32, left: i32}}
compute:
{statements}
static: {{D: 64, E: 64}}
targets: [sm_80]
"""
SOFTMAX = ("p = exp(s - max(s, N))", "O = sum(cast(p, bf16) * V, N) / sum(p, N)")


def module(*statements: str, more: str = "") -> Module:
    text = SPEC.format(statements="\n".join(f'  - "{one}"' for one in statements), more=more)
    for name in ("scale", "left"):
        if not any(name in one for one in statements):
            text = text.replace(f"{name}: {'f32' if name == 'scale' else 'i32'}", "").replace("{, ", "{")
    text = text.replace("scalars: {}\n", "").replace(", }", "}")
    return generate(text, "specs/attention.yaml").modules[0]


def plan(*statements: str, more: str = "") -> AttentionPlan:
    found = module(*statements, more=more).plan
    assert isinstance(found, AttentionPlan)
    return found


def refusal(*statements: str, more: str = "") -> str:
    with pytest.raises(SpecError) as error:
        module(*statements, more=more)
    return "\n".join(f"{one.code} {one.message}; {one.help}" for one in error.value.diagnostics)


@pytest.mark.parametrize(
    ("queries", "keys", "score", "tiled"),
    [
        ("B, M, G, R, D", "B, N, G, D", "sum(Q * K, D)", "M"),
        ("B, G, R, M, D", "B, G, N, D", "sum(Q * K, D)", "M"),
        ("M, B, G, R, D", "N, B, G, D", "sum(Q * K, D)", "M"),
        ("B, G, M, R, D", "N, B, G, D", "where(coord(N) - coord(M) <= 0, sum(Q * K, D), -inf)", "M"),
        ("B, G, M, R, D", "N, B, G, D", "where(coord(R) > 1 and coord(N) <= coord(M), sum(Q * K, D), -inf)", "M"),
    ],
)
def test_tiles_lie_along_queries_and_not_along_heads(queries: str, keys: str, score: str, tiled: str) -> None:
    text = SPEC.format(statements="\n".join(f'  - "{one}"' for one in (f"s = {score}", *SOFTMAX)), more="")
    text = (
        text.replace("B, M, G, R, D", queries)
        .replace("B, N, G, D", keys)
        .replace("scalars: {scale: f32, left: i32}\n", "")
    )
    found = generate(text, "specs/attention.yaml").modules[0].plan
    assert isinstance(found, AttentionPlan) and found.walked.rows[0] == tiled and set(found.walked.rows) == {"M", "R"}


def test_a_softmax_is_carried_above_its_maximum() -> None:
    found = plan("s = sum(Q * K, D) * scale", *SOFTMAX).walked
    assert (found.batch, found.rows, found.walked, found.columns) == (("B", "G"), ("M", "R"), "N", "E")
    largest, product, total = found.carried
    assert (largest.function, product.function, total.function) == ("max", "sum", "sum")
    assert largest.above is None and product.above == total.above == largest.name
    assert product.product is not None and product.product.b == "V" and total.product is None


def test_the_two_factors_of_the_scores_may_stand_in_any_order() -> None:
    assert plan("s = sum(K * Q, D) * scale", *SOFTMAX).lefts[0].tensor.name == "Q"


@pytest.mark.parametrize(
    ("terms", "above"),
    [
        ("p", True),
        ("p * 2", True),
        ("-p / scale", True),
        ("where(coord(N) > 3, p, 0)", True),
        ("p + p", True),
        ("sigmoid(s)", False),
        ("s * s", False),
    ],
)
def test_terms_are_above_a_maximum_or_as_they_are(terms: str, above: bool) -> None:
    statements = ["s = sum(Q * K, D) * scale"] + ["p = exp(s - max(s, N))"] * ("p" in terms.replace("exp", ""))
    found = plan(*statements, f"O = sum(cast({terms}, bf16) * V, N)").walked
    assert (found.outer[0].above is not None) == above


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (("s = sum(Q * K, D) * scale", "p = exp(s - max(2 * s, N))", SOFTMAX[1]), "other than as `exp(x - "),
        (("s = sum(Q * K, D) * scale", "p = s / max(s, N)", SOFTMAX[1]), "other than as `exp(x - "),
        (("s = sum(Q * K, D)", "p = exp(s - max(s, N)) * exp(s - max(s, N))", SOFTMAX[1]), "other than as `exp(x - "),
        (("s = sum(Q * K, D)", "p = s - min(s, N)", SOFTMAX[1]), "`min` cannot be carried along N"),
        (("s = sum(Q * K, D)", "p = s * s", "O = sum(cast(p, f16) * V, N)"), "is f16, and that is bf16"),
        (("s = sum(Q * K, D)", "O = sum(s * V, N)"), "write `cast(..., bf16)` around it"),
        (("O = sum(Q * Q, D)",), "needs a sum of products of two tensors"),
        (("O = sum(Q, D) + sum(K, N) + sum(V, N)",), "needs a sum of products of two tensors"),
        (("s = sum(Q * K, D)", "O = sum(s, N) * 2"), "nothing computed of the scores is multiplied again"),
        (("s = sum(Q * K, D)", "O = sum(cast(s, bf16) * V, N) + sum(V, N)"), "differs along `E`, which no score has"),
        (("s = sum(Q * K, D)", "O = sum(cast(s, bf16) * V, N) * sum(s, M)"), "`sum` along M gives an element along N"),
        (("O = Q @ K.T + sum(V, N)",), "write `sum(Q * K, D)` for `Q @ K.T`"),
    ],
)
def test_what_is_no_such_form_is_refused(statements: tuple[str, ...], said: str) -> None:
    assert said in refusal(*statements)


def test_a_score_is_no_output() -> None:
    said = refusal("S = sum(Q * K, D)", *(one.replace("s", "S") for one in SOFTMAX[:0]), "p = exp(S - max(S, N))",
                   SOFTMAX[1], more="  S: {shape: [B, M, G, R, N], dtype: f32, role: out}")  # fmt: skip
    assert "has a value for each score" in said


def test_outputs_have_the_modes_of_rows() -> None:
    more = "  l: {shape: [B, M, G], dtype: f32, role: out}"
    said = refusal("s = sum(Q * K, D)", "p = exp(s - max(s, N))", "l = sum(p, N)",
                   "O = sum(cast(p, bf16) * V, N) / l", more=more)  # fmt: skip
    assert "CG129 `l` is [B, M, G], and a row has B, G, M, R" in said


# --------------------------------------------------------------------------------------------------- tiles left out


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("coord(N) <= coord(M)", {(True, 1, 0)}),
        ("coord(M) >= coord(N)", {(True, 1, 0)}),
        ("coord(N) < coord(M)", {(True, 1, -1)}),
        ("coord(N) - len(N) <= coord(M) - len(M)", {(True, 1, 0)}),
        ("coord(M) - coord(N) <= left", {(False, 1, 0)}),
        ("coord(N) > 2 * coord(M) + 3", {(False, 2, 4)}),
        ("coord(N) == coord(M)", {(True, 1, 0), (False, 1, 0)}),
        ("coord(N) < 100 and coord(N) <= coord(M)", {(True, 0, 99), (True, 1, 0)}),
        ("coord(N) < 100 or coord(N) <= coord(M)", set()),
        ("2 * coord(N) <= coord(M)", set()),
        ("coord(N) != coord(M)", set()),
    ],
)
def test_linear_conditions_bound_the_walk(condition: str, bounds: set[tuple[bool, int, int]]) -> None:
    scores = f"s = where({condition}, sum(Q * K, D) * scale, -inf)"
    found = plan(scores, *SOFTMAX).bounds
    assert {(one.last, one.row, one.number) for one in found} == bounds


@pytest.mark.parametrize(
    "statements",
    [
        ("s = where(coord(N) <= coord(M), sum(Q * K, D), 0)", *SOFTMAX),  # which counts exp(0)
        ("s = sum(Q * K, D)", "p = where(coord(N) <= coord(M), exp(s - max(s, N)), 0)", SOFTMAX[1]),  # not in max
        ("s = where(coord(N) <= coord(M), sum(Q * K, D), 1)", "O = sum(cast(s, bf16) * V, N)"),
    ],
)
def test_a_condition_bounds_nothing_where_its_other_side_counts(statements: tuple[str, ...]) -> None:
    assert not plan(*statements).bounds


def test_zeros_bound_sums_that_have_no_maximum() -> None:
    found = plan("s = where(coord(N) <= coord(M), sigmoid(sum(Q * K, D)), 0)", "O = sum(cast(s, bf16) * V, N)")
    assert [one.last for one in found.bounds] == [True] and found.masked is None


def reached(bound: Bound, row: int) -> int:
    assert not bound.terms
    return bound.row * row + bound.number


@pytest.mark.parametrize("text", ["n <= m", "n < m", "m - n < 5", "n >= 3 - m", "n == m + 1", "-n <= -m"])
def test_bounds_are_those_that_the_condition_sets(text: str) -> None:
    """Against the condition itself, for every small pair."""
    condition = text.replace("n", "coord(N)").replace("m", "coord(M)")
    found = plan(f"s = where({condition}, sum(Q * K, D), -inf)", *SOFTMAX).bounds
    assert found
    for m, n in itertools.product(range(12), range(-12, 24)):
        inside = all(n <= reached(one, m) if one.last else n >= reached(one, m) for one in found)
        assert inside == eval(text, {"m": m, "n": n})


def test_the_walk_is_that_of_its_own_module() -> None:
    """Another rule than that of the kernel would be seen in the text of the module."""
    text = module("s = where(coord(N) <= coord(M), sum(Q * K, D), -inf)", *SOFTMAX).text
    assert "end_place = cutlass.min(end_place, last_row + 1)" in text
    text = module("s = where(coord(M) - coord(N) <= left, sum(Q * K, D), -inf)", *SOFTMAX).text
    assert "first_place = cutlass.max(first_place, first_row - cutlass.Int64(left))" in text
