"""Names of element types that are not the language's: which one of its own is meant, or what does instead."""

from __future__ import annotations

import re
from collections.abc import Collection

_KINDS = {
    **{"i": "i", "s": "i", "int": "i", "sint": "i"},
    **{"u": "u", "uint": "u", "b": "u"},
    **{"f": "f", "fp": "f", "float": "f", "bf": "bf", "bfloat": "bf"},
}
_SIZED = re.compile(r"([a-z]+)_?(\d+)(?:_t)?")
_OWN_NAMES = {
    **{"double": "f64", "float": "f32", "single": "f32", "half": "f16"},
    **{"long": "i64", "int": "i32", "short": "i16", "char": "i8", "byte": "u8", "uchar": "u8", "uint": "u32"},
    **{"unsigned": "u32", "boolean": "bool", "i1": "bool", "b1": "bool", "int1": "bool"},
    **{"e4m3": "f8e4m3", "e4m3fn": "f8e4m3", "e5m2": "f8e5m2", "fp8e4nv": "f8e4m3", "fp8e5": "f8e5m2"},
}
"""Maps other languages' names of element types to those here. By `byte` and `int`, numpy and torch mean other types."""
_F8 = re.compile(r"(?:f|fp|float)8_?(e4m3(?:fn)?|e5m2)")
_WIDEST = "the widest is `{}`"


def meant_dtype(word: str, choices: Collection[str]) -> str | None:
    """The one of `choices` that another library's name, or a misspelt one, stands for; None where there is none.

    A type of another size is no misspelling: `u64` is no `i64`. `bf17` is one: no type has 17 bits.
    """
    from difflib import get_close_matches

    name = _plain(word)
    own = _OWN_NAMES.get(name)
    if own is None and (eight := _F8.fullmatch(name)):
        own = f"f8{eight[1][:4]}"
    sized = _SIZED.fullmatch(name)
    if own is None and sized and sized[1] in _KINDS and (int(sized[2]) % 8 == 0 or int(sized[2]) < 8):
        own = _KINDS[sized[1]] + sized[2]
    if own is not None and own in choices:
        return own
    if name in choices:
        return name
    if own is not None or instead_of_dtype(word):
        return None
    near = get_close_matches(name[:80], choices, 1)
    return near[0] if near else None


def instead_of_dtype(word: str) -> str | None:
    """Advice on a substitute for an element type that the language lacks; None where nothing is known of the name."""
    name = _plain(word)
    if re.fullmatch(r"((f|fp|float)8_?)?e8m0(fnu)?", name):
        return "declare `u8`, of which `exp2(x - 127)` is the number"
    if re.fullmatch(r"((f|fp|float)4_?)?e2m1(fn)?(_?x2)?|(nf|fp?|float)4", name):
        return f"{_packed(4)}; `where` and arithmetic make numbers of the bits"
    if re.fullmatch(r"((f|fp|float)6_?)?e[23]m[23](fn)?|fp?6", name):
        return "declare `u8`; `where` and arithmetic make numbers of the bits"
    if re.fullmatch(r"(f|fp|float)8(_?[a-z]\w*)?", name):
        return "8-bit floats are `f8e4m3` and `f8e5m2`, torch's `float8_e4m3fn` and `float8_e5m2`"
    if re.fullmatch(r"complex\d*|c(64|128)|[cz]?float_complex", name):
        return "declare two tensors, and pass `x.real` and `x.imag`"
    if name == "tf32":
        return "declare `f32`; `mma: {operands: tf32}` has a gemm multiply fewer bits"
    sized = _SIZED.fullmatch(name)
    if sized is None or sized[1] not in _KINDS:
        return None
    kind, bits = _KINDS[sized[1]], int(sized[2])
    if kind in ("f", "bf"):
        return _WIDEST.format("f64") if bits > 64 else None
    if bits > 64:
        return _WIDEST.format("i64")
    if kind == "u" and bits == 64:
        return (
            "declare `i64` and pass `x.view(torch.int64)`: `+ - * & | ^ ~ <<` and `==` give the same bits, all else "
            "takes the highest bit for a sign"
        )
    if kind == "u" and bits == 16:
        return "declare `i16` and pass `x.view(torch.int16)`: `x & 65535` is the number without a sign"
    if bits >= 8:
        return None
    low = 2 ** (bits - 1)
    signed = f"; `((x & {2 * low - 1}) ^ {low}) - {low}` reads the lowest {bits} bits with their sign"
    return _packed(bits) + (signed if kind == "i" else "")


def _packed(bits: int) -> str:
    """How numbers of less than 8 bits are kept in bytes."""
    if bits == 4:
        return "pack two into a `u8`: `x & 15` and `x >> 4` are its halves"
    return f"pack several into a `u8`: `x & {2**bits - 1}` are its lowest {bits} bits, of `x >> {bits}` the next ones"


def _plain(word: str) -> str:
    """A name in lower case, without the library's before it."""
    return re.sub(r"^(torch|np|numpy|jnp|tl|cutlass|cute|ml_dtypes)\.", "", word.strip().lower())
