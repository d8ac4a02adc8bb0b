"""The expression of `compute`: parsed with `ast`, never evaluated.

`parse` gives the tree as written; `annotating.annotate` gives the same tree with a dtype on every node and a `Cast` at
every change of type, so that printers and evaluators decide nothing.

Types. Arithmetic on f16 and bf16 happens in f32, on i8, u8 and bool in i32, on i64 with any integers in i64, and on
coordinates and in statements stored as i64 in as many bits as `widths` says. A number written in the expression takes
the type of what it meets; `/` and the transcendental functions turn integers into f32.
What is stored is cast to the output's dtype; from float to integer or bool only through an explicit `cast`.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

from cutegen.dtypes import Dtype
from cutegen.expressions.absent import ABSENT, of_no_syntax, of_syntax, scattered
from cutegen.expressions.errors import ExpressionError, NumberError, UntransposedError
from cutegen.expressions.forms import OWN, available, form_of, wrong_modes
from cutegen.expressions.functions import FUNCTIONS, NO_NAMES, PARTS, TO_WHOLE, TYPE_PRESERVING, Function
from cutegen.expressions.scaled import normalised, product
from cutegen.expressions.tree import (
    ALONG,
    COMPARISONS,
    MAX_DEPTH,
    MAX_POWER,
    OVER_SEVERAL,
    REDUCTIONS,
    SCANS,
    SELECTIONS,
    Assignment,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Compute,
    Coord,
    Expr,
    Len,
    Literal_,
    Local,
    MatMul,
    Name,
    Node,
    Place,
    Reduce,
    Scan,
    Select,
    Typed,
    Unary,
    coords,
    reductions,
    uses,
    walk,
    walk_bodies,
)
from cutegen.foreign_dtypes import meant_dtype

__all__ = [
    "COMPARISONS",
    "FUNCTIONS",
    "MAX_DEPTH",
    "MAX_POWER",
    "NO_NAMES",
    "REDUCTIONS",
    "TO_WHOLE",
    "TYPE_PRESERVING",
    "Assignment",
    "Binary",
    "BinaryOp",
    "Call",
    "Cast",
    "Compute",
    "Coord",
    "Expr",
    "ExpressionError",
    "Literal_",
    "Local",
    "MatMul",
    "Name",
    "Node",
    "NumberError",
    "Place",
    "Reduce",
    "Typed",
    "Unary",
    "UntransposedError",
    "coords",
    "parse",
    "parse_compute",
    "product_place",
    "reductions",
    "uses",
    "walk",
    "walk_bodies",
]


def parse(text: str, parts: bool = False) -> Assignment:
    """`C = alpha * (A @ B.T) + beta * C` as a tree; with `parts` it may call what only definitions of functions do.

    Raises `ExpressionError` for anything that is not one assignment in the supported part of Python's syntax.
    """
    whole = Place(0, len(text))
    if len(text) > 4000:
        raise ExpressionError(f"compute has {len(text)} characters; at most 4000 are read", Place(0, 1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes and the like: the text may be anything
            module = ast.parse(text, mode="exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        before = text.split("\n")[: (getattr(error, "lineno", None) or 1) - 1]
        column = sum(len(line) + 1 for line in before) + (getattr(error, "offset", None) or 1) - 1
        column = max(0, min(column, len(text) - 1))
        reason = getattr(error, "msg", None) or "too deeply nested"
        place = Place(column, column + 1)
        raise ExpressionError(f"compute is not an assignment: {reason}", place, of_no_syntax(text)) from None
    if len(module.body) > 1:
        raise ExpressionError("several statements in one text", whole, "write a list, a `- C = ...` for each")
    if not module.body or not isinstance(module.body[0], ast.Assign):
        raise ExpressionError("compute must be one assignment", whole, _assignment_help(module.body))
    statement = module.body[0]
    target = statement.targets[0]
    if len(statement.targets) == 1 and isinstance(target, ast.Subscript):
        raise ExpressionError(*scattered(ast.unparse(target), _Parser(text).place(target)))
    if len(statement.targets) != 1 or not isinstance(target, ast.Name):
        raise ExpressionError("compute must assign to one tensor", whole, "write a statement `C = ...` for each output")
    value = _Parser(text, PARTS if parts else {}).expr(statement.value, 0)
    return Assignment(
        target.id, value, normalised(statement, value), Place(target.col_offset, target.end_col_offset or 0)
    )


def _assignment_help(body: Sequence[ast.stmt]) -> str:
    """How to write what is there instead of an assignment."""
    if body and isinstance(body[0], ast.AugAssign) and isinstance(body[0].target, ast.Name):
        value = ast.BinOp(body[0].target, body[0].op, body[0].value)
        return f"write `{body[0].target.id} = {ast.unparse(value)}`, of a tensor with `role: inout`"
    return "write it as `C = ...`"


def parse_compute(data: str | Sequence[str]) -> Compute:
    """The statements of a text that is one of them, or of a list of such texts.

    Raises `ExpressionError`, whose `statement` is the number of the one that is wrong.
    """
    texts = [data] if isinstance(data, str) else data
    statements = []
    for number, text in enumerate(texts):
        try:
            statements.append(parse(text))
        except ExpressionError as error:
            error.statement = number
            raise
    return Compute(tuple(statements), listed=not isinstance(data, str))


def product_place(text: str) -> Place | None:
    """Where the text's first `@` is applied, if it has any; None also where it cannot be parsed at all."""
    try:
        tree = ast.parse(text)
        products = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult)]
        return _Parser(text).place(products[0]) if products else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Parser:
    def __init__(self, text: str, parts: Mapping[str, Function] = MappingProxyType({})) -> None:
        self.functions = {**FUNCTIONS, **parts}
        # ast counts columns in UTF-8 bytes and lines; a spec's expression is one logical line for its user.
        self.text = text
        self._lines = text.split("\n")
        self._offsets = [0, *accumulate(len(line) + 1 for line in self._lines)]

    def place(self, node: ast.expr) -> Place:
        def column(line: int, byte: int) -> int:
            return self._offsets[line - 1] + len(self._lines[line - 1].encode()[:byte].decode(errors="ignore"))

        return Place(column(node.lineno, node.col_offset), column(node.end_lineno or 1, node.end_col_offset or 0))

    def expr(self, node: ast.expr, depth: int) -> Expr:
        place = self.place(node)
        if depth > MAX_DEPTH:
            raise ExpressionError(f"compute nests deeper than {MAX_DEPTH} levels", place)

        def sub(child: ast.expr) -> Expr:
            return self.expr(child, depth + 1)

        match node:
            case ast.Constant() if isinstance(node.value, (bool, int, float)):
                if isinstance(node.value, int) and node.value >= 2**63:
                    bits = f", or as `{node.value - 2**64}`, which has the same bits" if node.value < 2**64 else ""
                    help = f"write it as `{node.value}.0`, a float{bits}"
                    raise ExpressionError(f"{node.value} does not fit in i64", place, help)
                if isinstance(node.value, float) and node.value in (float("inf"), float("-inf")):
                    raise ExpressionError("the number overflows", place, "write `inf` for infinity")
                return Literal_(node.value, place=place)
            case ast.Name():
                return Name(node.id, place=place)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))) if number in (2**31, 2**63):
                return Literal_(-number, place=place)  # Python reads the sign apart; only with it does the type hold it
            case ast.UnaryOp(op=ast.USub()):
                return Unary("-", sub(node.operand), place=place)
            case ast.UnaryOp(op=ast.UAdd()):
                return sub(node.operand)
            case ast.UnaryOp(op=ast.Not()):
                return Unary("not", sub(node.operand), place=place)
            case ast.UnaryOp(op=ast.Invert()):
                return Unary("~", sub(node.operand), place=place)
            case ast.BinOp(op=ast.MatMult()):
                return product(node, self.place)
            case ast.BinOp(op=ast.Pow()):
                return self.power(node, sub(node.left), depth, place)
            case ast.BinOp():
                return Binary(_OPS[type(node.op)], sub(node.left), sub(node.right), place=place)
            case ast.BoolOp():
                op: BinaryOp = "and" if isinstance(node.op, ast.And) else "or"
                self.check_chain(len(node.values), depth, place)
                value = sub(node.values[0])
                for other in node.values[1:]:
                    value = Binary(op, value, sub(other), place=place)
                return value
            case ast.Compare():
                return self.compare(node, depth, place)
            case ast.Call():
                return self.call(node, depth, place)
        what = f"`{self.text[place.start : place.end][:60]}` is not supported in compute"
        raise ExpressionError(what, place, of_syntax(node) or f"available: {available()}")

    def check_chain(self, links: int, depth: int, place: Place) -> None:
        """A chain is one node for Python and a tree as deep as it is long here."""
        if depth + links > MAX_DEPTH:
            raise ExpressionError(f"compute nests deeper than {MAX_DEPTH} levels", place)

    def power(self, node: ast.BinOp, base: Expr, depth: int, place: Place) -> Expr:
        exponent = node.right
        number = exponent.value if isinstance(exponent, ast.Constant) else None
        if type(number) is int and 1 <= number <= MAX_POWER:
            return Binary("**", base, Literal_(number, place=self.place(exponent)), place=place)
        roots = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}  # which are these in torch, of every value
        value = self.expr(exponent, depth + 1)
        root = value.value if isinstance(value, Literal_) else None
        if isinstance(value, Unary) and value.op == "-" and isinstance(value.x, Literal_):
            root = -value.x.value
        if root in roots:
            return Call(roots[root], (base,), place=place)
        return Call("pow", (base, value), place=place)

    def compare(self, node: ast.Compare, depth: int, place: Place) -> Expr:
        self.check_chain(len(node.ops), depth, place)
        operands = [self.expr(n, depth + 1) for n in (node.left, *node.comparators)]
        value: Expr | None = None
        for op, left, right in zip(node.ops, operands, operands[1:], strict=False):
            if type(op) not in _OPS:
                raise ExpressionError("`is` and `in` are not supported in compute", place, "compare with `==`")
            link = Binary(_OPS[type(op)], left, right, place=place)
            value = link if value is None else Binary("and", value, link, place=place)
        assert value is not None
        return value

    def call(self, node: ast.Call, depth: int, place: Place) -> Expr:
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
            message = f"`{name}` is called by its name alone: only named functions can be called"
            raise self.no_function(name, node.func, message)
        if not isinstance(node.func, ast.Name):
            raise ExpressionError("only named functions can be called", place, f"available: {available()}")
        name = node.func.id
        if name not in (*self.functions, *ALONG, *OWN):
            raise self.no_function(name, node.func)
        if name in self.functions:
            return self.function(node, name, depth, place)
        if node.keywords:
            raise ExpressionError(f"{name} takes no keyword arguments", place, form_of(name))
        if name == "cast":
            if len(node.args) != 2 or not isinstance(node.args[1], ast.Name):
                raise ExpressionError("cast takes a value and a dtype", place, "write it as `cast(x, bf16)`")
            dtype_name = node.args[1].id
            if dtype_name not in Dtype.__members__:
                meant = meant_dtype(dtype_name, Dtype.__members__)
                help = f"did you mean `{meant}`?" if meant else f"known: {', '.join(Dtype.__members__)}"
                raise ExpressionError(f"unknown dtype `{dtype_name}`", self.place(node.args[1]), help)
            return Cast(self.expr(node.args[0], depth + 1), True, dtype=Dtype[dtype_name], place=place)
        if name in ("coord", "len"):
            if len(node.args) != 1 or not isinstance(node.args[0], ast.Name):
                raise ExpressionError(f"{name} takes the name of a mode", place, form_of(name))
            return (Coord if name == "coord" else Len)(node.args[0].id, place=place)
        return self.along(node, name, depth, place)

    def function(self, node: ast.Call, name: str, depth: int, place: Place) -> Expr:
        """A call of a function, whose last arguments may be left out or given by name, as torch has them."""
        given: dict[str, ast.expr] = {word.arg: word.value for word in node.keywords if word.arg is not None}
        written = name
        if name == "clamp" and len(node.args) + len(given) == 2 and given.keys() <= {"min", "max"}:  # one bound alone
            name = "clamp_max" if "max" in given else "clamp_min"
        function = self.functions[name]
        if len(given) < len(node.keywords) or not given.keys() <= {*function.keywords}:
            named = " or ".join(f"`{word}`" for word in function.keywords)
            message = f"{written} takes no keyword arguments{f' but {named}' if named else ''}"
            raise ExpressionError(message, place, form_of(written))
        count, (least, most) = len(node.args) + len(given), (function.least, function.most)
        missing = [word for word in function.parameters[len(node.args) : least] if word not in given]
        again = [word for word in function.parameters[: len(node.args)] if word in given]
        if again:
            raise ExpressionError(
                f"{written} is given `{again[0]}` by place and by name", place, "leave one of them out"
            )
        if not least <= count <= most or missing:
            wanted = "a value and `min`, `max` or both" if written == "clamp" else None
            wanted = wanted or f"{most if least == most else f'{least} to {most}'} argument{'s'[: most > 1]}"
            raise ExpressionError(f"{written} takes {wanted}, not {count}", place, form_of(written))
        defaults = dict(zip(function.parameters[least:], function.defaults, strict=True))
        arguments = [self.expr(argument, depth + 1) for argument in node.args]
        for word in function.parameters[len(node.args) :]:
            here = given.get(word)
            arguments.append(Literal_(defaults[word], place=place) if here is None else self.expr(here, depth + 1))
        return Call(name, tuple(arguments), place=place)

    def along(self, node: ast.Call, name: str, depth: int, place: Place) -> Expr:
        """`sum(x, N)`, or along several modes, `sum(x, M, B)`; `topk(x, N, K)` has a mode for what it selects.

        A call like Python's `max(x, y)` is recognised once the modes are known.
        """
        modes = [mode for mode in node.args[1:] if isinstance(mode, ast.Name)]
        several = name in OVER_SEVERAL and len({mode.id for mode in modes}) == len(modes)
        wanted = 2 if name in SELECTIONS else max(1, len(modes)) if several else 1
        if len(modes) != wanted or len(modes) != len(node.args) - 1:
            raise ExpressionError(wrong_modes(name), place, form_of(name, node))
        found: Expr = self.expr(node.args[0], depth + len(modes))
        if name in SELECTIONS:
            one, kept = modes
            return Select(name, found, one.id, self.place(one), kept.id, self.place(kept), place=place)
        for mode in reversed(modes):
            kind = Scan if name in SCANS else Reduce
            found = kind(name, found, mode.id, self.place(mode), place=place)
        return found

    def no_function(self, name: str, node: ast.expr, message: str = "") -> ExpressionError:
        """The error about a call of what is no function here; with another message where it is written as `x.name`."""
        from difflib import get_close_matches

        known = (*FUNCTIONS, *ALONG, *OWN)
        plain = name.rstrip("_") if name not in ABSENT else name  # torch's `lgamma_` works in place
        if plain in ABSENT:
            said, help = ABSENT[plain]
            return ExpressionError(f"`{name}` {said}", self.place(node), help)
        near = get_close_matches(name[:80], known, 1)
        if message and name in known:
            help = form_of(name)
        else:
            help = f"did you mean `{near[0]}`?" if near else f"available: {available()}"
        return ExpressionError(message or f"unknown function `{name}`", self.place(node), help)


_OPS: dict[type, BinaryOp] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
