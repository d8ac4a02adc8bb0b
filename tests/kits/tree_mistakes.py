"""Trees of statements with one mistake each, made by rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from cutegen.parts import barriers, copying, moving, opening, tensor_products
from cutegen.parts.declared import Barriers, Buffer
from cutegen.parts.statements import Body, Elected, For, If, Let, Statement


@dataclass(frozen=True)
class Mistake:
    """A tree in which one statement was exchanged: what kind of statement, what is wrong, and the statement."""

    kind: str
    what: str
    statement: Statement
    tree: Body

    def __str__(self) -> str:
        return f"{self.kind}, {self.what}: {self.statement}"


def mistakes(tree: Body) -> Iterator[Mistake]:
    """The trees that differ from one by a mistake in one statement."""
    for number, statement in enumerate(_walked(tree)):
        for what, instead in _wrong(statement):
            assert instead != (statement,), "a mistake changes something"
            yield Mistake(type(statement).__name__, what, statement, _with(tree, number, instead))


def about(mistake: Mistake) -> tuple[str, str, str]:
    """The kind of statement, what is wrong with it, and what it is of."""
    one = mistake.statement
    names = ("barriers", "buffer", "targets", "number", "but", "after")
    found = next((getattr(one, name) for name in names if hasattr(one, name)), "")
    found = found.name if isinstance(found, Barriers) else found.variable if isinstance(found, Buffer) else found
    return mistake.kind, mistake.what, str(found)


def of_each_kind(tried: Sequence[Mistake]) -> list[Mistake]:
    """The first mistake of each kind of statement, of what is wrong with it, and of what it is of."""
    return list({about(one): one for one in reversed(tried)}.values())


def _bodies(statement: Statement) -> Iterator[tuple[str, Body]]:
    for field in fields(statement):
        value = getattr(statement, field.name)
        if isinstance(value, tuple) and value and isinstance(value[0], Statement):
            yield field.name, value


def _walked(tree: Sequence[Statement]) -> Iterator[Statement]:
    for statement in tree:
        yield statement
        for _, body in _bodies(statement):
            yield from _walked(body)


def _with(tree: Body, number: int, instead: Sequence[Statement]) -> Body:
    """The tree with others instead of the statement of that number, as `_walked` counts."""
    places = iter(range(1 << 30))

    def changed(body: Sequence[Statement]) -> Body:
        found: list[Statement] = []
        for statement in body:
            place = next(places)
            inner = {name: changed(own) for name, own in _bodies(statement)}
            found += instead if place == number else [replace(statement, **inner)]
        return tuple(found)

    return changed(tree)


_MAY_BE_MISSING = (
    *(barriers.Wait, barriers.Expect, barriers.Arrive, barriers.Meet, barriers.ClusterArrive, barriers.ClusterWait),
    *(
        moving.Send,
        moving.Add,
        moving.Load,
        moving.Multiply,
        moving.Drain,
        moving.Fence,
        moving.Stored,
        moving.CommitStores,
    ),
    *(opening.Allocate, opening.AllocateBarriers, opening.Initialise, opening.FenceInitialised),
    *(tensor_products.AllocateColumns, tensor_products.FreeColumns, tensor_products.StartProducts),
    *(tensor_products.Commit, tensor_products.LoadColumns, tensor_products.WaitLoads, tensor_products.TensorFence),
)
_OF_BLOCK = (
    *(opening.SyncThreads, copying.CopyTile, copying.CopyToRegisters, copying.CopyFromRegisters),
    *(copying.CpAsyncCommitGroup, copying.CpAsyncWaitGroup, copying.ReadFragment, copying.ConvertFragment),
    *(copying.MultiplyAdd, copying.StoreSums),
)
_OF_ALL = (
    *(barriers.Wait, barriers.Meet, moving.Multiply, moving.Drain, moving.Fence, moving.Write),
    *(tensor_products.StartProducts, tensor_products.AllocateColumns, tensor_products.FreeColumns),
    *(tensor_products.LoadColumns, tensor_products.WaitLoads, tensor_products.TensorFence),
)
_COUNTED = ("before", "stage", "source", "step", "exchange", "rotation", "smem_read", "smem_write")

_IS_LEFT = ("fetch < k_tiles", "k_tile < k_tiles")


def _wrong(one: Statement) -> Iterator[tuple[str, tuple[Statement, ...]]]:
    """The mistakes of a statement, in words, each with the statement that replaces it."""
    if isinstance(one, _OF_BLOCK):
        yield "by some threads", (If("tidx % 32 == 0", (one,)),)
        yield "by one warp", (If("warp_idx == 0", (one,)),)
    if isinstance(one, (*_MAY_BE_MISSING, *_OF_BLOCK)) or isinstance(one, Let) and one.targets in _COUNTED:
        yield "left out", ()
    if isinstance(one, _OF_ALL):
        yield "by some threads", (If("tidx % 32 == 0", (one,)),)
        yield "by some warps", (If("tidx % 128 < 64", (one,)),)
    if isinstance(one, If | For):
        yield from _committed_where_copied(one)
        yield from _committed_early(one)
    match one:
        case barriers.Wait():
            yield "other parity", (replace(one, parity=f"1 - ({one.parity})"),)
            if one.index != "0":
                yield "another barrier", (replace(one, index="0"),)
        case barriers.Expect():
            yield "a byte more", (replace(one, bytes=f"{one.bytes} + 1"),)
            yield "half of the bytes", (replace(one, bytes=f"{one.bytes} // 2"),)
            yield "twice", (one, one)
        case barriers.Arrive():
            yield "twice", (one, one)
            if one.index != "0":
                yield "another barrier", (replace(one, index="0"),)
            if one.peer:
                yield "at home only", (replace(one, peer=""),)
        case barriers.Meet():
            yield "a warp less", (replace(one, threads=one.threads - 32),)
            yield "waits not" if one.waits else "waits", (replace(one, waits=not one.waits),)
        case opening.Allocate(buffer):
            yield "a copy less", (replace(one, buffer=replace(buffer, copies=f"{buffer.copies} - 1")),)
            if buffer.variable != "sA":
                yield "in the place of A", (opening.Overlay(replace(buffer, within="sA")),)
        case opening.AllocateBarriers(array):
            yield "one less", (replace(one, barriers=replace(array, length=f"({array.length}) - 1")),)
        case opening.Initialise(array):
            yield "an arrival less", (replace(one, barriers=replace(array, arrivals=f"({array.arrivals}) - 1")),)
            yield "an arrival more", (replace(one, barriers=replace(array, arrivals=f"({array.arrivals}) + 1")),)
            yield "twice", (one, one)
        case If(condition="tidx == 0"):
            yield "by no thread", (replace(one, condition="tidx < 0"),)
            yield "by several threads", (replace(one, condition="tidx % 128 == 0"),)
        case tensor_products.StartProducts():
            yield "always adds", (replace(one, adds="True"),)
            yield "never adds", (replace(one, adds="False"),)
            yield "of another stage", (replace(one, stage="0"),)
        case tensor_products.Commit():
            yield "twice", (one, one)
            if one.index != "0":
                yield "another barrier", (replace(one, index="0"),)
        case Elected(body=(tensor_products.Commit(),)):
            yield "by all threads", one.body
        case tensor_products.TensorFence():
            yield "of the other kind", (replace(one, after=not one.after),)
        case Let(targets="k_tiles" | "k_first" | "tiles"):
            yield "one less", (replace(one, value=f"({one.value}) - 1"),)
            yield "one more", (replace(one, value=f"({one.value}) + 1"),)
        case moving.Drain():
            yield "one group less", (replace(one, but=one.but + 1),)
        case moving.Stored():
            yield "one group less", (replace(one, but=f"{one.but} + 1"),)
        case moving.Partition() if one.among != "1":
            yield "of the first block", (replace(one, rank="0"),)
            yield "of one block", (replace(one, rank="0", among="1"),)
        case Let(targets="place"):
            yield "of the next block", (replace(one, value=f"{one.value} + 1"),)
        case moving.Send():
            yield "the first vector", (replace(one, vector="0"),)
        case moving.Store():
            yield "of another buffer", (replace(one, cell=f"{one.cell} ^ 1"),)
        case moving.Load():
            yield "to another cell", (replace(one, cell="0"),)
            if one.mask:
                yield "for one block", (replace(one, mask="1"),)
        case copying.CpAsyncWaitGroup():
            yield "one group less", (replace(one, but=f"{one.but} + 1"),)
        case copying.CopyTile():
            yield "of the next tile", (replace(one, tile=f"({one.tile} + 1) % k_tiles"),)
            yield "to the next stage", (replace(one, stage=f"({one.stage} + 1) % STAGES"),)
        case copying.CopyToRegisters():
            yield "of the next tile", (replace(one, tile=f"({one.tile} + 1) % k_tiles"),)
            if one.pred.endswith("_next"):
                yield "past the end", (replace(one, pred=""),)
        case copying.CopyFromRegisters():
            yield "to the next stage", (replace(one, stage=f"({one.stage} + 1) % STAGES"),)
        case copying.ReadFragment():
            yield "of the next stage", (replace(one, stage=f"({one.stage} + 1) % STAGES"),)
            yield "of the same k", (replace(one, k="0" if one.k != "0" else "1"),)
        case copying.ConvertFragment():
            yield "of the same k", (replace(one, k="0" if one.k != "0" else "1"),)
        case copying.MultiplyAdd():
            yield "twice", (one, one)
            yield "of another k", (replace(one, k="k_next"),)
        case For(variable="k_tile", over=over):
            end = next(name for name in ("STAGES - 1", "k_tiles", "K_TILES") if name in over)
            for what, step in (("short", "- 1"), ("long", "+ 1")):
                yield f"a tile {what}", (replace(one, over=over.replace(end, f"{end} {step}")),)
        case If(condition=condition) if condition in _IS_LEFT:
            yield "a tile more", (replace(one, condition=condition.replace("<", "<=")),)
            yield "a tile less", (replace(one, condition=f"{condition} - 1"),)
        case If(condition=condition) if condition.startswith("cutlass.const_expr(k_block =="):
            if condition.endswith("- 1)"):
                yield "a step early", (replace(one, condition=f"{condition[:-1]} - 1)"),)
            elif not any(isinstance(inner, copying.CopyFromRegisters) for inner in _walked((one,))):
                yield "at the last step", (replace(one, condition="k_next == 0"),)
        case Let(targets="smem_next", value=value):
            yield "without turning back", (replace(one, value="smem_read + 1"),)
            yield "a stage early", (replace(one, value=value.replace("< STAGES", "< STAGES - 1")),)
        case Let(targets="fetch", value=value):
            yield "a tile further", (replace(one, value=f"{value} + 1"),)
            yield "a tile nearer", (replace(one, value=f"{value} - 1"),)
        case If(condition="stage == STAGES"):
            yield "a stage early", (replace(one, condition="stage == STAGES - 1"),)
            yield "a stage late", (replace(one, condition="stage == STAGES + 1"),)
        case If(condition="tile + clusters < tiles"):
            yield "of one cluster", (replace(one, condition="tile // clusters + 1 < tiles // clusters"),)
        case If(condition=condition) if condition.startswith("k_tile > 0 and"):
            yield "at once", (replace(one, condition=condition.removeprefix("k_tile > 0 and ")),)
        case Let(targets="stage, phase", value=value) if "k_tiles" in value:
            yield "as if alone", (replace(one, value="cutlass.Int32(0), cutlass.Int32(0)"),)
            for most in (1, 2):
                fewer = re.sub(r"(\([^()]*k_tiles\)|group \* k_tiles) // STAGES", rf"min(\1 // STAGES, {most})", value)
                yield f"at most {most} rounds", (replace(one, value=fewer),)
        case Let(targets="stage, phase", value="cutlass.Int32(0), cutlass.Int32(0)"):
            yield "in the second phase", (replace(one, value="cutlass.Int32(0), cutlass.Int32(1)"),)


def _committed_where_copied(one: If | For) -> Iterator[tuple[str, tuple[Statement, ...]]]:
    """Where a body makes a group of copies whether or not it has made any: a group only if it has."""
    copies = [place for place, inner in enumerate(one.body) if isinstance(inner, If) and inner.condition in _IS_LEFT]
    commits = [place for place, inner in enumerate(one.body) if isinstance(inner, copying.CpAsyncCommitGroup)]
    for copy, commit in zip(copies, commits, strict=False):
        body = list(one.body)
        body[copy] = replace(body[copy], body=(*one.body[copy].body, body.pop(commit)))  # type: ignore[attr-defined, call-arg]
        yield "commits only where it copies", (replace(one, body=tuple(body)),)


def _committed_early(one: If | For) -> Iterator[tuple[str, tuple[Statement, ...]]]:
    """Where a body commits products that it starts: the commit before them."""
    for place, inner in enumerate(one.body):
        if isinstance(inner, Elected) and isinstance(inner.body[0], tensor_products.Commit):
            for before in range(place):
                if isinstance(one.body[before], tensor_products.StartProducts):
                    body = list(one.body)
                    body.insert(before, body.pop(place))
                    yield "commits before it multiplies", (replace(one, body=tuple(body)),)
