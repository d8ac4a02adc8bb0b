"""Workflow commands, read back as GitHub's runner reads them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cutegen.language.diagnostics import Diagnostic, Severity, Span
from cutegen.lint.github import workflow_command

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(["%0A", "a,b:c::d", "%25\r\n%"])


def read_command(line: str) -> tuple[str, dict[str, str], str]:
    """Command, properties, message. actions/runner, `ActionCommand.TryParseV2`: properties end at the second `::`."""
    found = re.fullmatch(r"::([a-z]+) (.*?)::(.*)", line, re.DOTALL)
    assert found is not None
    properties = {}
    for field in found[2].split(","):
        name, _, value = field.partition("=")
        for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            value = value.replace(escape, character)
        properties[name] = value
    data = found[3]
    for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        data = data.replace(escape, character)
    return found[1], properties, data


@given(
    st.builds(
        Diagnostic,
        code=st.sampled_from(["CG203", "CG275"]),
        message=TEXT,
        span=st.builds(Span, st.integers(1, 999), st.integers(1, 999), st.integers(1, 99)),
        path=TEXT,
        severity=st.sampled_from(["error", "warning"]),
        notes=st.lists(TEXT, max_size=2).map(tuple),
        help=st.none() | TEXT.filter(bool),
    )
)
def test_a_command_is_one_line_that_is_read_back(diagnostic: Diagnostic) -> None:
    line = workflow_command(diagnostic)
    assert not re.search("[\r\n]", line)
    command, properties, message = read_command(line)
    assert command == diagnostic.severity
    assert properties == {
        "file": diagnostic.path,
        "line": str(diagnostic.span.line),
        "col": str(diagnostic.span.column),
        "endColumn": str(diagnostic.span.column + diagnostic.span.length),
        "title": diagnostic.code,
    }
    lines = [diagnostic.message, *diagnostic.notes]
    if diagnostic.help is not None:
        lines.append(f"help: {diagnostic.help}")
    assert message == "\n".join(lines)


def test_as_it_is_written() -> None:
    severity: Severity = "warning"
    found = Diagnostic("CG252", "100% of it", Span(3, 7, 4), "a:b,c.yaml", severity, ("36 = 32 + 4",), "write `pad: 4`")
    assert workflow_command(found) == (
        "::warning file=a%3Ab%2Cc.yaml,line=3,col=7,endColumn=11,title=CG252::"
        "100%25 of it%0A36 = 32 + 4%0Ahelp: write `pad: 4`"
    )
