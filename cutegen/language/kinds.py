"""The kinds of values that keys of a spec take, each defined once.

A field of the model declares its kind and its meaning in words with `key`. From these follow the JSON Schema, reading
YAML's data into the model, writing the model as data again, and forgetting what planning filled in. Nothing else keeps
a list of a dataclass's fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any

from tensor_layouts import Layout

from cutegen.dtypes import Dtype
from cutegen.expressions.places import ONE
from cutegen.language.values import ValueReader

Path = tuple[str | int, ...]
IsWritten = Callable[[Path], bool]  # whether something stands at a path of the text
MAX_INT = 2**31 - 1
PLACEHOLDER = {"$ref": "#/definitions/placeholder"}
_KEY = "key"  # of a dataclass field's metadata


@dataclass(frozen=True)
class Key:
    """A field's kind, its meaning in a sentence or two, and how it is written."""

    kind: Kind
    says: str
    required: bool
    block: bool  # written with a line for each entry, instead of in braces
    name: str | None = None  # as specs write it, where the field has another name


def key(
    kind: Kind,
    says: str,
    *,
    default: Any = None,
    factory: Callable[[], Any] | None = None,
    required: bool = False,
    block: bool = False,
    name: str | None = None,
) -> Any:
    """A dataclass field that is a key of the language. `default` is its value where the key is left out, or `factory`
    makes it; a `required` one with the default MISSING must also be given to the dataclass. `name` is that of the key,
    if it is not the field's."""
    metadata = {_KEY: Key(kind, says, required, block, name)}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def keys_of(record: type) -> dict[str, Key]:
    """The keys of a dataclass in its order, which is that of the language, by name."""
    return {key_name(f): f.metadata[_KEY] for f in fields(record) if _KEY in f.metadata}


def key_name(f: Field[Any]) -> str:
    """The name of the key that a dataclass field is."""
    return f.metadata[_KEY].name or f.name


def block_paths(record: type, above: Path = ()) -> set[Path]:
    """Where a dataclass and those inside of it have mappings that are written with a line for each entry."""
    found: set[Path] = set()
    for name, own in keys_of(record).items():
        path = (*above, name)
        found |= {path} if own.block else set()
        if isinstance(own.kind, Record):
            found |= block_paths(own.kind.record, path)
    return found


class Kind(ABC):
    """A kind of value: what the schema lets stand there, and the way to and from the model."""

    @abstractmethod
    def schema(self, says: str) -> dict[str, Any]:
        """The JSON Schema of a value that means what `says` says."""

    def read(self, value: Any, ctx: ValueReader, path: Path) -> Any:
        """The model's value of data that the schema allows, None where, once said to `ctx`, it cannot be used."""
        return value

    def write(self, value: Any) -> Any:
        """The data that `read` makes this value of; layouts and counts stay as they are, for the writer to print."""
        return value

    def as_written(self, value: Any, path: Path, is_written: IsWritten) -> Any:
        """The value at a path that was written, without the parts of it that were not."""
        return value


def _or_placeholder(says: str, **typed: Any) -> dict[str, Any]:
    return {"description": says, "anyOf": [typed, dict(PLACEHOLDER)]}


@dataclass(frozen=True)
class Text(Kind):
    """A text, with bounds on its length."""

    least: int | None = None
    most: int | None = None

    def schema(self, says: str) -> dict[str, Any]:
        bounds = {"minLength": self.least, "maxLength": self.most}
        return {"description": says, "type": "string", **{k: v for k, v in bounds.items() if v is not None}}


@dataclass(frozen=True)
class ModeName(Kind):
    """The name of a mode, or the number 1 for one that has no name, along which a tensor broadcasts. In an argument
    that has views it may be a size that is computed, or a number.
    """

    def schema(self, says: str) -> dict[str, Any]:
        return {"description": says, "type": ["string", "integer"], "minimum": 1, "maximum": MAX_INT}

    def read(self, value: str | int, ctx: ValueReader, path: Path) -> str:
        return str(value)

    def write(self, value: str) -> str | int:
        return int(value) if value.isdigit() else value


@dataclass(frozen=True)
class Scalars(Kind):
    """A text, a number or a truth value, as a matrix lists them."""

    def schema(self, says: str) -> dict[str, Any]:
        return {"description": says, "type": ["string", "number", "boolean"], "maxLength": 64}


@dataclass(frozen=True)
class Integer(Kind):
    """A whole number within bounds, both included.

    `told` are the narrower bounds of a rule, which says more about values between: values beyond all bounds get these
    in the message, and a number that may work.
    """

    least: int = 1
    most: int = MAX_INT
    told: tuple[int, int, int] | None = None

    def schema(self, says: str) -> dict[str, Any]:
        return _or_placeholder(says, type="integer", minimum=self.least, maximum=self.most)


@dataclass(frozen=True)
class Number(Kind):
    """A number from 0 on, or with `signed` any."""

    signed: bool = False

    def schema(self, says: str) -> dict[str, Any]:
        return _or_placeholder(says, type="number", **({} if self.signed else {"minimum": 0}))

    def read(self, value: Any, ctx: ValueReader, path: Path) -> Any:
        return float(value)


@dataclass(frozen=True)
class Choice(Kind):
    """One of some words or numbers."""

    choices: tuple[str | int, ...]
    placeholder: bool = True  # whether a matrix may choose

    def schema(self, says: str) -> dict[str, Any]:
        if not self.placeholder:
            return {"description": says, "enum": list(self.choices)}
        return _or_placeholder(says, enum=list(self.choices))


@dataclass(frozen=True)
class DtypeName(Kind):
    """The name of one of some element types; by default of any."""

    choices: tuple[Dtype, ...] = tuple(Dtype)

    def schema(self, says: str) -> dict[str, Any]:
        return _or_placeholder(says, enum=[dtype.value for dtype in self.choices])

    def read(self, value: Any, ctx: ValueReader, path: Path) -> Any:
        return Dtype(value)

    def write(self, value: Any) -> Any:
        return value.value


@dataclass(frozen=True)
class LayoutText(Kind):
    """A layout in CuTe's notation. Unless `numbers` is false it numbers its places, so it must be a permutation."""

    numbers: bool = True
    example: str = "(4,32):(32,1)"

    def schema(self, says: str) -> dict[str, Any]:
        notation = (
            f"{says} In CuTe's notation, `{self.example}`; strides left out mean compact, first mode fastest. "
            "Quote it inside { }."
        )
        return {"description": notation, "type": ["string", "integer"], "minimum": 1, "maximum": MAX_INT}

    def read(self, value: Any, ctx: ValueReader, path: Path) -> Layout | None:
        return ctx.layout(value, *path, injective=self.numbers)


@dataclass(frozen=True)
class CountText(Kind):
    """A number, or a bound on one such as `>= 512`."""

    def schema(self, says: str) -> dict[str, Any]:
        pattern = r"^\s*(==|!=|>=|<=|>|<)?\s*([0-9]{1,10}|\{[A-Za-z_][A-Za-z0-9_]*\})\s*$"
        text = f"{says} A number, or a bound such as `>= 512` (==, !=, >=, <=, >, <)."
        kinds = {"type": ["integer", "string"], "minimum": 0, "maximum": MAX_INT, "pattern": pattern}
        return {"description": text, **kinds}

    def read(self, value: Any, ctx: ValueReader, path: Path) -> Any:
        return ctx.count(value, *path)


@dataclass(frozen=True)
class Record(Kind):
    """A mapping whose keys are those of a dataclass."""

    record: type

    def schema(self, says: str) -> dict[str, Any]:
        own = keys_of(self.record)
        found: dict[str, Any] = {"description": says, "type": "object", "additionalProperties": False}
        found["properties"] = {name: k.kind.schema(k.says) for name, k in own.items()}
        required = [name for name, k in own.items() if k.required]
        return {**found, "required": required} if required else found

    def read(self, value: Mapping[str, Any], ctx: ValueReader, path: Path, **more: Any) -> Any:
        """`more` are fields of the dataclass that are no keys."""
        given = {}
        for f in (f for f in fields(self.record) if _KEY in f.metadata):
            if (name := key_name(f)) in value:
                given[f.name] = f.metadata[_KEY].kind.read(value[name], ctx, (*path, name))
        return self.record(**given, **more)

    def write(self, value: Any) -> dict[str, Any]:
        data = {}
        for f in fields(self.record):
            if _KEY not in f.metadata:
                continue
            own, inner = f.metadata[_KEY], getattr(value, f.name)
            if inner is None or not own.required and inner == default_of(f):
                continue
            written = own.kind.write(inner)
            if written not in ({}, [], "") or own.required:
                data[key_name(f)] = written
        return data

    def as_written(self, value: Any, path: Path, is_written: IsWritten) -> Any:
        changed: dict[str, Any] = {}
        for f in fields(self.record):
            if _KEY not in f.metadata:
                continue
            inner, where, kind = getattr(value, f.name), (*path, key_name(f)), f.metadata[_KEY].kind
            if inner is None or isinstance(inner, str) and f.default is MISSING:
                continue
            if isinstance(kind, Record):
                changed[f.name] = kind.as_written(inner, where, is_written)
            elif isinstance(kind, ByName):
                changed[f.name] = kind.as_written(inner, where, is_written) or default_of(f)
            else:
                changed[f.name] = kind.as_written(inner, where, is_written) if is_written(where) else default_of(f)
        return replace(value, **changed)


def default_of(f: Field[Any]) -> Any:
    """The default value of a dataclass field; MISSING for a required one."""
    return f.default_factory() if f.default_factory is not MISSING else f.default


@dataclass(frozen=True)
class ByName(Kind):
    """A mapping from names, of modes or tensors, to values of one kind; `each_says` what such a value means."""

    each: Kind
    each_says: str
    least: int | None = None
    most: int | None = None

    def schema(self, says: str) -> dict[str, Any]:
        bounds = {"minProperties": self.least, "maxProperties": self.most}
        found = {"description": says, "type": "object", "additionalProperties": self.each.schema(self.each_says)}
        return {**found, **{k: v for k, v in bounds.items() if v is not None}}

    def read(self, value: Mapping[str, Any], ctx: ValueReader, path: Path) -> dict[str, Any]:
        found = {name: self.each.read(inner, ctx, (*path, name)) for name, inner in value.items()}
        return {name: inner for name, inner in found.items() if inner is not None}

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.each.write(inner) for name, inner in value.items()}

    def as_written(self, value: Mapping[str, Any], path: Path, is_written: IsWritten) -> dict[str, Any]:
        return {
            name: self.each.as_written(inner, (*path, name), is_written)
            for name, inner in value.items()
            if is_written((*path, name))
        }


@dataclass(frozen=True)
class Sizes(ByName):
    """Sizes of modes; that of a 1 is said by the shape."""

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return super().write({name: size for name, size in value.items() if name != ONE})


def kind_at(record: type, path: Path) -> Kind | None:
    """The kind of value that may stand at a path below a dataclass; None where it has no such key."""
    kind: Kind | None = Record(record)
    for step in path:
        if isinstance(kind, Record):
            own = keys_of(kind.record).get(str(step))
            kind = own.kind if own else None
        else:
            kind = kind.each if isinstance(kind, ByName | Items) else None
    return kind


@dataclass(frozen=True)
class Named(Kind):
    """A mapping from names to records that know their names: a tuple of them in the model.

    `reference` is the schema's definition that says what one of them looks like.
    """

    record: type
    reference: str
    least: int | None = None
    most: int | None = None

    def schema(self, says: str) -> dict[str, Any]:
        bounds = {"minProperties": self.least, "maxProperties": self.most}
        entry = {"$ref": f"#/definitions/{self.reference}"}
        found = {"description": says, "type": "object", "additionalProperties": entry}
        return {**found, **{k: v for k, v in bounds.items() if v is not None}}

    def read(self, value: Mapping[str, Any], ctx: ValueReader, path: Path) -> tuple[Any, ...]:
        kind = Record(self.record)
        return tuple(kind.read(inner, ctx, (*path, name), name=name) for name, inner in value.items())

    def write(self, value: Sequence[Any]) -> dict[str, Any]:
        return {one.name: Record(self.record).write(one) for one in value}


@dataclass(frozen=True)
class Items(Kind):
    """A list of values of one kind; `each_says` what one of them means."""

    each: Kind | None
    each_says: str = ""
    least: int | None = None
    most: int | None = None
    different: bool = False

    def schema(self, says: str) -> dict[str, Any]:
        bounds = {"minItems": self.least, "maxItems": self.most}
        found: dict[str, Any] = {"description": says, "type": "array"}
        found |= {k: v for k, v in bounds.items() if v is not None}
        if self.each is not None:
            items = self.each.schema(self.each_says)
            found["items"] = items if self.each_says else {k: v for k, v in items.items() if k != "description"}
        return {**found, "uniqueItems": True} if self.different else found

    def read(self, value: Sequence[Any], ctx: ValueReader, path: Path) -> tuple[Any, ...]:
        if self.each is None:
            return tuple(value)
        return tuple(self.each.read(inner, ctx, (*path, i)) for i, inner in enumerate(value))

    def write(self, value: Sequence[Any]) -> list[Any]:
        return list(value) if self.each is None else [self.each.write(inner) for inner in value]
