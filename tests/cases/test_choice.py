"""The `launch` of a module takes the case that a call is for: its text is run on calls that tell cases apart."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from cutegen.cases.calls import Call, calls, taken
from cutegen.codegen import generate
from cutegen.language.cases import Conditions, SizeIs
from cutegen.language.diagnostics import SpecError

TARGETS = ("sm_80", "sm_90a", "sm_100a")
TEXT = """\
cutegen: 1
kernel: twice
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32}
  D: {shape: [M, N], dtype: f32, role: out}
compute: D = 2 * S
schedule:
CASES
targets: [sm_80, sm_90a, sm_100a]
"""


def random_conditions(chance: random.Random) -> Conditions:
    sizes = {}
    for mode in chance.sample(["M", "N"], chance.choice([0, 1, 1, 2])):
        relations = [chance.choice(["==", "<=", "<", ">=", ">", "%", "%"]) for _ in range(chance.randint(1, 2))]
        sizes[mode] = tuple(SizeIs(r, chance.randint(2, 12)) for r in relations)  # type: ignore[arg-type]
    targets = tuple(chance.sample(TARGETS, chance.choice([0, 0, 1, 2])))
    return Conditions(targets, sizes, chance.choice([1, 1, 1, 16]))


@dataclass(frozen=True)
class Stride:
    """A stride that is known at run time only, as `_stand` asks for it."""

    elements: int

    def __mod__(self, other: int) -> int:
        return self.elements % other


def tensor(call: Call, address: int, stride: int) -> SimpleNamespace:
    """The requirements of `launch` on an f32 tensor."""
    return SimpleNamespace(
        shape=(call.sizes.get("M", 5), call.sizes.get("N", 5)),
        stride=(Stride(stride), 1),
        iterator=SimpleNamespace(toint=lambda: address),
        element_type=SimpleNamespace(width=32),
    )


def choice_of(text: str) -> Callable[[Call, tuple[int, int]], int]:
    """A function that returns the number, from 0, of the case that is launched for an output of this address and
    stride.
    """
    found: list[int] = []
    names: dict[str, Any] = {f"launch_{i}": lambda *_, i=i: found.append(i - 1) for i in range(1, 9)}
    names |= {"_refuse_broken": lambda *_: None, "_promised": lambda *_: None}
    names["cutlass"] = SimpleNamespace(const_expr=bool, Boolean=bool)
    names["cute"] = SimpleNamespace(assume=lambda size, divby: size)
    functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    bare = ast.Module(
        [
            function
            for function in functions
            if function.name == "launch" or function.name.startswith(("_stand", "known_tensors"))
        ],
        [],
    )
    for node in ast.walk(bare):
        if isinstance(node, ast.FunctionDef):
            node.decorator_list, node.returns = [], None
        elif isinstance(node, ast.arg):
            node.annotation = None
    exec(compile(bare, "launch", "exec"), names)

    def choice(call: Call, output: tuple[int, int]) -> int:
        arguments = [tensor(call, 256, 64), tensor(call, *output), "stream", call.target]
        names["launch"](*arguments[: names["launch"].__code__.co_argcount])
        return found.pop()

    return choice


def test_launch_takes_the_first_case_whose_conditions_hold() -> None:
    told: set[int] = set()
    modules = 0
    for seed in range(20):
        chance = random.Random(seed)
        cases = [*(random_conditions(chance) for _ in range(chance.randint(1, 3))), Conditions()]
        # Of other threads each: cases that are alike have one launch
        own = [{"partition": "inner", "threads": 32 * number} for number in range(1, len(cases) + 1)]
        data = [({"for": case.as_data()} if case.as_data() else {}) | one for case, one in zip(cases, own, strict=True)]
        listed = [f"  - {json.dumps(one)}" for one in data]
        try:
            (module,) = generate(TEXT.replace("CASES", "\n".join(listed)), "x.yaml").modules
        except SpecError as error:
            assert {d.code for d in error.diagnostics} == {"CG296"}, (seed, error)  # some case is never taken
            continue
        modules, choice = modules + 1, choice_of(module.text)
        for call in calls(cases, TARGETS, {}, {}, 4):
            no_more = [(256 + call.align, 64), (256, 64 + call.align // 4)]  # aligned to so many bytes, and no more
            for output in no_more if call.align else [(256, 64)]:
                number = taken(cases, call)
                assert choice(call, output) == number, (seed, call, output)
                told.add(number or 0)
    assert modules >= 8 and told == {0, 1, 2, 3}
