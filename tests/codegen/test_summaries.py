"""A spec's summary becomes documentation of the module and of its function, whatever it holds."""

from __future__ import annotations

import ast
import json
import warnings

import pytest

from cutegen.codegen import generate

COPY = """\
cutegen: 1
kernel: a
op: elementwise
tensors: {X: {shape: [M], dtype: f32}, Y: {shape: [M], dtype: f32, role: out}}
compute: Y = X
summary: %s
"""


@pytest.mark.parametrize(
    ("summary", "read"),
    [
        ("Copies.", "Copies."),
        ("\\", "\\"),
        ("\\.", "\\."),
        ('ends it """ twice', 'ends it """ twice'),
        ('"', '"'),
        ("two\n   lines\n", "two lines"),
        ("a page\f or a \u2028 line", "a page or a line"),
        ("\u200b \x7f \\u12", "\u200b \x7f \\u12"),
        (" ", ""),
    ],
)
def test_a_summary_reads_back_from_the_module(summary: str, read: str) -> None:
    (module,) = generate(COPY % json.dumps(summary), "a.yaml").modules
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = ast.parse(module.text)
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "a")
    assert ast.get_docstring(tree) == (f"a: {read}" if read else "a") + "\n\nY = X"
    assert str(ast.get_docstring(function)).splitlines()[0] == (read or "Y = X").rstrip(".") + "."
    assert all(line == line.rstrip() for line in module.text.splitlines())
