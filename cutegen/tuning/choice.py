"""A change of a schedule: values of some of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Steps = tuple[str, ...]  # a path below `schedule`: ("mma", "thread_layout")
Choice = Mapping[Steps, Any]  # values by path; None leaves the field to planning
