"""`compute` by chance: statements whose types fit, over the tensors and scalars that a spec declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cutegen.dtypes import Dtype
from cutegen.expressions.functions import FUNCTIONS
from tests.fuzz.chance import Chance

OPERATORS = {"+": 5, "-": 3, "*": 5, "/": 2}
BITWISE = ("//", "%", "<<", ">>", "&", "|", "^")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
ONE = tuple(name for name, function in FUNCTIONS.items() if function.least == 1 and function.gives != "truth")
TWO = tuple(name for name, function in FUNCTIONS.items() if function.least <= 2 <= function.most)
TESTS = tuple(name for name, function in FUNCTIONS.items() if function.gives == "truth")
DTYPES = tuple(dtype.value for dtype in Dtype)
INTEGERS = tuple(dtype.value for dtype in Dtype if dtype.is_integer)
WHOLE = ("0", "1", "2", "3", "7", "-1", "255", "1000")
FRACTIONS = ("0.5", "1.0", "0.0", "1e-6", "-0.25", "3.5", "0.044715", "100.0")
ODD_NUMBERS = (
    *("1e30", "1e-40", "65504.0", "2147483647", "-2147483648", "1e308", "16777217", "3.4028235e38", "-0.0"),
    *("4294967296", "9007199254740993", "-9223372036854775808", "9223372036854775807"),
)


@dataclass
class Writer:
    """Writes expressions over names, each with its type, and knows which of them no expression has used yet."""

    chance: Chance
    types: dict[str, str]  # of tensors that are read, scalars and local values
    modes: Sequence[str]
    plain: bool = False  # without numbers at the ends of their types
    whole: bool = False  # of integers and conditions alone
    used: set[str] = field(default_factory=set)

    def name(self, *types: str) -> str | None:
        """A name of one of these types, rather one that is not used yet; None where there is none."""
        known = [name for name, dtype in self.types.items() if dtype in types]
        fresh = [name for name in known if name not in self.used]
        if not known:
            return None
        found = self.chance.choice(fresh if fresh and self.chance.odds(0.7) else known)
        self.used.add(found)
        return found

    def number(self, depth: int = 3) -> str:
        """An expression of any type that one can compute with."""
        chance = self.chance
        if self.whole:
            return self.integer(depth)
        if depth <= 0 or chance.odds(0.25):
            return self.leaf()
        match chance.weighted({"binary": 8, "one": 4, "two": 2, "where": 2, "cast": 1.5, "power": 1, "minus": 1}):
            case "binary":
                return f"({self.number(depth - 1)} {chance.weighted(OPERATORS)} {self.number(depth - 1)})"
            case "one":
                return f"{chance.choice(ONE)}({self.number(depth - 1)})"
            case "two":
                return f"{chance.choice(TWO)}({self.number(depth - 1)}, {self.number(depth - 1)})"
            case "where":
                return f"where({self.truth(depth - 1)}, {self.number(depth - 1)}, {self.number(depth - 1)})"
            case "cast":
                return f"cast({self.number(depth - 1)}, {chance.choice(DTYPES[:-1])})"
            case "power":
                return f"{self.number(0)} ** {chance.choice([1, 2, 3, 4, 16, 0.5, 2.5, -1])}"
            case _:
                return f"(-{self.number(depth - 1)})"

    def integer(self, depth: int = 3) -> str:
        """An expression of a whole number."""
        chance = self.chance
        if depth <= 0 or chance.odds(0.25):
            name = self.name(*INTEGERS) if chance.odds(0.7) else None
            return name or chance.choice([*WHOLE, f"coord({chance.choice(self.modes)})"])
        match chance.randrange(8):
            case 0:
                return f"{chance.choice(['minimum', 'maximum'])}({self.integer(depth - 1)}, {self.integer(depth - 1)})"
            case 1:
                return f"where({self.truth(depth - 1)}, {self.integer(depth - 1)}, {self.integer(depth - 1)})"
            case 2:
                return f"cast({self.number(depth - 1)}, {chance.choice(['i32', *INTEGERS])})"
            case 3:
                return f"(~{self.integer(depth - 1)})"
            case 4 | 5:
                return f"({self.integer(depth - 1)} {chance.choice(BITWISE)} {self.integer(depth - 1)})"
            case _:
                return f"({self.integer(depth - 1)} {chance.choice('+-*')} {self.integer(depth - 1)})"

    def truth(self, depth: int = 2) -> str:
        """A condition."""
        chance = self.chance
        if depth > 0 and chance.odds(0.3):
            if chance.odds(0.3):
                return f"(not {self.truth(depth - 1)})"
            return f"({self.truth(depth - 1)} {chance.choice(['and', 'or', '&', '|', '^'])} {self.truth(depth - 1)})"
        if chance.odds(0.5) and (flag := self.name("bool")) is not None:
            return flag
        if not self.plain and chance.odds(0.02):
            return chance.choice(["True", "False"])
        if chance.odds(0.1):
            return f"{chance.choice(TESTS)}({self.number(max(0, depth - 1))})"
        left, right = self.number(max(0, depth - 1)), self.number(0)
        if chance.odds(0.05):
            return f"({left} < {right} <= {self.number(0)})"
        return f"({left} {chance.choice(COMPARISONS)} {right})"

    def leaf(self) -> str:
        """A name, rather than a number or a coordinate."""
        chance = self.chance
        if chance.odds(0.75) and (name := self.name(*DTYPES)) is not None:
            return name
        numbers = [*WHOLE, *FRACTIONS] + ([] if self.plain else list(ODD_NUMBERS))
        return f"coord({chance.choice(self.modes)})" if chance.odds(0.25) else chance.choice(numbers)

    def stored(self, dtype: str, depth: int = 3, last: bool = False) -> str:
        """An expression that a tensor of that type can hold; the `last` one uses what is left."""
        chance = self.chance
        if dtype == "bool":
            text = self.truth(depth)
        elif Dtype(dtype).is_float:
            text = self.number(depth)
        elif chance.odds(0.5):
            text = self.integer(depth)
        else:
            text = f"cast({self.number(depth)}, {dtype})"
        if not last:
            return text
        for name in [name for name in self.types if name not in self.used]:
            self.used.add(name)
            if dtype == "bool":
                text = f"({text} or {name if self.types[name] == 'bool' else f'{name} > 0'})"
            elif Dtype(dtype).is_float:
                text = f"{text} + {name}"
            else:
                text = f"cast({text} + {name}, {dtype})"
        return text
