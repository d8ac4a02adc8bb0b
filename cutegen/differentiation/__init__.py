"""Derivatives of specs: the statements of `compute` differentiated symbolically, and written as a spec again."""

from __future__ import annotations

from cutegen.differentiation.asking import Backward, Buildable
from cutegen.differentiation.backward import backward
from cutegen.differentiation.buildable import buildable
from cutegen.differentiation.reverse import DifferentiationError

__all__ = ["Backward", "Buildable", "DifferentiationError", "backward", "buildable"]
