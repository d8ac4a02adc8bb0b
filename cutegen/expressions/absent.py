"""Features of Python, numpy and torch that `compute` lacks, and what to write instead."""

from __future__ import annotations

import ast
import re

from cutegen.expressions.tree import Place

_PER_ELEMENT = "every element is computed from those at its own coordinate"
_GIVEN = "else compute it before, and pass it as a tensor that broadcasts, as one of `shape: [M]` does"
_TABLE = "compute it before, and pass it as a tensor, as kernels of rotary embeddings do with their tables"

INSTEAD = {
    **dict.fromkeys(("add", "plus"), "x + y"),
    **dict.fromkeys(("sub", "subtract"), "x - y"),
    **dict.fromkeys(("mul", "multiply"), "x * y"),
    **dict.fromkeys(("div", "divide", "true_divide", "fdiv", "fdividef"), "x / y"),
    "rsub": "y - x",
    **dict.fromkeys(("neg", "negative"), "-x"),
    "positive": "x",
    **dict.fromkeys(("fma", "addcmul"), "x * y + z"),
    "addcdiv": "z + a * x / y",
    "rcp": "reciprocal(x)",
    **dict.fromkeys(("cdiv", "ceil_div", "ceildiv"), "-(-x // y)"),
    "floordiv": "floor_divide(x, y)",
    **dict.fromkeys(("mod", "modulo"), "remainder(x, y)"),
    **dict.fromkeys(("clip", "clip_by_value"), "clamp(x, a, b)"),
    **dict.fromkeys(("fabs", "absolute"), "abs(x)"),
    "sgn": "sign(x)",
    **dict.fromkeys(("power", "float_power"), "pow(x, y)"),
    **dict.fromkeys(("ln", "logarithm"), "log(x)"),
    "exp10": "pow(10, x)",
    "logaddexp2": "where(x == y, x + 1, maximum(x, y) + 1.4426950408889634 * log1p(exp2(-abs(x - y))))",
    "xlogy": "where(x == 0 and not isnan(y), 0, x * log(y))",
    "xlog1py": "where(x == 0 and not isnan(y), 0, x * log1p(y))",
    "ldexp": "x * exp2(y)",
    "sinc": "where(x == 0, 1, sin(3.141592653589793 * x) / (3.141592653589793 * x))",
    "sinpi": "sin(3.141592653589793 * x)",
    "cospi": "cos(3.141592653589793 * x)",
    **dict.fromkeys(("deg2rad", "radians"), "x * 0.017453292519943295"),
    **dict.fromkeys(("rad2deg", "degrees"), "x * 57.29577951308232"),
    "signbit": "x < 0 or (x == 0 and 1 / x < 0)",
    "copysign": "where(y < 0 or (y == 0 and 1 / y < 0), -abs(x), abs(x))",
    "heaviside": "where(x == 0, y, where(x > 0, 1, 0))",
    **dict.fromkeys(("isposinf", "is_posinf"), "x == inf"),
    **dict.fromkeys(("isneginf", "is_neginf"), "x == -inf"),
    "isclose": "x == y or (isfinite(y) and abs(x - y) <= a + b * abs(y))",
    "cbrt": "sign(x) * pow(abs(x), 0.3333333333333333)",
    "arcsin": "asin(x)",
    "arccos": "acos(x)",
    "arctan": "atan(x)",
    "arcsinh": "asinh(x)",
    "arccosh": "acosh(x)",
    "arctanh": "atanh(x)",
    "lerp": "where(abs(a) < 0.5, x + a * (y - x), y - (y - x) * (1 - a))",
    **dict.fromkeys(("rint", "roundeven", "round_", "around", "nearbyint"), "round(x)"),
    "fix": "trunc(x)",
    "frac": "x - trunc(x)",
    "logical_and": "x != 0 and y != 0",
    "logical_or": "x != 0 or y != 0",
    "logical_xor": "(x != 0) ^ (y != 0)",
    "logical_not": "x == 0",
    "bitwise_and": "x & y",
    "bitwise_or": "x | y",
    "bitwise_xor": "x ^ y",
    "xor": "x ^ y",
    **dict.fromkeys(("bitwise_not", "invert"), "~x"),
    **dict.fromkeys(("bitwise_left_shift", "left_shift"), "x << y"),
    **dict.fromkeys(("bitwise_right_shift", "right_shift"), "x >> y"),
    "mulhi": "cast(cast(x, i64) * y >> 32, i32)",
    **dict.fromkeys(("umulhi", "mul_hi"), "cast(cast(x, u32) * cast(y, u32) >> 32, u32)"),
    "rotl": "cast((cast(x, u32) << y) | (cast(x, u32) >> (32 - y)), u32)",
    "rotr": "cast((cast(x, u32) >> y) | (cast(x, u32) << (32 - y)), u32)",
    **dict.fromkeys(("eq", "equal"), "x == y"),
    **dict.fromkeys(("ne", "not_equal"), "x != y"),
    **dict.fromkeys(("lt", "less"), "x < y"),
    **dict.fromkeys(("le", "less_equal"), "x <= y"),
    **dict.fromkeys(("gt", "greater"), "x > y"),
    **dict.fromkeys(("ge", "greater_equal"), "x >= y"),
    **dict.fromkeys(("select", "cond", "iff"), "where(x > 0, y, z)"),
    **dict.fromkeys(("to", "astype", "float32", "type"), "cast(x, f32)"),
    **dict.fromkeys(("int", "int32"), "cast(x, i32)"),
    **dict.fromkeys(("half", "float16"), "cast(x, f16)"),
    "bfloat16": "cast(x, bf16)",
    **dict.fromkeys(("double", "float64"), "cast(x, f64)"),
    **dict.fromkeys(("long", "int64"), "cast(x, i64)"),
    **dict.fromkeys(("short", "int16"), "cast(x, i16)"),
    "uint32": "cast(x, u32)",
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3"), "cast(x, f8e4m3)"),
    "float8_e5m2": "cast(x, f8e5m2)",
    "int8": "cast(x, i8)",
    "uint8": "cast(x, u8)",
    "bool": "x != 0",
    **dict.fromkeys(("swish", "SiLU"), "silu(x)"),
    "quick_gelu": "x * sigmoid(1.702 * x)",
    **dict.fromkeys(("gelu_approx", "gelu_new", "fast_gelu"), "gelu_tanh(x)"),
    "log_sigmoid": "logsigmoid(x)",
    "expit": "sigmoid(x)",
    "selu": "1.0507009873554805 * where(x > 0, x, 1.6732632423543772 * expm1(x))",
    "celu": "where(x > 0, x, a * expm1(x / a))",
    "tanhshrink": "x - tanh(x)",
    "hardshrink": "where(abs(x) <= a, 0, x)",
    "softshrink": "where(x > a, x - a, where(x < -a, x + a, x * 0))",
    "threshold": "where(x <= a, b, x)",
    "logit": "log(x / (1 - x))",
    "softsign": "x / (1 + abs(x))",
    "prelu": "where(x > 0, x, a * x)",
    "relu6": "clamp(x, 0, 6)",
    "hardtanh": "clamp(x, -1, 1)",
    "hardsigmoid": "clamp(x + 3, 0, 6) / 6",
    "hard_swish": "hardswish(x)",
    **dict.fromkeys(("arange", "iota", "index", "indices", "program_id"), "coord(N)"),
    **dict.fromkeys(("tril", "causal_mask"), "where(coord(N) <= coord(M), x, 0)"),
    "triu": "where(coord(N) >= coord(M), x, 0)",
    "eye": "where(coord(N) == coord(M), 1, 0)",
    **dict.fromkeys(("amax", "reduce_max"), "max(x, N)"),
    **dict.fromkeys(("amin", "reduce_min"), "min(x, N)"),
    "reduce_sum": "sum(x, N)",
    "nansum": "sum(where(isnan(x), 0, x), N)",
    **dict.fromkeys(("nanmax", "nan_max"), "max(where(isnan(x), -inf, x), N)"),
    **dict.fromkeys(("nanmin", "nan_min"), "min(where(isnan(x), inf, x), N)"),
    "nanprod": "prod(where(isnan(x), 1, x), N)",
    "nanmean": "sum(where(isnan(x), 0, x), N) / sum(not isnan(x), N)",
    "average": "mean(x, N)",
    "l1_loss": "mean(abs(x - y), N)",
    "mse_loss": "mean((x - y) ** 2, N)",
    "count_nonzero": "sum(x != 0, N)",
    "norm": "sqrt(sum(x * x, N))",
    **dict.fromkeys(("rms_norm", "rmsnorm"), "x * rsqrt(mean(x * x, N) + a)"),
    "normalize": "x / maximum(sqrt(sum(x * x, N)), 1e-12)",
    **dict.fromkeys(("zeros", "zeros_like"), "0"),
    **dict.fromkeys(("ones", "ones_like"), "1"),
}
"""Name -> what comes to the same, of x, y, z, scalars a and b, and modes M and N."""

_SENTENCES = {
    ("masked_fill",): (
        "is not in the language", "write `where(mask, value, x)`: the value where the mask is true, then x"),
    ("nan_to_num",): (
        "is not in the language",
        "write `where(isnan(x), 0, clamp(x, -a, a))`, where a is the largest number of the type: "
        "3.4028234663852886e38 of f32, 3.3895313892515355e38 of bf16, 65504 of f16"),
    ("median", "reduce", "sort", "argsort", "mode", "cummax", "cummin", "logcumsumexp",
     "nanmedian", "quantile", "nanquantile", "kthvalue", "unique", "histc", "bincount", "searchsorted", "argwhere",
     "nonzero", "trace", "det"): (
        "is not among the reductions",
        f"those are sum, mean, max, min, prod, var, std, logsumexp, any, all, argmax and argmin, with `op: rowwise`; "
        f"of scans there are cumsum and cumprod, and `topk(x, N, K)` keeps up to 32 values of a row; {_GIVEN}"),
    ("softmax",): (
        "is not in the language", "write `e = exp(x - max(x, N))`, then `e * (1 / sum(e, N))`, with `op: rowwise`"),
    ("softmin",): (
        "is not in the language", "write `e = exp(min(x, N) - x)`, then `e * (1 / sum(e, N))`, with `op: rowwise`"),
    ("log_softmax",): (
        "is not in the language",
        "write `m = max(x, N)`, then `x - m - log(sum(exp(x - m), N))`, with `op: rowwise`"),
    ("cross_entropy",): (
        "is not in the language",
        "write `d = x - max(x, N)`, then `where(target == -100, 0, log(sum(exp(d), N)) - sum(where(coord(N) == target, "
        "d, 0), N))`, with `op: rowwise`; where torch refuses a target out of range, that gives `log(sum(exp(d), N))`"),
    ("nll_loss",): (
        "is not in the language", "write `-sum(where(coord(N) == target, x, 0), N)`, with `op: rowwise`; that gives 0 "
        "for -100, which torch ignores, and where torch refuses a target out of range"),
    ("layer_norm", "layernorm"): (
        "is not in the language",
        "write `d = x - mean(x, N)`, then `d * rsqrt(mean(d * d, N) + eps)`, with `op: rowwise`"),
    ("group_norm", "instance_norm"): (
        "is not in the language", "a row may go along several modes, the last ones of x: with `[B, G, C, HW]` write "
        "`d = x - mean(x, C, HW)`, then `d * rsqrt(mean(d * d, C, HW) + eps)`, with `op: rowwise`"),
    ("batch_norm",): (
        "is not in the language", "what is normalised together must be the last modes, as of a view that torch makes: "
        "then write `d = x - mean(x, N)` and `d * rsqrt(mean(d * d, N) + eps)`, with `op: rowwise`"),
    ("aminmax",): ("is not in the language", "write a statement with `min(x, N)` and one with `max(x, N)`"),
    ("std_mean", "var_mean"): (
        "is not in the language", "write a statement with `mean(x, N)`, and one with `var(x, N)` or `std(x, N)`"),
    ("nanvar", "nanstd"): (
        "is not in the language",
        "write `ok = not isnan(x)`, `n = sum(ok, N)`, `m = sum(where(ok, x, 0), N) / n`, then `sum(where(ok, "
        "(x - m) ** 2, 0), N) / (n - 1)`, with `op: rowwise`"),
    ("divmod",): ("is not in the language", "write a statement with `x // y` and one with `x % y`"),
    ("modf",): ("is not in the language", "write a statement with `x - trunc(x)` and one with `trunc(x)`"),
    ("glu", "geglu", "swiglu", "reglu"): (
        "is not in the language", "the halves are tensors of their own, views such as `x[:, :n]` and `x[:, n:]`: write "
        "`a * sigmoid(b)`, or another function of b"),
    ("popcount", "popc", "bit_count", "bitwise_count"): (
        "is not in the language", "of an i32 write `a = x - ((x >> 1) & 1431655765)`, `b = (a & 858993459) + ((a >> 2) "
        "& 858993459)`, then `((((b + (b >> 4)) & 252645135) * 16843009) >> 24) & 255`"),
    ("bitcast", "view_as", "reinterpret", "reinterpret_cast", "float_as_int", "int_as_float", "bit_cast"): (
        "is not in the language", "torch gives the same bits another type: pass `x.view(torch.int32)`"),
    ("sincos",): ("is not in the language", "write a statement with `sin(x)` and one with `cos(x)`"),
    ("atan2", "arctan2", "angle", "erfinv", "erfcx", "lgamma", "gammaln", "gamma", "digamma", "polygamma", "psi",
     "nextafter", "spacing", "frexp", "i0", "i0e", "i1", "bessel_j0", "ndtri", "zeta", "gcd", "lcm", "clz", "ffs",
     "brev", "isin", "cross", "bucketize"): (
        "is not in the language", _TABLE),
    ("matmul", "mm", "bmm", "dot", "einsum", "linear", "addmm", "tensordot", "inner", "outer"): (
        "is not in the language", "the product of two matrices is `A @ B.T`, with `op: gemm`; a batch "
        "of them is the first mode of all tensors"),
    ("transpose", "permute", "swapaxes", "T", "t", "contiguous"): (
        "is not in the language",
        "modes have names: a tensor whose memory is the other way round says which is contiguous with `major: M`"),
    ("reshape", "view", "flatten", "squeeze", "unsqueeze", "expand", "broadcast_to", "repeat", "stack", "cat",
     "concatenate", "split", "chunk"): (
        "is not in the language",
        f"{_PER_ELEMENT}; a tensor broadcasts along the modes that its `shape` lacks, and views are made in torch"),
    ("gather", "scatter", "index_select", "take", "embedding", "index_copy", "index_add", "scatter_add"): (
        "is not in the language: a tensor itself says where its elements are",
        "declare `W: {shape: [V, D], at: {V: ids}}`, with `op: elementwise`, to read or write at the places of `ids`"),
    ("roll", "shift", "flip", "conv1d",
     "conv2d", "conv", "max_pool2d", "avg_pool2d", "load", "store", "atomic_add", "shfl", "unfold"): (
        f"is not in the language: {_PER_ELEMENT}", "write that part in torch, before or after the kernel"),
    ("rand", "randn", "random", "dropout", "bernoulli", "uniform", "normal"): (
        "is not in the language: a kernel has no random numbers", "pass them as a tensor: `where(mask > p, X, 0)`"),
    ("float",): ("is not in the language", "write `cast(x, f32)`; infinity is `inf`"),
    ("print", "range", "len", "assert_", "printf"): (
        "is not in the language", "a statement computes one value; `python generated/x.py` runs the kernel"),
}  # fmt: skip

_REDUCES = re.compile(r"\b(sum|mean|max|min|prod)\(")
_ROWWISE = ", with `op: rowwise`"
ABSENT = {name: said for names, said in _SENTENCES.items() for name in names} | {
    name: ("is not in the language", f"write `{text}`{_ROWWISE if _REDUCES.search(text) else ''}")
    for name, text in INSTEAD.items()
}
"""Name -> what is said of it, and what helps."""

_SYNTAX: dict[type, str] = {
    ast.IfExp: "write `where(condition, x, y)`",
    ast.Subscript: f"{_PER_ELEMENT}, or from those at the places of a tensor, which `at: {{V: ids}}` declares; "
    "`coord(N)` is the coordinate itself",
    ast.Attribute: "write the name of a tensor or a scalar alone; only `@` takes `B.T`",
    ast.Tuple: "write a statement for each output, in a list",
    ast.List: "write a statement for each output, in a list",
    ast.NamedExpr: "write a statement of its own, in a list",
}


_DIVIDED_BY_N = "`mean((x - mean(x, N)) ** 2, N)` divides by N"
ABSENT_FORMS = {
    "var": f"write it as `var(x, N)`, which divides by N - 1; {_DIVIDED_BY_N}",
    "std": f"write it as `std(x, N)`, which divides by N - 1; of a root, {_DIVIDED_BY_N}",
    "softplus": "write `softplus(b * x) / b` for another beta",
    "gelu": "the approximation by tanh is `gelu_tanh(x)`",
}
"""Function -> what to write for arguments that torch's function of that name has and this one has not."""

_PARTS = 'declare each part as a tensor, with a `view` such as `"X[:, :N]"` of the argument that has all of them'


def scattered(target: str, place: Place) -> tuple[str, Place, str]:
    """Message, place and help about an assignment to an indexed tensor, such as `cache[slot] = K`."""
    name = target.partition("[")[0]
    message = f"`{target[:60]}` is a scatter, and a statement assigns to a tensor by its name alone"
    index = target.partition("[")[2].rstrip("]")
    places = index if index.isidentifier() else "places"
    declared = f"`{name}: {{shape: [S, ...], at: {{S: {places}}}}}`"
    return message, place, f"assign to `{name}`, and declare {declared}, with `op: elementwise`, to write at `{places}`"


_OF_C = {
    r"&&": "write `and`, or `&`",
    r"\|\|": "write `or`, or `|`",
    r"<>": "write `!=`",
    r"!(?!=)": "write `not x` of a condition, `~x` of bits",
    r"\?": "write `where(condition, x, y)`",
    r">>>": "write `x >> n`, which keeps the sign; of a u32 it brings zeros",
    r"\+\+|--\s*$": "write `x + 1` or `x - 1`",
    r"\b0[xX][0-9a-fA-F.]*[pP]": "write a number with its decimal exponent, such as `0.125`",
    r"\d[fFuUlL]+\b": "write a number without a letter behind it",
    r":=": "write a statement of its own, in a list",
}
"""Operators and numbers of C, and others that Python's syntax has not -> what to write in their place."""


def of_no_syntax(text: str) -> str | None:
    """A help text for a text that is not Python's syntax; None where no particular help is known."""
    return next((help for pattern, help in _OF_C.items() if re.search(pattern, text)), None)


def of_syntax(node: ast.expr) -> str | None:
    """A help text for a part of Python's syntax that `compute` lacks; None where no particular help is known."""
    if isinstance(node, ast.Subscript) and any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
        return _PARTS
    return _SYNTAX.get(type(node))
