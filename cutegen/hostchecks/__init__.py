"""Checks of host code: calls with one fault each must be rejected, naming the argument; valid ones must be accepted."""

from cutegen.hostchecks.checks import host_checks, numbered_checks
from cutegen.hostchecks.judging import names_argument, workspaces_of

__all__ = ["host_checks", "names_argument", "numbered_checks", "workspaces_of"]
