"""Long lists of parameters of which `make test` takes a part, and `make sweep` all the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(parameters: Iterable[Any], every: int = 3) -> list[Any]:
    """The parameters of a test, all but the first one, the one `every` places on and so forth with the mark `sweep`.

    A tuple has a value for each argument. Lists are in the order of their subject, so that each part of it is tried.
    """
    return [
        parameter
        if place % every == 0
        else pytest.param(*(parameter if isinstance(parameter, tuple) else (parameter,)), marks=pytest.mark.sweep)
        for place, parameter in enumerate(parameters)
    ]
