"""Implementations of the larger verbs of `cutegen`, a folder each. Their flags are in `cutegen.cli`."""
