"""A gemm of which nothing but tensors is written gives right results of any size, at any address, on each target."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest
from choosing_kit import text

from cutegen.codegen import generate
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

SIZES = ((3, 1, 1), (5, 7, 5), (66, 65, 1), (2, 24, 40))


@pytest.mark.parametrize(
    ("spec", "fixed"),
    [
        (text(majors=("K", "N", "N"), more="static: {M: 5}"), {"M": 5}),  # of a few schedules instead of 27
        (text(majors=("K", "N", "N")), {}),
        (text("f32", more="schedule: {mma: {operands: tf32}}\ntargets: [sm_80]"), {}),
    ],
    ids=["bf16 of five rows", "bf16", "tf32"],
)
def test_any_size_is_taken_at_any_address(tmp_path: Path, spec: str, fixed: dict[str, int]) -> None:
    (module,) = generate(spec, "mm.yaml").modules
    path = tmp_path / "mm.py"
    path.write_text(module.text)
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    for (m, n, k), placement in zip(SIZES, cycle(("offset", "compact")), strict=False):
        case = Case("odd", "sizes", {"M": m, "N": n, "K": k, **fixed}, placement, "integers")  # type: ignore[arg-type]
        report = verify_case(module.plan, case, loaded, executor)
        assert report.status == "passed", (m, n, k, placement, report.message)
