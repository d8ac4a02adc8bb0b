"""Collective operations of the 32 threads of a warp: shuffles, votes, reductions, matrix copies and products."""
