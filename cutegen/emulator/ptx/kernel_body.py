"""Reads the body of a kernel: declarations, labels, instructions and their operands.

Functions that it calls become a part of it: a call stands for the instructions of its function, with registers, labels
and local memory of their own. What is passed lies in local memory, and a return is a branch to what follows the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.emulator.ptx.errors import PtxSyntaxError, UnsupportedInstruction
from cutegen.emulator.ptx.functions import Function
from cutegen.emulator.ptx.lexer import Token, Tokens, read_number
from cutegen.emulator.ptx.model import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Label,
    Operand,
    Register,
    Special,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)
from cutegen.emulator.ptx.scopes import Scope
from cutegen.emulator.ptx.variables import read_variable, register_width

_BRANCHES = frozenset(("bra",))
_WITH_CARRY = frozenset(("addc", "subc", "madc"))
_RETURN = "#return"  # the label behind a call, which no name of PTX is
CARRY = Register("%cc", 32)
"""The condition code register, CC.CF: `.cc` writes it as a second result, the instructions above read it at last."""


class Body:
    """A kernel's body, which is read from its first brace to its last one.

    `outer` are the names of the variables and parameters around it, and `functions` those that it may call, by their
    names. `files` has the paths of .file directives by their numbers: lines of the first count as source lines. Raises
    PtxSyntaxError and UnsupportedInstruction.
    """

    def __init__(
        self, tokens: Tokens, outer: set[str], files: Mapping[int, str], functions: Mapping[str, Function]
    ) -> None:
        self.tokens = tokens
        self.files, self.file = files, min(files, default=None)
        self.functions = functions
        self.calls: list[Function] = []
        self.passed: set[str] = set()
        self.outer = Scope(0, None, {name: Symbol(name) for name in outer})
        self.scope = Scope(0, self.outer)
        self.scopes = 1
        self.registers: dict[str, int] = {}
        self.variables: list[Variable] = []
        self.labels: dict[str, int] = {}
        self.instructions: list[Instruction] = []
        self.jumps: list[tuple[int, Scope]] = []
        self.source_line: int | None = None
        self.elsewhere: tuple[str, int] | None = None
        self._block()
        self._resolve_labels()

    def _block(self) -> None:
        """Reads all that stands between a pair of braces, into the scope as it is."""
        tokens, outermost = self.tokens, self.scope
        tokens.expect("{")
        while True:
            token = tokens.next
            if token.kind == "word":  # as most are
                if tokens.peek().text != ":":
                    self._instruction()
                    continue
                self._label(tokens.take())
                tokens.expect(":")
            elif tokens.accept("}"):
                if self.scope is outermost or self.scope.parent is None:
                    return
                self.scope = self.scope.parent
            elif tokens.accept("{"):
                self.scope = Scope(self.scopes, self.scope)
                self.scopes += 1
            elif token.kind == "directive":
                self._directive()
            elif not tokens.accept(";"):
                self._instruction()

    def _resolve_labels(self) -> None:
        """Gives the operands of branches the unique names of the labels that they mean, now that all are known."""
        for index, scope in self.jumps:
            instruction = self.instructions[index]
            operands: list[Operand] = []
            for operand in instruction.operands:
                if isinstance(operand, Label):
                    name = scope.label(operand.name)
                    if name is None:
                        raise PtxSyntaxError(f"no label {operand.name}", instruction.line)
                    operand = Label(name)
                operands.append(operand)
            self.instructions[index] = replace(instruction, operands=tuple(operands))

    def _unique(self, name: str, taken: dict[str, int]) -> str:
        """A name that is not among those `taken`: the name itself, or with the number of its scope.

        Inline assembly declares the same names in scope after scope.
        """
        return name if name not in taken else f"{name}#{self.scope.number}"

    def _label(self, token: Token) -> None:
        """Notes a label before the next instruction."""
        if token.text in self.scope.labels:
            raise PtxSyntaxError(f"label {token.text} is there twice", token.line)
        name = self._unique(token.text, self.labels)
        self.scope.labels[token.text] = name
        self.labels[name] = len(self.instructions)

    def _directive(self) -> None:
        """Reads a directive of the body, whose token comes next."""
        tokens = self.tokens
        token = tokens.next
        if token.text == ".loc":
            self._location()
        elif token.text == ".reg":
            tokens.take()
            self._declare_registers()
        elif token.text == ".pragma":
            tokens.take()
            while not tokens.accept(";"):
                tokens.take()
        elif token.text in (".shared", ".local", ".param"):
            self._declare_variable()
        else:
            raise UnsupportedInstruction(token.text, token.line, tokens.text_of(token.line), "inside a kernel")

    def _declare_variable(self) -> None:
        """Reads the declaration of a variable. One in .param is what a function is called with, or what it returns."""
        token = self.tokens.next
        variable = read_variable(self.tokens)
        if self.calls and variable.space == "shared":
            raise UnsupportedInstruction(
                token.text, token.line, self.tokens.text_of(token.line), "shared memory of a function"
            )
        name = self._unique(variable.name, {v.name: 0 for v in self.variables})
        if variable.space == "param":
            self.passed.add(name)
            variable = replace(variable, space="local")
        self.variables.append(replace(variable, name=name))
        self.scope.names[variable.name] = Symbol(name)

    def _location(self) -> None:
        """Reads .loc, which gives the source line of the instructions that follow."""
        tokens = self.tokens
        tokens.take()
        place = [(tokens.integer(), tokens.integer(), tokens.integer())]
        while tokens.accept(","):
            # , function_name label[+offset], inlined_at file line column: the caller's place, which is what counts.
            word = tokens.word().text
            if word == "function_name":
                tokens.word()
                if tokens.accept("+"):
                    tokens.integer()
                if tokens.next.text == "inlined_at":
                    word = tokens.take().text
            if word == "inlined_at":
                place.append((tokens.integer(), tokens.integer(), tokens.integer()))
        if self.calls:  # what calls a function is the place of its instructions
            return
        known = [line for file, line, _ in place if self.file in (None, file)]
        self.source_line = known[0] if known and known[0] > 0 else None
        others = [(self.files[file], line) for file, line, _ in place if file in self.files and line > 0]
        self.elsewhere = others[0] if others and self.source_line is None else None

    def _declare_registers(self) -> None:
        """Reads the rest of .reg: a type, and names of registers such as `%p` or `%r<8>`; perhaps .v2 or .v4 first."""
        tokens = self.tokens
        kind = tokens.take()
        items = {".v2": 2, ".v4": 4}.get(kind.text, 1)
        if items > 1:
            kind = tokens.take()
        width = register_width(kind.text)
        if width is None:
            raise UnsupportedInstruction(f".reg {kind.text}", kind.line, tokens.text_of(kind.line))
        while True:
            name = tokens.word()
            if items > 1:
                self._declare_vector(name, width, items)
            elif tokens.accept("<"):
                count = tokens.integer()
                tokens.expect(">")
                for index in range(count):
                    self._declare(f"{name.text}{index}", width, name.line)
            else:
                self._declare(name.text, width, name.line)
            if not tokens.accept(","):
                break
        tokens.expect(";")

    def _declare_vector(self, name: Token, width: int, items: int) -> None:
        """Declares a vector of so many registers in the scope, and its elements by their names, `v.x` or `v.r`."""
        if width == 1 or width * items > 128:
            raise PtxSyntaxError(f"{name.text} is a vector of {items} registers of {width} bits", name.line)
        elements = []
        for letter, other in zip("xyzw"[:items], "rgba", strict=False):
            elements.append(self._declare(f"{name.text}.{letter}", width, name.line))
            self.scope.names[f"{name.text}.{other}"] = elements[-1]
        self.scope.names[name.text] = Vector(tuple(elements))

    def _declare(self, name: str, width: int, line: int) -> Register:
        """Declares one register in the scope."""
        if name in self.scope.names and isinstance(self.scope.names[name], Register):
            raise PtxSyntaxError(f"register {name} is declared twice", line)
        unique = self._unique(name, self.registers)
        register = Register(unique, width)
        self.scope.names[name] = register
        self.registers[unique] = width
        return register

    def _instruction(self) -> None:
        """Reads one instruction, with its guard."""
        tokens = self.tokens
        guard = None
        first = tokens.next
        if tokens.accept("@"):
            negated = tokens.accept("!")
            guard = Guard(self._register(tokens.word(), 1), negated)
        opcode = tokens.word()
        parts = opcode.text.split(".")
        text = tokens.text_of(first.line)
        branch = parts[0] in _BRANCHES
        operands: list[Operand] = []
        if parts[0] == "call":
            self._call(guard, opcode, text)
            return
        items = tokens.items
        while items[tokens.at].text != ";":
            operands.append(self._operand(branch, opcode, text))
            behind = items[tokens.at].text
            if behind in (",", "|"):
                tokens.at += 1
            elif behind != ";":
                raise PtxSyntaxError(f"unexpected {behind!r} in {text}", tokens.next.line)
        tokens.at += 1
        if "cc" in parts[1:]:
            self.registers[CARRY.name] = CARRY.width
            operands.insert(1, CARRY)
        if parts[0] in _WITH_CARRY:
            self.registers[CARRY.name] = CARRY.width
            operands.append(CARRY)
        if parts[0] in ("ld", "st") and any(isinstance(o, Address) and self._is_passed(o) for o in operands):
            parts = ["local" if part.startswith("param") else part for part in parts]
        if parts[0] == "ret" and self.calls:
            parts, operands, branch = ["bra"], [Label(_RETURN)], True
        self._append(parts, guard, operands, first.line, text, branch)

    def _append(
        self, parts: list[str], guard: Guard | None, operands: list[Operand], line: int, text: str, branch: bool
    ) -> None:
        """Adds an instruction; the label of a `branch` is looked up once all are known."""
        if branch:
            self.jumps.append((len(self.instructions), self.scope))
        place = line, self.source_line, text, self.elsewhere
        self.instructions.append(Instruction(parts[0], tuple(parts[1:]), guard, tuple(operands), *place))

    def _is_passed(self, address: Address) -> bool:
        """Whether an address is that of what a function is called with, or of what it returns."""
        return isinstance(address.base, Symbol) and address.base.name in self.passed

    def _call(self, guard: Guard | None, opcode: Token, text: str) -> None:
        """Reads the rest of a call, and in its place the instructions of the function."""
        tokens = self.tokens
        returned = self._names()
        if returned:
            tokens.expect(",")
        name = tokens.word().text
        given = self._names() if tokens.accept(",") else []
        function = self.functions.get(name)
        if function is None or tokens.next.text != ";":
            raise UnsupportedInstruction(
                opcode.text, opcode.line, text, "calls of functions that the PTX does not have"
            )
        if function in self.calls:
            raise UnsupportedInstruction(opcode.text, opcode.line, text, "recursive calls")
        formal = (*function.returned, *function.parameters)
        if len(returned) != len(function.returned) or len(given) != len(function.parameters):
            raise PtxSyntaxError(f"{name} is called with other parameters than it has: {text}", opcode.line)
        scope = Scope(self.scopes, self.outer, dict(zip(formal, (*returned, *given), strict=True)))
        self.scopes += 1
        behind, outside = tokens.at, self.scope
        scope.labels[_RETURN] = f"{_RETURN}{scope.number}"
        self.scope, tokens.at = scope, function.body
        self.calls.append(function)
        if guard is not None:
            skipped = Guard(guard.register, not guard.negated)
            self._append(["bra"], skipped, [Label(_RETURN)], opcode.line, text, True)
        self._block()
        self.calls.pop()
        self.scope, tokens.at = outside, behind
        self.labels[scope.labels[_RETURN]] = len(self.instructions)

    def _names(self) -> list[Symbol]:
        """Reads the variables in parentheses that are passed to a function, or returned by it, if there are any."""
        tokens = self.tokens
        found: list[Symbol] = []
        if tokens.accept("("):
            while not tokens.accept(")"):
                token = tokens.word()
                known = self.scope.find(token.text)
                if not isinstance(known, Symbol) or known.name not in self.passed:
                    text = tokens.text_of(token.line)
                    raise UnsupportedInstruction("call", token.line, text, f"{token.text} is no variable of the call")
                found.append(known)
                tokens.accept(",")
        return found

    def _register(self, token: Token, width: int) -> Register:
        """The register of `width` bits that a token names."""
        found = self.scope.find(token.text)
        if not isinstance(found, Register) or found.width != width:
            raise PtxSyntaxError(f"{token.text} is no register of {width} bits", token.line)
        return found

    def _operand(self, branch: bool, opcode: Token, text: str) -> Operand:
        """Reads an operand of the instruction in the line `text`; names are labels if it is a `branch`."""
        tokens = self.tokens
        token = tokens.next
        if token.kind == "word":  # as most are
            found = None if branch else self.scope.names.get(token.text)
            if type(found) is Register:
                tokens.at += 1
                return found
            return self._single(branch)
        if tokens.accept("["):
            return self._address(opcode, text)
        if tokens.accept("{"):
            items: list[Register | Immediate] = []
            while not tokens.accept("}"):
                item = self._single(False)
                if not isinstance(item, (Register, Immediate)):
                    raise UnsupportedInstruction(opcode.text, opcode.line, text, f"{token.text} in a vector")
                items.append(item)
                tokens.accept(",")
            return Vector(tuple(items))
        if tokens.accept("!"):
            return Guard(self._register(tokens.word(), 1), True)
        return self._single(branch)

    def _single(self, branch: bool) -> Operand:
        """Reads an operand that is neither an address nor a vector nor a negated predicate."""
        tokens = self.tokens
        negative = tokens.next.kind != "word" and (tokens.accept("-") or (tokens.accept("+") and False))
        token = tokens.take()
        if token.kind == "number":
            return read_number(token, negative)
        if token.kind != "word" or negative:
            raise PtxSyntaxError(f"unexpected {token.text!r} in {tokens.text_of(token.line)}", token.line)
        if branch:
            return Label(token.text)
        if token.text == "_":
            return Register("_", 0)
        if token.text == "WARP_SZ":
            return Immediate(32, None)
        found = self.scope.find(token.text)
        if isinstance(found, Register | Vector):
            return found
        if isinstance(found, Symbol):
            return Symbol(found.name, self._offset())
        if token.text.startswith("%"):
            return Special(token.text)
        raise PtxSyntaxError(f"{token.text} is not declared", token.line)

    def _offset(self) -> int:
        """Reads the offset after a name (`+16`, `-4` or `+-4`); 0 if there is none."""
        tokens = self.tokens
        if tokens.accept("+"):
            return tokens.integer()
        return tokens.integer() if tokens.next.text == "-" else 0

    def _address(self, opcode: Token, text: str) -> Address | TensorAddress:
        """Reads an address in brackets after the first bracket."""
        tokens = self.tokens
        base = self._single(False)
        if isinstance(base, Symbol):
            address = Address(Symbol(base.name), base.offset)
        elif isinstance(base, Register) and base.width in (32, 64) or isinstance(base, Immediate) and not base.width:
            address = Address(base, self._offset())
        else:
            raise PtxSyntaxError(f"no address: {text}", opcode.line)
        if tokens.accept(","):
            coordinates = self._operand(False, opcode, text)
            if not isinstance(coordinates, Vector):
                raise PtxSyntaxError(f"no coordinates: {text}", opcode.line)
            tokens.expect("]")
            return TensorAddress(address, coordinates.items)
        tokens.expect("]")
        return address
