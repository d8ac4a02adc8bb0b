"""Fixtures for tests of `cutegen bench`: a folder of specs, and a session without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benching_kit import GEMM, FakeSession
from building_kit import project

from cutegen.measuring import Request


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeSession]]:
    class Session(FakeSession):
        asked: list[Request] = []

    monkeypatch.setattr("cutegen.verbs.benching.bench.Session", Session)
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: None)
    yield Session


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = project(tmp_path, "add")
    (folder / "mm.yaml").write_text(GEMM)
    return folder
