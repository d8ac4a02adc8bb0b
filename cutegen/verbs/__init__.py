"""What the larger verbs of `cutegen` do, a folder each. Their flags are in `cutegen.cli`."""
