"""Every field of the language has a meaning, a default and an example in the reference; each example has an effect."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from fields_kit import body, cases, expectation_failures, verdicts
from making import reference
from making.examples import Example, dumped, examples, left_out, merged, of_base
from making.fields import fields, takes

from cutegen.codegen import Generated, generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.schema import schema_text
from cutegen.measuring.shapes import shapes_of
from cutegen.planning.scalars import measured_scalars
from cutegen.tuning.space import make_space

NAMES = list(examples())


def names_of(node: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Every property of an object schema, with those of the objects in it."""
    for name, value in node.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from names_of(value, f"{prefix}{name}.")
        if isinstance(value.get("additionalProperties"), Mapping):
            yield from names_of(value["additionalProperties"], f"{prefix}{name}.")


def test_every_field_of_the_schema_is_on_a_page_with_an_example() -> None:
    schema = json.loads(schema_text())
    found = set(names_of(schema, ""))
    for name, definition in schema["definitions"].items():
        found |= set(names_of(definition, f"{name}.")) if not name.endswith("_case") else set()
    found |= {"case.for", "case.for.target", "case.for.align", "case.for.cost"}
    assert found == set(fields()) == set(NAMES)
    pages = reference.files()
    groups = [group for _, several, _ in reference.PAGES.values() for group in several]
    assert sorted(groups) == sorted({field.group for field in fields().values()})
    assert sum(page.count("- Example, in [") for page in pages.values()) == len(found)


@pytest.mark.parametrize("name", NAMES)
def test_a_field_says_what_it_means_takes_and_is_where_left_out(name: str) -> None:
    field, example = fields()[name], examples()[name]
    assert field.says.endswith(".") and len(field.says) > 8
    assert field.takes not in ("", "a value") and "any value" not in field.takes.replace("each of it any value", "")
    assert len(left_out(field, example)) > 3, "nothing infers it: say what it is in `left_out`"
    assert not (field.required and example.left_out), "it cannot be left out"
    if name == "schedule" or name.endswith("mma.atom"):  # of which more is to say
        return
    inferred = left_out(field, dataclasses.replace(example, left_out="")).startswith("inferred")
    assert not (example.left_out and inferred), "it is inferred, and need not be said"


def effects(name: str, generated: Generated, text: str) -> Iterator[object]:
    """All that a spec stands for, in the order in which it is asked for. What `cutegen tune` tries counts for its own
    key alone: whatever a schedule has written narrows it.
    """
    yield [body(module) for module in generated.modules]
    first = generated.modules[0]
    yield cases(first), shapes_of(first.spec), measured_scalars(first.spec)
    yield expectation_failures(first)
    if name == "tune":
        yield list(make_space(yaml.safe_load(text), (first.spec,)).schedules(0))
    yield verdicts(first)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_builds_and_makes_a_difference(name: str) -> None:
    pytest.importorskip("torch")
    example, base = examples()[name], examples()[name].base
    spec = merged(yaml.safe_load(base.text), yaml.safe_load(example.text))
    assert yaml.safe_load(example.text).keys() <= spec.keys()
    generated = example.generated()
    if fields()[name].required and differs_by_presence(name):
        with pytest.raises(SpecError, match="is missing"):
            generate(dumped(without(spec, example)), "k.yaml")
        return
    if example.same:
        assert [body(m) for m in generated.modules] == [body(m) for m in of_base(base).modules]
        assert_others_are_refused(example, spec)
        return
    pairs = zip(effects(name, generated, dumped(spec)), effects(name, of_base(base), base.text), strict=True)
    assert any(with_it != without_it for with_it, without_it in pairs)


def differs_by_presence(name: str) -> bool:
    """Whether what a field changes is that it is there: others that are required change the code, too."""
    return not name.endswith("workspace.major")


def without(spec: Mapping[str, Any], example: Example) -> dict[str, Any]:
    """A spec without the field of an example."""
    found = copy.deepcopy(dict(spec))
    node: Any = found
    *parents, last = example.path()
    for step in parents:
        node = node[step]
    del node[last]
    return found


def assert_others_are_refused(example: Example, spec: Mapping[str, Any]) -> None:
    """That a field takes one value in a spec: the others that it can have anywhere are refused there."""
    text = fields()[example.field].takes
    choices = [choice for choice in text.split("`")[1::2] if choice not in example.text]
    for choice in choices:
        other = copy.deepcopy(dict(spec))
        node: Any = other
        *parents, last = example.path()
        for step in parents:
            node = node[step]
        node[last] = choice
        with pytest.raises(SpecError):
            generate(dumped(other), "k.yaml")


def test_bounds_are_those_that_rules_hold_a_field_to() -> None:
    assert fields()["gemm_schedule.pipeline.stages"].takes == "a whole number from 2 to 32"
    assert fields()["gemm_wgmma_schedule.pipeline.stages"].takes == "a whole number from 1 to 16"


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 64}, "a whole number from 1 to 64"),
        ({"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "a whole number from 0 on"),
        ({"anyOf": [{"enum": ["a", "b"]}, {"$ref": "#"}]}, "one of `a`, `b`"),
        ({"type": "array", "items": {"type": "string"}}, "a list; each of it a text"),
        ({"type": "object", "additionalProperties": {"enum": ["x"]}}, "a mapping from names to `x`"),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, "a mapping of the keys below"),
    ],
)
def test_what_may_stand_at_a_place_is_said_in_words(node: Mapping[str, Any], said: str) -> None:
    assert takes(node) == said
