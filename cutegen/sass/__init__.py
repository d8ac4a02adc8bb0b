"""What the assembler made of a kernel: SASS instructions, where they lead, who runs them, and what a spec expects."""
