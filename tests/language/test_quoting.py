"""Whatever is written in a spec, and however long it is, a diagnostic stays short."""

from __future__ import annotations

import json
import re

import pytest

from cutegen.language.diagnostics import Diagnostic, SpecError, render_text
from cutegen.language.reader import read_specs

SPEC = """cutegen: 1
kernel: trial
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K}
  B: {shape: [N, K], dtype: f32}
  C: {shape: [M, N], dtype: f32, role: out}
scalars: {alpha: f32}
compute: C = cast(alpha * (A @ B.T), f32) + coord(N)
schedule: {tiler: {M: 64, N: 64, K: 8}, pipeline: {stages: 3}, copies: {A: {atom: cp_async}}}
tune: {schedule.pipeline.stages: [2, 3]}
targets: [sm_80]
divisible: {N: 4}
verify: {shapes: [{M: 8, N: 8, K: 8}]}
expect: {sass: {FFMA: 1}}
"""
WORDS = sorted({match.start() for match in re.finditer(r"[\w.]+", SPEC)})
LONG = {"name": "n" * 3000, "quoted": '"' + "two words " * 300 + '"', "number": "1" * 3000}


@pytest.mark.parametrize("kind", LONG)
def test_long_names_are_cut(kind: str) -> None:
    told = 0
    for start in WORDS:
        end = re.compile(r"[\w.]+").match(SPEC, start).end()  # type: ignore[union-attr]
        text = SPEC[:start] + LONG[kind] + SPEC[end:]
        try:
            read_specs(text, "specs/trial.yaml")
        except SpecError as error:
            for diagnostic in error.diagnostics:
                told += 1
                for line in (diagnostic.message, *diagnostic.notes, diagnostic.help or ""):
                    assert len(line) < 500, (text[max(0, start - 40) : start], line)
                assert len(render_text(diagnostic, text)) < 1500
    assert told > len(WORDS) // 2


def test_what_is_cut_and_what_is_not() -> None:
    layout = "(" + ",".join(["(2,4)"] * 60) + ")"
    found = Diagnostic("CG000", f"`{'x' * 3000}` and `{'a b ' * 900}`", notes=("y" * 900,), help=f"write `{layout}`")
    assert found.message == f"`{'x' * 40}...` and `{'a b ' * 40}...`"
    assert found.notes == (f"{'y' * 40}...",)
    assert found.help == f"write `{layout}`"


@pytest.mark.parametrize("odd", ["\x1b[31m", "\n", "\u200b", "\ufeff", "\u202e", "\x7f"])
def test_what_cannot_be_seen_of_a_quoted_name_is_shown_as_an_escape(odd: str) -> None:
    text = SPEC.replace("[N, K]", f"[{json.dumps('N' + odd)}, K]").replace("stages: 3", f"{json.dumps('s' + odd)}: 3")
    with pytest.raises(SpecError) as caught:
        read_specs(text)
    said = [line for d in caught.value.diagnostics for line in (d.message, *d.notes, d.help or "")]
    assert said and all(line.isprintable() for line in said)
