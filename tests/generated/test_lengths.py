"""Generated modules stay as short as they are: a reviewer of a committed kernel reads all of it."""

from __future__ import annotations

import pytest
from specs_kit import ROOT

MOST_LINES = {
    "add_vectorized": 314,
    "copy_tv": 305,
    "swiglu": 366,
    "rms_norm": 426,
    "gemm_bf16_kkn": 580,
    "cross_entropy": 546,
    "softmax": 1221,
    "gemm_bf16_cases": 895,
}


@pytest.mark.parametrize("kernel", MOST_LINES)
def test_a_module_has_no_more_lines_than_it_had(kernel: str) -> None:
    """A change that makes modules shorter lowers the number; one that must make them longer raises it."""
    text = (ROOT / "generated" / f"{kernel}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES[kernel]
