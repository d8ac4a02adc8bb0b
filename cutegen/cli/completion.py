"""The verb `cutegen completion`."""

from __future__ import annotations

import click

SHELLS = ["bash", "zsh", "fish"]
_ZSH_BEGINS = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"  # a ~/.zshrc need not have done so


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell code that completes verbs, flags and paths of specs.

    For bash, `eval "$(cutegen completion bash)"` in ~/.bashrc; for zsh the same in ~/.zshrc; for fish,
    `cutegen completion fish > ~/.config/fish/completions/cutegen.fish`.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None and ctx.parent is not None
    if shell == "zsh":
        click.echo(_ZSH_BEGINS)
    click.echo(found(ctx.parent.command, {}, "cutegen", "_CUTEGEN_COMPLETE").source())
