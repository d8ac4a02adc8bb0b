"""Receipts as text and back, merging, and that nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from receipts_kit import MACHINE, measured

from cutegen.measuring.model import KernelResult, Limits, Measured, Timing
from cutegen.receipts.receipt import Receipt, Verified, VerifiedCase, merge, same_state, slug
from cutegen.receipts.receipt_text import MARK, ReceiptError, digest, parse, schema, text
from cutegen.verification import Case, CaseReport, HostCheck, KernelReport

BODY = "0" * 64
positive = st.floats(1e-3, 1e7)
small = st.floats(0, 1e3)
names = st.text("abcdef.-_ é", min_size=1, max_size=8)
timings = st.builds(Timing, positive, small, st.integers(1, 100))
shapes = st.builds(lambda m, n: {"M": m, "N": n}, st.integers(0, 9), st.integers(0, 1 << 40))
figures = st.builds(
    Measured,
    shape=shapes,
    timing=timings,
    peers=st.dictionaries(names, timings, max_size=3),
    absent=st.dictionaries(names, names, max_size=2),
    bytes=st.integers(0, 1 << 50),
    operations=st.integers(0, 1 << 53),
    limit_us=st.none() | positive,
    l2=st.sampled_from(["cold", "warm"]),
    error=st.none() | small,
    bound=st.none() | small,
    ratio=st.none() | small,
)
cases = st.builds(VerifiedCase, names, shapes, names, names, small, small, st.floats(0, 1))
verified = st.builds(
    Verified, st.lists(cases, min_size=1, max_size=3).map(tuple), st.integers(0, 99), st.integers(0, 9)
)


def keyed(found: list[Measured]) -> tuple[Measured, ...]:
    """Each shape once for each state of the L2, as one run measures them."""
    return tuple({(tuple(m.shape.items()), m.l2): m for m in found}.values())


EMPTY = Receipt.empty("one", "specs/one.yaml", BODY, MACHINE)
receipts = st.builds(
    replace,
    st.just(EMPTY),
    code_hash=st.sampled_from([BODY, "1" * 64]),
    versions=st.sampled_from([EMPTY.versions, {**EMPTY.versions, "driver": "9"}]),
    gpu=st.sampled_from([EMPTY.gpu, replace(EMPTY.gpu, sms=13)]),
    verified=st.none() | verified,
    measured=st.lists(figures, max_size=4).map(keyed),
    limits=st.none() | st.builds(Limits, positive, positive, positive, st.none() | positive),
)


def of(*shapes: Measured, **more: Any) -> Receipt:
    return replace(EMPTY, measured=shapes or (measured(),), **more)


@given(receipts)
@settings(max_examples=100)
def test_what_is_read_back_is_what_was_written(receipt: Receipt) -> None:
    written = text(receipt)
    again = parse(written.encode())
    assert text(again) == written and written.endswith("}\n")
    assert (again.kernel, again.gpu, again.versions) == (receipt.kernel, receipt.gpu, receipt.versions)
    found = {(tuple(m.shape.items()), m.l2): m for m in again.measured}
    assert len(found) == len(receipt.measured)
    for one in receipt.measured:
        other = found[tuple(one.shape.items()), one.l2]
        assert (other.bytes, other.operations, list(other.peers)) == (one.bytes, one.operations, list(one.peers))
        assert other.timing.us == pytest.approx(one.timing.us, rel=1e-4)
        assert [t.us for t in other.peers.values()] == pytest.approx([t.us for t in one.peers.values()], rel=1e-4)


@given(receipts, st.randoms())
@settings(max_examples=30)
def test_the_order_in_which_shapes_were_measured_changes_no_byte(receipt: Receipt, random: Any) -> None:
    shuffled = list(receipt.measured)
    random.shuffle(shuffled)
    assert text(replace(receipt, measured=tuple(shuffled))) == text(receipt)


@given(receipts)
@settings(max_examples=30)
def test_a_formatter_changes_nothing(receipt: Receipt) -> None:
    written = text(receipt)
    for again in (
        json.dumps(json.loads(written), indent=7, sort_keys=True),
        json.dumps(json.loads(written, parse_int=float)),
        written.replace("\n", "\r\n"),
        "\ufeff" + written,
    ):
        assert parse(again.encode()) == parse(written.encode())


def test_a_shape_is_a_line() -> None:
    before, after = (text(of(measured(us=us), measured({"M": 9, "N": 9}))).splitlines() for us in (10.0, 11.0))
    changed = [line for line in after if line not in before]
    assert len(changed) == 2 and '"digest"' in changed[0] and '"us": 11' in changed[1]


def test_figures_are_rounded_to_what_they_are_worth() -> None:
    written = text(of(measured(us=66.123456789, error=1.23456e-7, limit_us=None)))
    (one,) = json.loads(written)["measured"]
    assert one["timing"]["us"] == 66.123 and one["error"] == 1.23e-7 and one["limit_us"] is None


@given(receipts, receipts)
def test_merging(old: Receipt, new: Receipt) -> None:
    both = merge(old, new)
    assert merge(new, new) == new == merge(None, new) and merge(both, new) == both
    if not same_state(old, new):
        assert both == new
        return
    key = {(tuple(m.shape.items()), m.l2): m for m in (*old.measured, *new.measured)}
    assert list(both.measured) == list(key.values())
    assert both.verified == (new.verified or old.verified) and both.limits == (new.limits or old.limits)


@pytest.mark.parametrize("what", ["kernel", "code_hash", "gpu", "versions"])
def test_another_state_of_the_world_replaces_everything(what: str) -> None:
    other = {
        "kernel": "two",
        "code_hash": "2" * 64,
        "gpu": replace(EMPTY.gpu, name="NVIDIA Test 10"),
        "versions": {**EMPTY.versions, "torch": "9.9"},
    }
    old, new = of(measured({"M": 1, "N": 1})), of(measured({"M": 2, "N": 2}))
    assert [m.shape["M"] for m in merge(old, new).measured] == [1, 2]
    changed = replace(new, **{what: other[what]})
    assert merge(old, changed) == changed


def test_a_warm_and_a_cold_figure_of_a_shape_stand_side_by_side() -> None:
    cold, warm = measured(us=10), measured(us=7, l2="warm")
    assert merge(of(cold), of(warm)).measured == (cold, warm)
    assert merge(of(cold, warm), of(replace(warm, bytes=3))).measured == (cold, replace(warm, bytes=3))


def test_any_change_of_a_figure_is_an_edit() -> None:
    """Every leaf of the data, one after the other."""
    data = json.loads(text(of(measured(), verified=Verified((VerifiedCase("a", {"M": 1}, "b", "c", 0, 1, 0),), 3, 0))))

    def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        return [path] if pairs is None else [leaf for key, v in pairs for leaf in leaves(v, (*path, key))]

    found = leaves(data)
    assert len(found) > 30
    for path in found:
        changed = json.loads(json.dumps(data))
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        old = parent[path[-1]]
        parent[path[-1]] = old + 1 if isinstance(old, int | float) else "warm" if old == "cold" else f"{old}x"
        with pytest.raises(ReceiptError) as error:
            parse(json.dumps(changed).encode())
        by_schema = path[-1] in (MARK, "digest", "code_hash", "capability", "limits")
        assert error.value.edited or by_schema, path


BROKEN = {
    "empty": (b"", "not JSON"),
    "a merge conflict": (text(of()).replace('  "kernel"', '<<<<<<< HEAD\n  "kernel"').encode(), "not JSON: .* line 4"),
    "cut short": (text(of()).encode()[:-40], "not JSON"),
    "a list": (b"[]", "it: .* is not of type 'object'"),
    "no bytes of text": (b"\xff\xfe{}", "codec"),
    "deep": (b"[" * 100_000, "JSON"),
    "twice": (
        text(of()).replace('"kernel": "one"', '"kernel": "one", "kernel": "one"').encode(),
        '"kernel" occurs twice',
    ),
    "not a number": (text(of()).replace('"us": 10', '"us": NaN').encode(), "NaN"),
    "too large": (text(of()).replace('"us": 10', '"us": 1e999').encode(), "1e999"),
    "newer": (text(of()).replace(f'"{MARK}": 2', f'"{MARK}": 3').encode(), "version 3, and this cutegen reads 2"),
    "negative": (text(of()).replace('"us": 10', '"us": -10').encode(), r"measured\[0\]\.timing\.us: -10"),
    "more": (text(of()).replace('"kernel"', '"note": 1,\n"kernel"').encode(), "note"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_no_receipt_says_why(what: str) -> None:
    data, message = BROKEN[what]
    with pytest.raises(ReceiptError, match=message) as error:
        parse(data)
    assert not error.value.edited and len(str(error.value)) < 400


def test_nothing_is_written_that_could_not_be_read() -> None:
    for wrong in (measured(us=0.0), measured(us=float("nan")), measured(us=float("inf")), measured(l2="tepid")):
        with pytest.raises(ReceiptError):
            text(of(wrong))
    with pytest.raises(ReceiptError, match="versions"):
        text(replace(EMPTY, versions={}))


def test_the_schema_is_draft_7_and_names_every_field() -> None:
    Draft7Validator.check_schema(schema())
    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert set(schema()["properties"]) == {MARK, "digest"} | {f.name for f in fields(Receipt)}
    for name, model in {"measured": Measured, "timing": Timing, "case": VerifiedCase}.items():
        definition = schema()["definitions"][name]
        assert set(definition["properties"]) == set(definition["required"]) == {f.name for f in fields(model)}


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1.0, {"c": 2, "d": 3}]}) == digest({"b": [1, {"d": 3, "c": 2}], "a": 1.0})
    assert digest({"a": 1}) != digest({"a": 2}) != digest({"b": 2})


def test_the_folder_of_a_gpu() -> None:
    assert slug("NVIDIA H200") == "nvidia-h200" and slug("NVIDIA GeForce RTX 5090") == "nvidia-geforce-rtx-5090"
    assert slug("../..") == "gpu" and "/" not in slug("a/b\\c")
    assert of().place == "nvidia-test-9/one.json"


def test_of_a_measurement() -> None:
    made = Receipt.of(
        "specs/one.yaml", MACHINE, KernelResult("one", BODY, (measured(),), (), {"call": Timing(4, 0.1, 30)})
    )
    assert made.limits == MACHINE.limits and made.versions == {"cutegen": "0.0", "driver": "1.2", "torch": "3.4"}
    assert made.measured == (measured(),) and made.verified is None


def test_of_a_verification() -> None:
    case = Case("tile", "why", {"M": 3})
    passed = replace(CaseReport.of(case, "passed"), max_error=1e-7, max_bound=1e-6, ratio=0.25)
    idle = CaseReport.of(case, "not run", "too large")
    checks = (HostCheck("a", "is refused", "passed"), HostCheck("a", "is taken", "not run"))
    report = KernelReport("one", "one.py", "gpu (Test)", (passed, idle), checks)
    found = Verified.of(report)
    assert (found.host_checks, found.not_run) == (1, 2)
    assert [(c.case, dict(c.shape), c.error, c.bound, c.ratio) for c in found.cases] == [
        ("tile", {"M": 3}, 1e-7, 1e-6, 0.25)
    ]
    with pytest.raises(ValueError, match="did not pass"):
        Verified.of(replace(report, cases=(passed, replace(idle, status="failed"))))
