"""The events of a YAML text, where PyYAML, which reads YAML 1.1, follows the rules of YAML 1.2 on lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

_NO_BREAKS = "\x85\u2028\u2029"  # they end a line in YAML 1.1, and not in 1.2 (section 5.4)


def events(text: str) -> Iterator[Any]:
    """PyYAML's events, with places in `text`. Raises `yaml.YAMLError`, `ValueError` or `OverflowError`.

    PyYAML is given other characters for those that it would break lines at, and what it made of them is put right.
    """
    free = (code for code in range(0xE000, 0xF900) if chr(code) not in text)
    written = {next(free): character for character in _NO_BREAKS if character in text}
    given = text.translate({ord(character): code for code, character in written.items()})
    try:
        for event in yaml.parse(given, Loader=yaml.SafeLoader):
            for name in ("value", "anchor", "tag"):
                if written and isinstance(found := getattr(event, name, None), str):
                    setattr(event, name, found.translate(written))
            yield event
    except yaml.MarkedYAMLError as error:
        error.problem = error.problem and error.problem.translate(written)
        raise
