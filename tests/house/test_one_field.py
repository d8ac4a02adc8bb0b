"""A field of a schedule is known in few files, all of them its family's: the padding of shared memory shows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import cutegen

PACKAGE = Path(cutegen.__file__).parent
HOME = PACKAGE / "families" / "gemm"
FIELD = "pad"
IN_TEXT = re.compile(rf"(^|\.|`){FIELD}(:|$)")  # a key's name, the end of a path, or a line of a spec in a message
MOST_FILES = 5


def namings(tree: ast.Module) -> Iterator[int]:
    """The lines that name the field: as an attribute, as a field or argument by name, or in a text that is no
    docstring. Variables that happen to have the name are none."""
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    documentation = {id(text) for text in texts if isinstance(text, ast.Constant)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=name) | ast.AnnAssign(target=ast.Name(id=name)):
                named = name == FIELD
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                named = IN_TEXT.search(text) is not None
            case _:
                named = False
        if named:
            yield node.lineno  # type: ignore[attr-defined]


def test_what_counts_as_naming_it() -> None:
    named = ["x.pad", "f(pad=1)", "class S:\n    pad: int", "y = 'pad'", "y = 'smem.*.pad'", "y = f'write `pad: {x}`'"]
    others = ["x.padded", "pad = 1", "f(pad)", "y = 'padded'", "y = 'a pad of it'", '"""`pad: 1`"""', "y = f'{pad}'"]
    assert all(list(namings(ast.parse(text))) for text in named)
    assert not [text for text in others if list(namings(ast.parse(text)))]


def test_padding_is_named_in_few_files_of_one_family() -> None:
    texts = {file.relative_to(PACKAGE): file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py"))}
    found = {
        file: lines
        for file, text in texts.items()
        if FIELD in text and (lines := sorted(set(namings(ast.parse(text)))))  # most files need not be parsed
    }
    assert HOME.relative_to(PACKAGE) / "staged" / "schedule.py" in found
    assert not [file for file in found if not (PACKAGE / file).is_relative_to(HOME)], found
    assert len(found) <= MOST_FILES, found
