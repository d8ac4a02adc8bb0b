"""What each instruction on registers computes: from its modifiers and operands to a function of arrays."""
