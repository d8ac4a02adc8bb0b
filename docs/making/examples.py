"""Examples of the language's fields: what is added to a spec, what comes of it, and what is inferred without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from cutegen.codegen import Generated, generate
from cutegen.language.kinds import Path
from cutegen.language.reader import read_specs
from cutegen.language.writer import as_data, scalar
from cutegen.layouts import format_layout
from making.fields import Field
from making.repository import read

FILE = "docs/making/examples.yaml"


@dataclass(frozen=True)
class Base:
    """A whole spec that examples are added to, and what it is in a few words."""

    name: str
    says: str
    text: str


@dataclass(frozen=True)
class Example:
    """An example of one field.

    `text` is what is added to the base; `beside` a spec that stands beside it. `left_out` says what the field is where
    it is not written and nothing infers it; empty where something does. `same` marks a field that has one value in the
    base, which is also inferred.
    """

    field: str
    base: Base
    text: str
    beside: str = ""
    left_out: str = ""
    same: bool = False

    def generated(self) -> Generated:
        """The modules of the base with the example. Raises SpecError if they cannot be."""
        spec = merged(yaml.safe_load(self.base.text), yaml.safe_load(self.text))
        beside = read_specs(self.beside) if self.beside else ()
        return generate(dumped(spec), f"specs/{self.base.name}.yaml", beside=beside)

    def path(self) -> Path:
        """Where the field stands in the example: its steps, with the names of tensors and modes between them."""
        steps = self.field.split(".")
        node: Any = yaml.safe_load(self.text)
        if steps[0] not in node:  # the first step is a definition of the schema
            steps = [{"tensor": "tensors", "mode": "modes"}.get(steps[0], "schedule"), *steps[1:]]
        path: list[str | int] = []
        for step in steps:
            while not (isinstance(node, Mapping) and step in node):
                name: str | int = 0 if isinstance(node, list) else next(iter(node))
                path.append(name)
                node = node[name]
            path.append(step)
            node = node[step]
        return tuple(path)


@cache
def examples() -> dict[str, Example]:
    """The examples by field, as the file has them."""
    data = yaml.safe_load(read(FILE))
    bases = {name: Base(name, **one) for name, one in data["bases"].items()}
    return {name: Example(name, bases[one["base"]], **_but(one, "base")) for name, one in data["examples"].items()}


@cache
def of_base(base: Base) -> Generated:
    """The modules of a base alone."""
    return generate(base.text, f"specs/{base.name}.yaml")


def left_out(field: Field, example: Example) -> str:
    """The value of an omitted field, in Markdown: that it is required, its documented default, or the value inferred in
    the base of its example, with the reason. Empty if unknown.
    """
    if field.required:
        return "it must be written"
    if example.left_out:
        return example.left_out
    if field.holds:
        return "as its keys say"
    module, path = of_base(example.base).modules[0], example.path()
    node: Any = as_data(module.spec)
    for step in path:
        if not isinstance(node, Mapping) or step not in node:
            return ""
        node = node[step]
    reason = _reason(module.inferred, path)
    return f"inferred; here `{shown(node)}`: {reason}" if reason else ""


def _reason(inferred: Mapping[Path, str], path: Path) -> str:
    """Why something was inferred at a path, or of what is inside of it."""
    inside = [why for where, why in inferred.items() if where[: len(path)] == path]
    return inferred.get(path) or "; ".join(dict.fromkeys(inside))


def shown(value: Any) -> str:
    """A value of a spec as a spec writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, str):
        return scalar(value, flow=False)
    return format_layout(value) if hasattr(value, "stride") else str(value)


def merged(base: Any, more: Any) -> Any:
    """A spec with what is added to it: mappings are put together, all else is replaced."""
    if isinstance(base, Mapping) and isinstance(more, Mapping):
        return {**base, **{name: merged(base.get(name), inner) for name, inner in more.items()}}
    return more


def dumped(spec: Mapping[str, Any]) -> str:
    """A spec's text."""
    return yaml.safe_dump(dict(spec), sort_keys=False)


def _but(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != name}
