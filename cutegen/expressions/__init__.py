"""The language of `compute`: its parser, the types of every node, and expressions as sums."""
