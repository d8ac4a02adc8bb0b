"""Verbs as people type them, in this process: for families that are there only while they are added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from cutegen.cli import cli


def cutegen(*arguments: object, code: int = 0) -> Result:
    """A verb that ends with that exit code."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def data_of(*arguments: object, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cutegen(*arguments, "--format", "json", code=code).stdout)
    return found


def spec_in(folder: Path, text: str) -> Path:
    """The text as a spec in a folder of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    return folder / "spec.yaml"
