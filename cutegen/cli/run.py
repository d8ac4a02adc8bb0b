"""The verb `cutegen run`."""

from __future__ import annotations

from pathlib import Path

import click

from cutegen.atoms.targets import TARGETS
from cutegen.cli.common import Finite, print_json, with_format
from cutegen.cli.guard import Refusal
from cutegen.exits import BROKEN


@click.command()
@click.argument("function", metavar="FILE.py:FUNCTION")
@click.option("--inputs", required=True, metavar="FILE.py:FUNCTION", help="The function that makes the arguments.")
@click.option(
    "--reference",
    metavar="FILE.py:FUNCTION",
    help="The function that computes the expected outputs from the same arguments.",
)
@click.option(
    "--target", type=click.Choice(list(TARGETS)), default="sm_90a", show_default=True, help="The target to compile for."
)
@click.option(
    "--outputs",
    metavar="NAME,...",
    help="Arguments that must be written completely and not read before; no others may be written.",
)
@click.option("--inouts", metavar="NAME,...", help="Arguments that may be written too.")
@click.option(
    "--orders", type=click.IntRange(1, 1000), default=3, show_default=True,
    help="Number of orders of blocks and warps, which must give the same bits.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The first order, and torch's seed.")
@click.option("--rtol", type=Finite(0), help="Relative tolerance, instead of the type's.")
@click.option("--atol", type=Finite(0), help="Absolute tolerance, instead of the type's.")
@click.option("--timeout", type=Finite(1), default=600, show_default=True, help="Seconds for the whole run.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show the output of the function on stderr, also during compilation."
)
@with_format
def run(
    function: str,
    inputs: str,
    reference: str | None,
    target: str,
    outputs: str | None,
    inouts: str | None,
    orders: int,
    seed: int,
    rtol: float | None,
    atol: float | None,
    timeout: float,
    verbose: bool,
    form: str,
) -> None:
    """Run, on the CPU, any function that launches CuTeDSL kernels, with all checks of the emulator. It needs no spec.

    FUNCTION is a cute.jit function, an object with such a __call__, or a Python function that compiles and calls such
    functions, like those of libraries; MODULE:FUNCTION names an installed one. The function of --inputs returns the
    arguments, as a tuple or a dict by name: CPU tensors, numbers, and other arguments. --reference gets copies of them,
    and returns the expected outputs, or writes them to the copies.

    Exit 1 for a fault, a wrong result or a function that does not compile, 2 if it could not run.

    JSON: {verb, ok, exit_code, function, inputs, reference, target, status, message, help, at, fault, launches,
    tensors, notes, printed, seconds}.
    """
    from cutegen.verbs.building.verification import emulator_missing
    from cutegen.verbs.running.job import Job
    from cutegen.verbs.running.output import exit_code, print_run, run_json
    from cutegen.verbs.running.run import run_job

    reason = emulator_missing()
    if reason is not None:
        raise Refusal(f"nothing was executed: {reason}", "install what is missing")
    job = Job(
        function,
        inputs,
        str(Path.cwd()),
        reference,
        target,
        orders,
        seed,
        _names(outputs),
        _names(inouts) or (),
        rtol,
        atol,
    )
    if inouts and outputs is None:
        raise click.UsageError("--inouts goes with --outputs: without it any argument may be written")
    outcome = run_job(job, timeout)
    code = exit_code(outcome)
    if verbose and outcome.printed:
        click.echo(outcome.printed, err=True, nl=False)
    for note in outcome.notes:
        click.echo(f"note: {note}", err=True)
    if form == "json":
        print_json(run_json(job, outcome), code)
    else:
        print_run(job, outcome)
    if code == BROKEN:
        message = "\n".join([outcome.message, *(f"  at: {line}" for line in outcome.at)])
        raise Refusal(message, outcome.help or None, told=form == "json")
    click.get_current_context().exit(code)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name for part in text.split(",") if (name := part.strip()))
