"""How every verb of the command line ends when it does not end well: a message, a line of help and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cutegen.errors import CutegenError, plain
from cutegen.exits import BROKEN, DEFECT, INTERRUPTED, PIPE
from cutegen.project.paths import readable

DEBUG_VARIABLE = "CUTEGEN_TRACEBACK"
_JSON = "cutegen.json"


class Refusal(click.ClickException):
    """Ends a verb with a message, a line of help and an exit code; `told` says that stdout has the
    verb's JSON already.
    """

    def __init__(self, message: str, help: str | None = None, code: int = BROKEN, *, told: bool = False) -> None:
        super().__init__(readable(message))
        self.help = help
        self.told = told
        self.exit_code = code  # type: ignore[misc]  # click means it to be set so

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.message}", err=True)
        if self.help:
            click.echo(f"  help: {self.help}", err=True)


class Verbs(click.Group):
    """Turns what may go wrong anywhere into an exit code and a line, and JSON if that was asked for; no traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Before anything is parsed: what is wrong may be the arguments themselves.
        ctx.meta[_JSON] = _asks_for_json(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return self._guarded(ctx)
        except click.ClickException as error:
            if ctx.meta[_JSON] and not getattr(error, "told", False):
                _print_refusal(ctx, error)
            raise

    def _guarded(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # so that a closed pipe shows here and not while Python exits
            return result
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _abandon_stdout()
            ctx.exit(PIPE)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except CutegenError as error:
            raise Refusal(error.message, error.help, error.exit_code) from error
        except OSError as error:  # a full disk, a closed descriptor: not a defect
            _abandon_stdout()
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
            raise Refusal(f"{where}{error.strerror or error}") from error
        except Exception as error:
            if os.environ.get(DEBUG_VARIABLE):
                raise
            if isinstance(error, ImportError) and (error.name or "").partition(".")[0] != "cutegen":
                raise Refusal(*_not_installed(error)) from error
            message = f"cutegen failed: {_where(error)}{type(error).__name__}: {plain(str(error))[:500]}"
            help = f"this is a defect of cutegen; {DEBUG_VARIABLE}=1 shows the traceback for a report"
            raise Refusal(message, help, DEFECT) from error


def _not_installed(error: ImportError) -> tuple[str, str]:
    """Message and help for what cutegen needs and cannot import."""
    what = f"the package {error.name.partition('.')[0]}" if error.name else "something that cutegen needs"
    state = "is not installed" if isinstance(error, ModuleNotFoundError) else "cannot be imported"
    help = "install cutegen again, which brings all that it needs: `python -m pip install .` in its folder"
    return f"{what} {state}: {plain(str(error))[:500]}", help


def _asks_for_json(args: Sequence[str]) -> bool:
    return "--format=json" in args or ("--format", "json") in zip(args, args[1:], strict=False)


def _print_refusal(ctx: click.Context, error: click.ClickException) -> None:
    """Prints a refusal as JSON, `{verb, ok, exit_code, error, help}`."""
    from cutegen.console import print_json

    help = getattr(error, "help", None)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        help = f"`{error.ctx.command_path} --help` lists what it takes"
    message = readable(error.format_message())
    verb = ctx.invoked_subcommand
    print_json({"verb": verb, "ok": False, "exit_code": error.exit_code, "error": message, "help": help})


def _where(error: BaseException) -> str:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}: " if frame is not None else ""


def _abandon_stdout() -> None:
    """Lets stdout go nowhere: nobody reads it any more, and what is still buffered must not fail a second time."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no file
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 open until the process ends
