"""A schedule that names no mma atom: which of the families that share an op it is given, for which targets and calls.

The family of such a schedule is the fastest one, in the order of `cutegen.families`, whose inference and rules take
the spec. What it was not, and why, `explain` tells.
"""
