"""The semantics of each instruction on registers: a function of arrays, built from its modifiers and operands."""
