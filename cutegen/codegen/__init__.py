"""Prints a plan as the text of a standalone CuTeDSL module."""

from __future__ import annotations

from cutegen.codegen.generate import Generated, Module, generate
from cutegen.codegen.regions import Region

__all__ = ["Generated", "Module", "Region", "generate"]
