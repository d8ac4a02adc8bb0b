"""The fenced blocks of a page, and the specs among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from making.examples import dumped
from making.repository import read

_FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `title` is empty where it has none."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of a page, a path of the repository."""
    return blocks_of(read(page))


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page's text, or of a part of it."""
    return [Block(found[1], found[2] or "", found[3]) for found in _FENCE.finditer(text)]


def specs(page: str) -> Iterator[str]:
    """The specs that the `yaml` blocks of a page of the language show, in their order.

    A block is a whole spec, or has keys that replace those of the whole spec before it.
    """
    whole = ""
    for block in blocks(page):
        if block.language != "yaml" or block.title:
            continue
        if block.text.startswith("cutegen:"):
            whole = block.text
            yield whole
        else:
            yield changed(whole, yaml.safe_load(block.text))


def changed(spec: str, keys: dict[str, Any]) -> str:
    """A spec's text with other values of some keys."""
    return dumped({**yaml.safe_load(spec), **keys})
