"""The language: YAML text to `KernelSpec`, with a diagnostic and a place for everything that is wrong."""

from __future__ import annotations

from cutegen.language.diagnostics import Diagnostic, Span, SpecError, as_json, has_errors, ordered, render_text
from cutegen.language.model import KernelSpec
from cutegen.language.reader import load_specs, read_specs, read_text
from cutegen.language.schema import known_targets, schema_text
from cutegen.language.writer import write_spec
from cutegen.layouts import LayoutSyntaxError, format_layout, make_layout_tv, parse_layout

__all__ = [
    "Diagnostic",
    "KernelSpec",
    "LayoutSyntaxError",
    "Span",
    "SpecError",
    "as_json",
    "format_layout",
    "has_errors",
    "known_targets",
    "load_specs",
    "make_layout_tv",
    "ordered",
    "parse_layout",
    "read_specs",
    "read_text",
    "render_text",
    "schema_text",
    "write_spec",
]
