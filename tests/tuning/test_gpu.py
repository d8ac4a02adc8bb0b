"""On a GPU: a search over a few schedules of a small kernel, from the spec to the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tuning_kit import TUNED, sieve_of

from cutegen.cli import cli
from cutegen.verification import gpu_missing

pytestmark = pytest.mark.skipif(gpu_missing() is not None, reason="needs a GPU")


def test_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    spec = tmp_path / "mm.yaml"
    # The smallest of the tiles: another one must be faster.
    text = TUNED.replace("tiler: {M: 128, N: 128, K: 8}  #", "tiler: {M: 64, N: 64, K: 8}  #")
    spec.write_text(text)
    command = ["tune", "mm.yaml", "--sizes", "M=2048,N=2048,K=2048", "--format", "json"]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    told = json.loads(done.stdout)
    assert done.exit_code == 0, done.stderr
    assert told["dropped"] == [] and len(told["ranking"]) == 4
    assert all(0 < entry["spread"] < 0.05 and entry["rounds"] >= 30 for entry in told["ranking"])
    ratios = [entry["ratio"] for entry in told["ranking"]]
    assert ratios == sorted(ratios, key=lambda ratio: round(ratio, 3)) and ratios[0] < 0.95
    assert told["written"] and "}  # the block's tile" in spec.read_text() and spec.read_text() != text
    # Against itself nothing is faster, and what it now says builds.
    again = json.loads(CliRunner().invoke(cli, command, catch_exceptions=False).stdout)
    assert again["written"] is False and again["ranking"][0]["ratio"] > 0.95
    assert CliRunner().invoke(cli, ["build", "mm.yaml", "--no-verify"]).exit_code == 0


def test_a_wrong_candidate_is_found_out(tmp_path: Path) -> None:
    """A module that does half of the sum is faster, and is told from a right one."""
    from cutegen.tuning.model import Batch, Time, Trouble
    from cutegen.tuning.timers import SessionTimer

    module = sieve_of(TUNED).incumbent().modules[0]
    assert module.text.count("k_tiles = cute.size(gA, mode=[2])") == 1
    half = module.text.replace("k_tiles = cute.size(gA, mode=[2])", "k_tiles = cute.size(gA, mode=[2]) // 2")
    timer = SessionTimer(0)
    try:
        wrong = replace(module, text=half)
        ((own, same, found),) = timer.measure(Batch((module, module, wrong), ({"M": 512, "N": 512, "K": 512},), 6))
    finally:
        timer.close()
    assert isinstance(own, Time) and isinstance(same, Time)
    assert isinstance(found, Trouble) and found.kind == "wrong"
