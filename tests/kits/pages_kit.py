"""Pages read as their readers use them: fenced blocks, and commands with what they print.

A block fenced as `console` has commands behind `$ `, each with all that it prints on both streams; `...` stands for
lines that are left out, and at the end of a line for the rest of it; `.../` at its beginning is a folder. A block with
a title is a file of that name.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner
from making.blocks import Block

from cutegen.cli import cli

ROOT = Path(__file__).parents[2]
READING = re.compile(r"^reading specs: \d+\n", re.MULTILINE)  # which a terminal shows for a moment


def commands(session: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a session, each with the lines that it prints."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def pattern(lines: list[str]) -> str:
    """The pattern that an output shown as these lines must match."""
    made = ""
    for line in lines:
        if line == "...":
            made += r"(?:.*\n)*"
            continue
        if line.startswith(".../"):
            made, line = made + ".*", line.removeprefix("...")
        if line.endswith(" ..."):
            made += re.escape(line.removesuffix("...")) + r".*\n"
        else:
            made += re.escape(line.rstrip()) + r" *\n"
    # How many checks there are changes with each that is new, and with it the widths of columns
    made = re.sub(r"\d+(?=\\ (?:cases|host\\ checks))", r"\\d+", made)
    return re.sub(r"(?:\\ ){2,}", r"\\ {2,}", made)


def run(command: str, folder: Path) -> str:
    """The output of a command."""
    name, *arguments = shlex.split(command)
    if name == "cutegen":
        done = CliRunner().invoke(cli, arguments, prog_name="cutegen")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return READING.sub("", done.output)
    command = f"{shlex.quote(sys.executable)} {shlex.join(arguments)}" if name == "python" else command
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shell = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    return shell.stdout + shell.stderr


def write_file(block: Block, folder: Path) -> None:
    """Writes the file that a block with a title is."""
    path = folder / block.title
    path.parent.mkdir(exist_ok=True)
    path.write_text(block.text, encoding="utf-8")


def assert_prints(command: str, lines: list[str], folder: Path) -> None:
    """Runs a command, which must print these lines."""
    said = re.sub(r"[ \t]+$", "", run(command, folder), flags=re.MULTILINE)
    said = said if said.endswith("\n") or not said else f"{said}\n"
    assert re.fullmatch(pattern(lines), said), f"$ {command}\n{said}"
