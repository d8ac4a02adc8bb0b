"""The derivation of a result: what was computed on the way, in the order of the definitions."""

from __future__ import annotations

from dataclasses import dataclass, field

from cutegen.algebra.values import Value, text_of


@dataclass(frozen=True)
class Step:
    """`expression` = `value`; both can be evaluated again. `depth` is 0 for a call that the user wrote, and 1 for what
    its definition computes. A step without a value is a remark.
    """

    expression: str
    value: str | None
    why: str
    depth: int


@dataclass
class Steps:
    """Steps and notes, as they come. A note says what a user might not expect of a result that CuTe gives."""

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(self, name: str, arguments: tuple[Value, ...], value: Value, why: str = "", depth: int = 1) -> None:
        expression = f"{name}({', '.join(map(text_of, arguments))})"
        self.steps.append(Step(expression, None if value is None else text_of(value), why, depth))

    def remark(self, text: str) -> None:
        self.steps.append(Step(text, None, "", 1))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
