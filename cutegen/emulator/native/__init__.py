"""Loops over lanes in C, for instructions that only read and write registers: a faster form of what numpy does."""
