"""The command line: a file for each verb, with its flags.

Verbs import their dependencies when they run, so that `--help` is quick. Results go to stdout, everything else to
stderr. Exit codes: 0 all well; 1 findings: a file that is out of date, a wrong result, a failed compile, a lint error;
2 wrong use or broken input; 70 a defect of cutegen; 130 interrupted; 141 the reader of stdout is gone; 143 ended by
SIGTERM. With `--format json`, wrong use prints `{verb, ok, exit_code, error, help}`.
"""

from __future__ import annotations

import gc
import signal
import sys
from types import FrameType

import click

from cutegen.cli.bench import bench
from cutegen.cli.build import build
from cutegen.cli.completion import completion
from cutegen.cli.explain import explain
from cutegen.cli.export import export
from cutegen.cli.grad import grad
from cutegen.cli.guard import Verbs
from cutegen.cli.init import init
from cutegen.cli.inspect import inspect
from cutegen.cli.layout import layout
from cutegen.cli.lint import lint
from cutegen.cli.receipts import receipts
from cutegen.cli.run import run
from cutegen.cli.schema import schema
from cutegen.cli.show import show
from cutegen.cli.tune import tune
from cutegen.cli.verify import verify
from cutegen.version import __version__


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A locale that lacks a character of a spec must not stop a build; YAML reads these escapes back.
            stream.reconfigure(errors="backslashreplace")

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    gc.set_threshold(50_000, 20, 20)  # most of what is made of specs stays: by default a tenth of the time goes to it
    signal.signal(signal.SIGTERM, end)  # so that workers are ended and files put back
    cli(prog_name="cutegen")


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cutegen")
def cli() -> None:
    """Compiles declarative kernel specs to standalone CuTeDSL modules, and verifies them.

    Start with `cutegen init my_add --op elementwise`, then `cutegen build specs/my_add.yaml`.
    """


VERBS = (
    init,
    build,
    lint,
    explain,
    grad,
    inspect,
    layout,
    show,
    verify,
    run,
    tune,
    bench,
    receipts,
    export,
    schema,
    completion,
)
for verb in VERBS:
    cli.add_command(verb)

__all__ = ["cli", "main"]
