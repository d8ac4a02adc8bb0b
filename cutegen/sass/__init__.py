"""Analysis of a kernel's SASS: its instructions, its control flow, the roles of warps, and what a spec expects."""
