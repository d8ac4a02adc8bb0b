"""What a module's host code promises, broken once each: calls that it must refuse by name, and those it must take."""

from cutegen.hostchecks.checks import host_checks, numbered_checks
from cutegen.hostchecks.judging import names_argument, workspaces_of

__all__ = ["host_checks", "names_argument", "numbered_checks", "workspaces_of"]
